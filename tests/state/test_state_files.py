"""Sealed files are opened as they were sealed or not at all; creation has exactly one winner."""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everfresh.errors import Code, EverfreshError
from everfresh.state import create_file, open_sealed, replace_file, seal
from everfresh.state.files import ALIGNMENT, DIGEST_BYTES, live_temporaries, seal_chunks, write_all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    kind=st.text(max_size=8),
    header=st.dictionaries(st.text(), JSON, max_size=4),
    sections=st.dictionaries(st.text(), st.binary(max_size=200), max_size=4),
)
def test_round_trip(kind: str, header: dict[str, Any], sections: dict[str, bytes]) -> None:
    data = seal(kind, header, sections)
    sealed = open_sealed(data, kind)
    assert sealed.header == header
    assert {name: bytes(view) for name, view in sealed.sections.items()} == sections
    assert sealed.digest == data[-16:].hex()
    assert data == seal(kind, header, sections)


def test_sections_are_views_at_aligned_offsets() -> None:
    sections = {"x": b"12345", "empty": b"", "y": np.arange(10.0).reshape(2, 5), "z": b"q" * 100}
    data = seal("k", {"a": 1}, sections)
    sealed = open_sealed(data, "k")
    base = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    for name, view in sealed.sections.items():
        if view.nbytes:
            address = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
            assert (address - base) % ALIGNMENT == 0, name
            assert 0 < address - base < len(data), name
    assert np.frombuffer(sealed.sections["y"]).tolist() == list(range(10))


SMALL = seal("note", {"n": 1}, {"t": b"some bytes"})


def test_every_shorter_file_is_refused() -> None:
    for length in range(len(SMALL)):
        with pytest.raises(EverfreshError) as caught:
            open_sealed(SMALL[:length], "note", "the file")
        assert caught.value.code == Code.DAMAGED
        assert "the file" in caught.value.message
        assert caught.value.hint


def test_every_flipped_bit_is_refused() -> None:
    for position in range(len(SMALL)):
        for bit in range(8):
            data = bytearray(SMALL)
            data[position] ^= 1 << bit
            with pytest.raises(EverfreshError) as caught:
                open_sealed(data, "note", "the file")
            assert caught.value.code == Code.DAMAGED


def test_longer_file_other_kind_and_foreign_file_are_refused() -> None:
    for data, kind, what in [
        (SMALL + b"\0", "note", "bytes long"),
        (SMALL, "commit", "note"),
        (b"PAR1" * 100, "note", "do not start"),
    ]:
        with pytest.raises(EverfreshError, match=what) as caught:
            open_sealed(data, kind)
        assert caught.value.code == Code.DAMAGED


def test_header_must_be_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        seal("k", {"x": float("nan")}, {})


@pytest.mark.parametrize("durable", [False, True])
def test_create_keeps_what_is_there(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "f"
    assert create_file(path, b"first", durable)
    assert not create_file(path, b"second", durable)
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["f"]
    assert path.stat().st_nlink == 1


@pytest.mark.parametrize("durable", [False, True])
def test_replace_replaces(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "f"
    replace_file(path, b"first", durable)
    replace_file(path, [b"sec", b"", b"ond"], durable)
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["f"]


def test_create_race_between_threads_has_one_winner(tmp_path: Path) -> None:
    for attempt in range(20):
        path, barrier, wins = tmp_path / str(attempt), threading.Barrier(4), list[int]()

        def run(number: int, path: Path, barrier: threading.Barrier, wins: list[int]) -> None:
            barrier.wait()
            if create_file(path, str(number).encode(), durable=False):
                wins.append(number)

        threads = [threading.Thread(target=run, args=(number, path, barrier, wins)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(wins) == 1
        assert path.read_bytes() == str(wins[0]).encode()
    assert not list(tmp_path.glob("*.tmp"))


RACER = """
import sys
from pathlib import Path
from everfresh.state import create_file
folder, number = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
print(*[name for name in range(200) if create_file(folder / str(name), number.encode(), False)])
"""


def test_create_race_between_processes_has_one_winner(tmp_path: Path, child: Any) -> None:
    racers = [child(RACER, tmp_path, number) for number in range(2)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    wins = [set(map(int, racer.communicate()[0].split())) for racer in racers]
    assert not wins[0] & wins[1]
    assert wins[0] | wins[1] == set(range(200))
    for number, names in enumerate(wins):
        assert all((tmp_path / str(name)).read_bytes() == str(number).encode() for name in names)


def test_create_where_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert create_file(tmp_path / "f", b"first", durable=True)
    assert not create_file(tmp_path / "f", b"second", durable=True)

    # also when the other one comes between the look and the creation
    def come_between() -> None:
        (tmp_path / "g").write_bytes(b"theirs")

    assert not create_file(tmp_path / "g", b"first", True, come_between)
    assert (tmp_path / "f").read_bytes() == b"first"
    assert (tmp_path / "g").read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path)) == ["f", "g"]


def test_other_errors_of_link_are_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str, target: str) -> None:
        raise OSError(errno.EIO, "disk")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(OSError, match="disk"):
        create_file(tmp_path / "f", b"first", durable=False)
    assert os.listdir(tmp_path) == []


def test_a_link_whose_answer_was_lost_was_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def lose_answer(source: str, target: str) -> None:
        link(source, target)
        raise FileExistsError(errno.EEXIST, "seen twice")

    monkeypatch.setattr(os, "link", lose_answer)
    assert create_file(tmp_path / "f", b"first", durable=False)
    assert (tmp_path / "f").read_bytes() == b"first"


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writev = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, views: writev(fd, [bytes(views[0][:7])]))
    replace_file(tmp_path / "f", [b"0123456789" * 3, b"", b"abc"], durable=False)
    assert (tmp_path / "f").read_bytes() == b"0123456789" * 3 + b"abc"


def test_many_sections_are_written_in_one_file(tmp_path: Path) -> None:
    sections = {str(number): str(number).encode() for number in range(1500)}
    replace_file(tmp_path / "f", seal_chunks("k", {}, sections), durable=False)
    opened = open_sealed((tmp_path / "f").read_bytes(), "k").sections
    assert {name: bytes(view) for name, view in opened.items()} == sections


def test_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, chunks: Any) -> None:
        write_all(fd, [b"half"])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("everfresh.state.files.write_all", full)
    for put in (create_file, replace_file):
        with pytest.raises(OSError, match="full"):
            put(tmp_path / "f", b"whole", True)
    assert os.listdir(tmp_path) == []
    assert not live_temporaries()


def test_layout_1_is_still_read() -> None:
    """Files that were sealed before sections had a crc: the digest of all that stands before it."""
    data = bytearray(seal("note", {"epoch": 7}, {"text": b"hello", "more": b"x" * 100}))
    struct.pack_into("<H", data, 8, 1)
    data[-DIGEST_BYTES:] = hashlib.blake2b(data[:-DIGEST_BYTES], digest_size=DIGEST_BYTES).digest()
    sealed = open_sealed(bytes(data), "note")
    assert (sealed.header, bytes(sealed.sections["text"])) == ({"epoch": 7}, b"hello")
    for place in (9, 40, len(data) // 2, len(data) - DIGEST_BYTES - 1, len(data) - 1):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(EverfreshError):
            open_sealed(bytes(damaged), "note")
