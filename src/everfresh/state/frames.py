"""Frames of the commit log: where a record begins, and whether it is whole.

A frame is a magic word, the crc of the rest, the epoch and the length of the sealed record that follows. Its
own checksum makes a length trustworthy before the record is read, so that a record cut short can be told
from one whose length was damaged.
"""

from __future__ import annotations

import re
import struct
import zlib

from everfresh.errors import EverfreshError
from everfresh.state.files import open_sealed
from everfresh.state.record import KIND

_FRAME = struct.Struct("<4sIQQ")
_MAGIC = b"EFLG"
FRAME_BYTES = _FRAME.size


def make_frame(epoch: int, length: int) -> bytes:
    """The frame in front of a record.

    >>> read_frame(make_frame(epoch=7, length=100))
    (7, 100)
    """
    body = struct.pack("<QQ", epoch, length)
    return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body


def read_frame(data: bytes) -> tuple[int, int] | None:
    """Epoch and length of the record that follows, or None when this is not a whole frame."""
    if len(data) < FRAME_BYTES:
        return None
    magic, crc, epoch, length = _FRAME.unpack_from(data)
    return (epoch, length) if magic == _MAGIC and crc == zlib.crc32(data[8:FRAME_BYTES]) else None


def frames_in(data: bytes) -> list[int]:
    """The epochs of all frames in these bytes, wherever they stand."""
    places = [match.start() for match in re.finditer(_MAGIC, data)]
    frames = [read_frame(data[place : place + FRAME_BYTES]) for place in places]
    return [frame[0] for frame in frames if frame is not None]


def problem_of(data: bytes, epoch: int) -> str:
    """What is wrong with a record; empty when nothing is."""
    try:
        found = open_sealed(data, KIND).header["epoch"]
    except EverfreshError as error:
        return error.message
    return "" if found == epoch else f"it is the record of epoch {found}"


def is_interrupted(tail: bytes, epoch: int) -> bool:
    """Whether these bytes are what an interrupted write leaves: the start of a record, and no more."""
    if len(tail) < FRAME_BYTES:
        return True
    frame = read_frame(tail)
    return frame is not None and frame[0] == epoch and len(tail) < FRAME_BYTES + frame[1]
