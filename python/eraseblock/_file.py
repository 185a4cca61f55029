"""Files of an image as Python's streams."""

from __future__ import annotations

import io
import os
from typing import Any

from . import _native

BUFFER = 128 * 1024
"""Bytes that a buffered file reads at a time."""

PIECE = 1 << 20
"""Bytes that are read without the interpreter at a time."""


class RawFile(io.RawIOBase):
    """An open file of an image, without a buffer."""

    def __init__(self, native: _native.File, name: str) -> None:
        super().__init__()
        self._native = native
        self.size = native.size()
        self._position = 0
        self.name = name
        self.mode = "rb"

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check_open()
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}
        if whence not in start:
            raise ValueError(f"whence is {whence}: expected 0, 1 or 2")
        position = start[whence] + offset
        if position < 0:
            raise ValueError(f"a seek to before the start: {position}")
        self._position = position
        return position

    def readinto(self, buffer: Any, /) -> int:
        self._check_open()
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self.size - self._position))
        for start in range(0, length, PIECE):
            self._native.read_into(view[start : min(start + PIECE, length)], self._position + start)
        self._position += length
        return length

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


def buffered(raw: RawFile, buffering: int = -1) -> io.BufferedReader:
    """Return the file with a buffer."""
    return io.BufferedReader(raw, BUFFER if buffering <= 1 else buffering)
