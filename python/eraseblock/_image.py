"""Images that are open for reading, and their volumes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Literal

from . import _native
from ._errors import Findings, NoSuchVolume
from ._file import RawFile, buffered
from ._fs import FileSystem
from ._types import Format, ImageLike, Options, VolumeRef, host, inner, text

if TYPE_CHECKING:
    from typing import Unpack


def open(image: ImageLike, **options: Unpack[Options]) -> Image:
    """Open an image for reading; nothing is ever written to it.

    ``image`` is a path, an image in memory, or a seekable binary file. The format is detected, unless
    ``options`` say more: ``format``, ``peb``, ``page``, ``subpage``, ``vid_offset``, ``leb``,
    ``byte_order``, ``offset`` and ``length`` of the image in the file, ``strict`` (refuse what Linux
    would refuse), ``threads``.

    Raises UnsupportedFormat if nothing is recognised, or several images.
    """
    return Image(_native.open(host(image), image, **options))


class Image:
    """An open image; ``with`` closes it. What was made of it stays usable."""

    def __init__(self, native: _native.Image) -> None:
        self._native: _native.Image | None = native
        self._volumes: dict[str, Volume] | None = None
        self._fs: FileSystem | None = None

    def _open(self) -> _native.Image:
        if self._native is None:
            raise ValueError("the image is closed")
        return self._native

    def __enter__(self) -> Image:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the image: writers that respect locks may then change it."""
        self._native = self._volumes = self._fs = None

    @property
    def kind(self) -> Format:
        """What it is: ``"ubi"``, ``"ubifs"``, ``"jffs2"``, ..."""
        return self._open().kind()  # type: ignore[return-value]

    @property
    def findings(self) -> Findings:
        """What was found when it was opened."""
        return Findings._of(self._open().findings())

    @property
    def volumes(self) -> Mapping[str, Volume]:
        """The volumes of a UBI image by their names, in the order of their numbers.

        In a damaged image two may have the same name: the second one is found by its ``file_name``.
        """
        if self._volumes is None:
            found: dict[str, Volume] = {}
            for volume in map(Volume, self._open().volumes()):
                name = volume.name if volume.name not in found else volume.file_name
                while name in found:
                    name += "_"
                found[name] = volume
            self._volumes = found
        return MappingProxyType(self._volumes)

    def __getitem__(self, volume: VolumeRef) -> Volume:
        volumes = self.volumes
        if isinstance(volume, int):
            found = next((each for each in volumes.values() if each.id == volume), None)
        else:
            found = volumes.get(text(inner(volume)))
        if found is None:
            names = ", ".join(volumes) or "none"
            raise NoSuchVolume(f"there is no volume {volume!r} (there are: {names})")
        return found

    @property
    def fs(self) -> FileSystem:
        """The only file system: of a bare image, or of the one volume that holds one."""
        if self._fs is None:
            self._fs = FileSystem(self._open().file_system())
        return self._fs

    def __repr__(self) -> str:
        state = "closed" if self._native is None else self._native.kind()
        return f"<eraseblock.Image {state}>"


class Volume:
    """A volume of a UBI image."""

    def __init__(self, native: _native.Volume) -> None:
        self._native = native
        self._fs: FileSystem | None = None
        self._holds: bool | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return text(self._native.name())

    @property
    def file_name(self) -> str:
        """Its name as that of a file: ``volume-NUMBER`` if its own cannot be one. No two volumes have the same."""
        return text(self._native.file_name())

    @property
    def id(self) -> int:
        """Its number."""
        return self._native.id()

    @property
    def kind(self) -> Literal["dynamic", "static"]:
        """Whether it is dynamic or static."""
        return self._native.kind()

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self._native.size()

    @property
    def fs(self) -> FileSystem:
        """The file system in it."""
        if self._fs is None:
            self._fs = FileSystem(self._native.file_system())
        return self._fs

    def open(self) -> io.BufferedReader:
        """Open its raw content: the data of a static volume, all LEBs of a dynamic one."""
        return buffered(self._raw())

    def _raw(self) -> RawFile:
        return RawFile(self._native.content(), self.name)

    def __repr__(self) -> str:
        return f"<eraseblock.Volume {self.id} {self.name!r} {self.kind}>"
