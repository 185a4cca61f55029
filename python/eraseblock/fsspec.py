"""Flash images as file systems of fsspec, and through it of pandas, Dask, Ray and others.

    pandas.read_csv("ubi://rootfs/data/x.csv::file://board.ubi")
    fsspec.open("jffs2://etc/motd::s3://bucket/flash.img")

The first component of a path in ``ubi://`` is the volume: its name, or ``volume-NUMBER`` if that cannot be the name
of a file, so that copies of a whole image stay in their folder. A file system reads as Linux would after mounting it;
nothing is ever written.
"""

from __future__ import annotations

import os
import stat
from typing import IO, Any, NoReturn

import fsspec
import fsspec.implementations.local

from . import _image
from ._errors import Error, NoSuchVolume
from ._fs import FileSystem
from ._types import Format

KINDS = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
"""What fsspec calls the kinds of files."""


class EraseblockFileSystem(fsspec.AbstractFileSystem):
    """An image: of UBI (``ubi://VOLUME/PATH``), or with one file system (``ubifs://PATH``, ...)."""

    protocol = ("ubi", "ubifs", "jffs2", "yaffs")
    root_marker = ""
    cachable = True

    def __init__(
        self,
        fo: str | os.PathLike[str] | IO[bytes] = "",
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        format: Format | None = None,
        **options: Any,
    ) -> None:
        """Open an image: ``fo`` is a path, or a URL for another file system of fsspec, or an open file."""
        super().__init__(**options)
        if not fo:
            raise ValueError("no image: expected ubi://PATH::file://IMAGE, or fo=IMAGE")
        self._source: Any = None
        image: Any = fo
        if isinstance(fo, (str, os.PathLike)):
            image = os.fspath(fo)
            local = fsspec.implementations.local.LocalFileSystem
            if (target_protocol or fsspec.core.split_protocol(image)[0] or "file") in local.protocol:
                image = local._strip_protocol(image)
            else:
                self._source = fsspec.open(image, "rb", protocol=target_protocol, **(target_options or {}))
                image = self._source.open()
        self._image = _image.open(image, format=format)
        self._fs: FileSystem | None = None if self._image.kind == "ubi" else self._image.fs

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = os.fspath(path).partition("::")[0]
        for protocol in cls.protocol:
            path = path.removeprefix(f"{protocol}://")
        return path.strip("/")

    def _find(self, path: str) -> tuple[FileSystem | None, str]:
        """Return the file system that holds a path, and the path in it; no file system: the list of volumes."""
        path = self._strip_protocol(path)
        if self._fs is not None:
            return self._fs, path
        volume, _, inside = path.partition("/")
        if not volume:
            return None, ""
        for each in self._image.volumes.values():
            if each.file_name == volume:
                return each.fs, inside
        try:
            return self._image[volume].fs, inside
        except NoSuchVolume as error:
            raise FileNotFoundError(2, f"no volume {volume!r}", path) from error

    def _volume(self, name: str) -> dict[str, Any]:
        return {"name": name, "size": 0, "type": "directory", "mode": stat.S_IFDIR | 0o755}

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Describe a file: what a symbolic link leads to, if it leads somewhere, and the link as well."""
        path = self._strip_protocol(path)
        fs, inside = self._find(path)
        if fs is None:
            return self._volume("")
        found = fs.lstat(inside)
        is_link = stat.S_ISLNK(found.st_mode)
        info: dict[str, Any] = {"name": path, "islink": is_link}
        if is_link:
            info["destination"] = fs.readlink(inside)
            try:
                found = fs.stat(inside)
            except Error:
                pass
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "other")
        return info | {
            "type": kind,
            "size": found.st_size if kind == "file" else 0,
            "mode": found.st_mode,
            "uid": found.st_uid,
            "gid": found.st_gid,
            "nlink": found.st_nlink,
            "ino": found.st_ino,
            "mtime": found.st_mtime,
        }

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """List a directory, or a file as itself."""
        path = self._strip_protocol(path)
        fs, inside = self._find(path)
        if fs is None:
            names = [volume.file_name for volume in self._image.volumes.values()]
        elif self.info(path)["type"] != "directory":
            return [self.info(path)] if detail else [path]
        else:
            names = [f"{path}/{name}".lstrip("/") for name in fs.listdir(inside)]
        if not detail:
            return names
        return [self._volume(name) for name in names] if fs is None else [self.info(name) for name in names]

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> IO[bytes]:
        if mode != "rb":
            self._refuse()
        fs, inside = self._find(path)
        if fs is None or not inside:
            raise IsADirectoryError(21, "is a directory", path)
        return fs.open(inside)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """Read a file, or a part of it; negative numbers count from its end."""
        with self._open(path) as file:
            size = file.seek(0, os.SEEK_END)
            first, last, _ = slice(start, end).indices(size)
            file.seek(first)
            return file.read(max(last - first, 0))

    def created(self, path: str) -> NoReturn:
        """Refuse: flash file systems keep no time of creation."""
        raise NotImplementedError("flash file systems keep no time of creation")

    def modified(self, path: str) -> Any:
        """Return the last change of the content."""
        import datetime

        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    def ukey(self, path: str) -> str:
        """Return what changes when the file does."""
        info = self.info(path)
        return fsspec.utils.tokenize(info["ino"] if "ino" in info else path, info["size"], info.get("mtime"))

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise PermissionError(30, "images are read-only here; eraseblock.edit changes them")

    mkdir = makedirs = rmdir = rm = rm_file = _rm = cp_file = put_file = pipe_file = touch = _refuse
