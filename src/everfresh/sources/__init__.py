"""Streams into tables: `db.stream`, each batch of a stream exactly once.

A stream numbers its batches 0, 1, 2, ... and hands each in at least once, with the same rows. An epoch that
takes batch n of stream s has `sources[s] = n` in its commit record; a batch whose number is not above the
last one is not looked at. How far a stream has read is kept in `sources/<stream>/` of the folder, beside the
records that it belongs to. Implements "Streams" of docs/design/state.md.

- `handle`  what a user holds of a running stream, and the taking of a batch
- `home`    the folder of a stream
- `folder`  files that appear in a folder, found by polling
- `spark`   streaming DataFrames, and files found by Structured Streaming
- `methods` the methods of `Database`
"""

from everfresh.sources.handle import Stream
from everfresh.sources.methods import StreamMethods

__all__ = ["Stream", "StreamMethods"]
