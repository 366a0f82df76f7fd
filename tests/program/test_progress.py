"""The line that a terminal shows for what takes long."""

import io
import threading

import pytest

from everfresh import progress
from everfresh.progress import patience, shown


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


def test_what_has_no_parts_is_said_after_a_while_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    said = threading.Event()

    class Seen(Terminal):
        def flush(self) -> None:
            said.set()

    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    terminal, log = Seen(), io.StringIO()
    with patience("compiling", terminal), patience("compiling", log):
        assert said.wait(60)
        assert terminal.getvalue() == "\r\x1b[Kcompiling ..."
    assert terminal.getvalue() == "\r\x1b[Kcompiling ...\r\x1b[K"
    assert log.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE", 1e6)
    quick = Terminal()
    with patience("compiling", quick):
        pass
    assert quick.getvalue() == ""
