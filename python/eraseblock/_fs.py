"""File systems of an image."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from . import _native
from ._errors import Error, Findings, Listed
from ._file import RawFile, buffered
from ._path import Path
from ._types import HostPath, InnerPath, Sink, inner, inner_all, text


class Entry(NamedTuple):
    """An entry of a directory."""

    name: str
    kind: int
    """The bits of ``stat.S_IFMT``."""
    ino: int


@dataclass(frozen=True)
class Stat:
    """What is known about a file, under the names of ``os.stat_result``."""

    st_mode: int
    st_ino: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_size: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_rdev: int
    _xattrs: Callable[[], dict[str, bytes]] = field(repr=False, compare=False)

    @property
    def st_atime(self) -> float:
        """The last access, in seconds."""
        return self.st_atime_ns / 1e9

    @property
    def st_mtime(self) -> float:
        """The last change of the content, in seconds."""
        return self.st_mtime_ns / 1e9

    @property
    def st_ctime(self) -> float:
        """The last change of the inode, in seconds."""
        return self.st_ctime_ns / 1e9

    @property
    def xattrs(self) -> dict[str, bytes]:
        """The extended attributes, read when they are asked for."""
        return self._xattrs()


@dataclass(frozen=True)
class ExtractReport:
    """What was extracted."""

    files: int
    directories: int
    symlinks: int
    specials: int
    """Devices, fifos and sockets."""
    hard_links: int
    """Further names of files that have several."""
    bytes: int
    """Lengths of the regular files, holes included."""
    left_out: int
    """Names that could not be delivered."""
    damaged: int
    """Files written with zeros in place of unreadable data."""
    findings: Findings

    @classmethod
    def _of(cls, extracted: tuple[list[int], Listed]) -> ExtractReport:
        return cls(*extracted[0], Findings._of(extracted[1]))


class FileSystem:
    """A file system that is open for reading.

    Paths begin at its root, with or without a slash. Symbolic links are followed inside the image.
    """

    def __init__(self, native: _native.FileSystem) -> None:
        self._native = native

    @property
    def root(self) -> Path:
        """The root directory."""
        return Path(self, "/")

    def path(self, path: InnerPath = "/") -> Path:
        """Return a path in this file system."""
        return Path(self, text(inner(path)))

    def __truediv__(self, name: InnerPath) -> Path:
        return self.root / text(inner(name))

    def open(self, path: InnerPath, buffering: int = -1) -> io.BufferedReader:
        """Open a regular file for reading."""
        return buffered(self._raw(path), buffering)

    def _raw(self, path: InnerPath) -> RawFile:
        return RawFile(self._native.open(inner(path)), text(inner(path)))

    def read_bytes(self, path: InnerPath) -> bytes:
        """Read a whole regular file."""
        return self._native.read(inner(path))

    def read_text(
        self, path: InnerPath, encoding: str | None = None, errors: str | None = None
    ) -> str:
        """Read a whole regular file as text, UTF-8 unless it is another encoding."""
        return self.read_bytes(path).decode(encoding or "utf-8", errors or "strict")

    def stat(self, path: InnerPath, *, follow_symlinks: bool = True) -> Stat:
        """Return what is known about a file."""
        where = inner(path)
        mode, ino, nlink, uid, gid, size, times, rdev = self._native.stat(where, follow_symlinks)
        device = os.makedev(*rdev) if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) else 0
        is_link = stat.S_ISLNK(mode)

        def xattrs() -> dict[str, bytes]:
            # Those of a symbolic link cannot be named by a path that is followed.
            return {} if is_link else self.xattrs(where)

        return Stat(mode, ino, nlink, uid, gid, size, *times, device, xattrs)

    def lstat(self, path: InnerPath) -> Stat:
        """Return what is known about a file or symbolic link."""
        return self.stat(path, follow_symlinks=False)

    def exists(self, path: InnerPath) -> bool:
        """Return whether there is such a file, symbolic links followed."""
        try:
            self._native.stat(inner(path), True)
        except Error:
            return False
        return True

    def readlink(self, path: InnerPath) -> str:
        """Return the target of a symbolic link."""
        return text(self._native.read_link(inner(path)))

    def xattrs(self, path: InnerPath) -> dict[str, bytes]:
        """Return the extended attributes of a file."""
        return {text(name): value for name, value in self._native.xattrs(inner(path))}

    def entries(self, path: InnerPath = "/") -> list[Entry]:
        """Return the entries of a directory, sorted by name."""
        return [Entry(text(name), kind, ino) for name, kind, ino in self._native.read_dir(inner(path))]

    def listdir(self, path: InnerPath = "/") -> list[str]:
        """Return the names in a directory, sorted."""
        return [entry.name for entry in self.entries(path)]

    def walk(
        self,
        top: InnerPath = "/",
        topdown: bool = True,
        onerror: Callable[[Error], object] | None = None,
        followlinks: bool = False,
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """Walk a tree as ``os.walk`` does; changes of the list of directories choose where it goes on.

        A directory that cannot be read is passed to ``onerror``, or left out.
        """
        todo: list[tuple[str, list[str], list[str]] | str] = [text(inner(top))]
        while todo:
            where = todo.pop()
            if isinstance(where, tuple):
                yield where
                continue
            try:
                dirs, files, below = self._sorted(where, followlinks)
            except Error as error:
                if onerror is not None:
                    onerror(error)
                continue
            if topdown:
                yield where, dirs, files
                chosen = [name for name in dirs if followlinks or name in below]
                todo.extend(_join(where, name) for name in reversed(chosen))
            else:
                todo.append((where, dirs, files))
                chosen = [name for name in dirs if followlinks or name in below]
                todo.extend(_join(where, name) for name in reversed(chosen))

    def _sorted(self, where: str, followlinks: bool) -> tuple[list[str], list[str], set[str]]:
        """Return directories, other files, and the directories that are no symbolic links."""
        dirs: list[str] = []
        files: list[str] = []
        below: set[str] = set()
        for entry in self.entries(where):
            if stat.S_ISDIR(entry.kind):
                below.add(entry.name)
                dirs.append(entry.name)
            elif stat.S_ISLNK(entry.kind) and self._leads_to_dir(_join(where, entry.name)):
                dirs.append(entry.name)
            else:
                files.append(entry.name)
        return dirs, files, below

    def _leads_to_dir(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self._native.stat(inner(path), True)[0])
        except Error:
            return False

    def extractall(
        self,
        path: HostPath,
        members: Sequence[InnerPath] | None = None,
        *,
        owners: bool | None = None,
        xattrs: bool = True,
        force: bool = False,
        keep_damaged: bool = False,
    ) -> ExtractReport:
        """Copy everything, or the members and what is below them, into a folder of the host.

        ``owners`` sets them always or never, instead of only when running as root. A folder that is not
        empty needs ``force``. With ``keep_damaged``, zeros take the place of unreadable data. What could
        not be delivered is among the findings of the report. After a KeyboardInterrupt, the files so far
        remain.
        """
        chosen = inner_all(members)
        return ExtractReport._of(
            self._native.extract(path, chosen, (owners, xattrs, force, keep_damaged))
        )

    def to_tar(
        self,
        fileobj: Sink,
        members: Sequence[InnerPath] | None = None,
        *,
        xattrs: bool = True,
        keep_damaged: bool = False,
    ) -> ExtractReport:
        """Write everything, or the members and what is below them, as a PAX archive."""
        return ExtractReport._of(
            self._native.to_tar(fileobj, inner_all(members), xattrs, keep_damaged)
        )

    @property
    def findings(self) -> Findings:
        """What was found when the file system was opened."""
        return Findings._of(self._native.findings())

    @property
    def late_findings(self) -> Findings:
        """What reading has found since."""
        return Findings._of(self._native.late_findings())

    def check(self) -> Findings:
        """Read every name, attribute and byte, and return all that is wrong."""
        return Findings._of(self._native.check())


def _join(top: str, name: str) -> str:
    return top + name if top.endswith("/") else f"{top}/{name}"
