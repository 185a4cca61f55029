"""Types of arguments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO, Literal, Protocol, TypedDict, Union

Format = Literal["ubi", "ubifs", "jffs2", "yaffs", "axfs", "logfs", "squashfs"]

HostPath = Union[str, "os.PathLike[str]"]
"""A path on the host."""

InnerPath = Union[str, bytes, "os.PathLike[str]"]
"""A path in an image, from its root; text stands for bytes as ``os.fsencode`` has it, in UTF-8."""

VolumeRef = Union[str, bytes, int]
"""A volume by its name or number."""

ImageLike = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, BinaryIO]
"""A path on the host, an image in memory, or a seekable binary file."""


class Sink(Protocol):
    """What takes an archive."""

    def write(self, data: bytes, /) -> object:
        """Take these bytes."""
        ...


class Options(TypedDict, total=False):
    """What an image is taken for instead of what is detected."""

    format: Format | None
    peb: int | None
    page: int | None
    subpage: int | None
    vid_offset: int | None
    leb: int | None
    byte_order: Literal["little", "big"] | None
    offset: int | None
    length: int | None
    strict: bool
    threads: int | None


def inner(path: InnerPath) -> bytes:
    """Return the bytes of a path in an image."""
    if isinstance(path, bytes):
        return path
    return os.fspath(path).encode("utf-8", "surrogateescape")


def inner_all(paths: Sequence[InnerPath] | None) -> list[bytes] | None:
    """Return the bytes of paths in an image."""
    if isinstance(paths, (str, bytes)):
        raise TypeError("members are a sequence of paths, not one path")
    return None if paths is None else [inner(path) for path in paths]


def text(name: bytes) -> str:
    """Return a name of an image as text, from which ``inner`` gets the same bytes."""
    return name.decode("utf-8", "surrogateescape")


def named(volume: VolumeRef) -> bytes:
    """Return the name of a volume, or its number as one."""
    return str(volume).encode() if isinstance(volume, int) else inner(volume)


def host(image: ImageLike) -> HostPath | None:
    """Return the path, if it is one."""
    return os.fspath(image) if isinstance(image, (str, os.PathLike)) else None
