"""The line that a terminal shows for what takes long."""

import io

import pytest

from everfresh.program.waiting import shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_there_after_two_seconds_and_goes() -> None:
    now, stream = [0.0], Terminal()
    with shown(None, stream, lambda: now[0]) as told:
        assert told is not None
        for second, done in ((1.0, 10), (2.5, 20), (2.6, 30), (4.0, 50)):
            now[0] = second
            told("compiling v", done, 200)
        assert stream.getvalue() == "\r\x1b[Kcompiling v: 10%\r\x1b[Kcompiling v: 25%"
    assert stream.getvalue().endswith("\r\x1b[K")


def test_an_interrupt_takes_the_line_away() -> None:
    now, stream = [0.0], Terminal()

    def work() -> None:
        with shown(None, stream, lambda: now[0]) as told:
            assert told is not None
            now[0] = 3.0
            told("loading v", 1, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert stream.getvalue() == "\r\x1b[Kloading v: 50%\r\x1b[K"


def test_what_was_asked_for_is_told_instead_and_a_log_has_nothing() -> None:
    def mine(what: str, done: int, total: int) -> None: ...

    with shown(mine, Terminal()) as told:
        assert told is mine
    with shown(None, io.StringIO()) as told:
        assert told is None
