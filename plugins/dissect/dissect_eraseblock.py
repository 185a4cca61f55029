"""UBI, UBIFS, JFFS2 and other flash file systems for dissect.target, by the package ``eraseblock``.

Put this file into a folder and name the folder in ``DISSECT_PLUGINS``, or with ``--plugin-path``:

    DISSECT_PLUGINS=plugins/dissect target-fs board.ubi ls /etc

The volumes of a UBI device become volumes of the target. The file systems are read as Linux would after
mounting them.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

import eraseblock
from dissect.target import filesystem, volume
from dissect.target.exceptions import (
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    NotASymlinkError,
)
from dissect.target.filesystem import DirEntry, Filesystem, FilesystemEntry
from dissect.target.helpers import fsutil
from dissect.target.volume import LogicalVolumeSystem, Volume

STARTS = (b"\x31\x18\x10\x06", b"\x85\x19", b"\x19\x85")
"""How a bare UBIFS and a JFFS2 of each byte order begin."""


class UbiVolumeSystem(LogicalVolumeSystem):
    """A UBI device."""

    __type__ = "ubi"

    def __init__(self, fh: BinaryIO, *args: Any, **kwargs: Any) -> None:
        self.image = eraseblock.open(fh)
        super().__init__(fh, *args, **kwargs)

    @classmethod
    def open_all(cls, volumes: list[BinaryIO]) -> Iterator[UbiVolumeSystem]:
        for fh in volumes:
            if cls.detect_volume(fh):
                yield cls(fh, disk=[fh])

    @staticmethod
    def _detect(fh: BinaryIO | list[BinaryIO]) -> bool:
        return any(map(UbiVolumeSystem.detect_volume, fh if isinstance(fh, list) else [fh]))

    @staticmethod
    def _detect_volume(fh: BinaryIO) -> bool:
        return fh.read(4) == b"UBI#"

    def _volumes(self) -> Iterator[Volume]:
        for each in self.image.volumes.values():
            content = each.open()
            size = content.seek(0, 2)
            yield Volume(
                content, each.id + 1, None, size, None, each.file_name, raw=each, disk=self.disk, vs=self
            )


class EraseblockFilesystem(Filesystem):
    """A file system in a UBI volume, or a bare one."""

    __type__ = "eraseblock"

    def __init__(self, fh: BinaryIO, *args: Any, **kwargs: Any) -> None:
        super().__init__(fh, *args, **kwargs)
        raw = getattr(fh, "raw", None)
        self.inside = raw.fs if isinstance(raw, eraseblock.Volume) else eraseblock.open(fh).fs

    @staticmethod
    def _detect(fh: BinaryIO) -> bool:
        return fh.read(4).startswith(STARTS)

    def get(self, path: str) -> FilesystemEntry:
        inner = self.inside.path(path)
        try:
            return Entry(self, path, (inner, inner.lstat()))
        except (eraseblock.NotFound, eraseblock.NotADirectory) as error:
            raise FileNotFoundError(path) from error


class Listed(DirEntry):
    """An entry of a directory."""

    def get(self) -> Entry:
        return Entry(self.fs, self.path, (self.entry, self.entry.lstat()))

    def stat(self, *, follow_symlinks: bool = True) -> fsutil.stat_result:
        return self.get().stat(follow_symlinks=follow_symlinks)


class Entry(FilesystemEntry):
    """A file; ``entry`` is its path in the image, and what is known about it."""

    def get(self, path: str) -> FilesystemEntry:
        return self.fs.get(fsutil.join(self.path, path, alt_separator=self.fs.alt_separator))

    def open(self) -> BinaryIO:
        if self.is_dir():
            raise IsADirectoryError(self.path)
        return self._resolve().entry[0].open("rb")

    def scandir(self) -> Iterator[Listed]:
        if not self.is_dir():
            raise NotADirectoryError(self.path)
        for inner in self._resolve().entry[0].iterdir():
            yield Listed(self.fs, self.path, inner.name, inner)

    def _has_kind(self, kind: int, follow_symlinks: bool) -> bool:
        try:
            found = self._resolve(follow_symlinks).entry[1]
        except filesystem.FilesystemError:
            return False
        return stat.S_IFMT(found.st_mode) == kind

    def is_dir(self, follow_symlinks: bool = True) -> bool:
        return self._has_kind(stat.S_IFDIR, follow_symlinks)

    def is_file(self, follow_symlinks: bool = True) -> bool:
        return self._has_kind(stat.S_IFREG, follow_symlinks)

    def is_symlink(self) -> bool:
        return stat.S_ISLNK(self.entry[1].st_mode)

    def readlink(self) -> str:
        if not self.is_symlink():
            raise NotASymlinkError(self.path)
        return self.entry[0].readlink()

    def stat(self, follow_symlinks: bool = True) -> fsutil.stat_result:
        return self._resolve(follow_symlinks).lstat()

    def lstat(self) -> fsutil.stat_result:
        found = self.entry[1]
        return fsutil.stat_result([
            found.st_mode, found.st_ino, id(self.fs), found.st_nlink, found.st_uid, found.st_gid,
            found.st_size, found.st_atime, found.st_mtime, found.st_ctime,
        ])


# Before the reader of JFFS2 that is there, which would take those images.
volume.LOGICAL_VOLUME_MANAGERS.insert(0, UbiVolumeSystem)
filesystem.FILESYSTEMS.insert(0, EraseblockFilesystem)
