"""Paths in an image: ``importlib.resources.abc.Traversable``, and the reading half of pathlib."""

from __future__ import annotations

import io
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, overload

from ._errors import Error, NotADirectory
from ._types import inner

if TYPE_CHECKING:
    from ._fs import FileSystem, Stat


class Path:
    """A path in a file system of an image. It begins at the root, and ``..`` stays in the image."""

    __slots__ = ("_fs", "_pure")

    def __init__(self, fs: FileSystem, path: str | PurePosixPath = "/") -> None:
        self._fs = fs
        self._pure = PurePosixPath("/", path)

    def _new(self, pure: PurePosixPath) -> Path:
        return Path(self._fs, pure)

    @property
    def fs(self) -> FileSystem:
        """The file system."""
        return self._fs

    @property
    def name(self) -> str:
        """The last component; bytes that are no UTF-8 are surrogates."""
        return self._pure.name

    @property
    def name_bytes(self) -> bytes:
        """The last component as the image has it."""
        return inner(self._pure.name)

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """The suffix of the name."""
        return self._pure.suffix

    @property
    def suffixes(self) -> list[str]:
        """All suffixes of the name."""
        return self._pure.suffixes

    @property
    def parts(self) -> tuple[str, ...]:
        """The components, the root first."""
        return self._pure.parts

    @property
    def parent(self) -> Path:
        """The directory above."""
        return self._new(self._pure.parent)

    @property
    def parents(self) -> Sequence[Path]:
        """The directories above, the nearest first."""
        return tuple(self._new(parent) for parent in self._pure.parents)

    def joinpath(self, *names: str) -> Path:
        """Return the path with these components appended."""
        return self._new(self._pure.joinpath(*names))

    def __truediv__(self, name: str) -> Path:
        return self.joinpath(name)

    def relative_to(self, other: Path | str) -> PurePosixPath:
        """Return the path from another one."""
        return self._pure.relative_to(other._pure if isinstance(other, Path) else other)

    def is_relative_to(self, other: Path | str) -> bool:
        """Return whether it is below another one."""
        return self._pure.is_relative_to(other._pure if isinstance(other, Path) else other)

    def with_name(self, name: str) -> Path:
        """Return the path with another name."""
        return self._new(self._pure.with_name(name))

    def with_suffix(self, suffix: str) -> Path:
        """Return the path with another suffix."""
        return self._new(self._pure.with_suffix(suffix))

    def match(self, pattern: str) -> bool:
        """Return whether the path matches a pattern, as pathlib does."""
        return self._pure.match(pattern)

    def as_posix(self) -> str:
        """Return the path as text."""
        return str(self._pure)

    __str__ = as_posix

    def __repr__(self) -> str:
        return f"eraseblock.Path({str(self._pure)!r})"

    def __hash__(self) -> int:
        return hash((id(self._fs), self._pure))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Path):
            return NotImplemented
        return self._fs is other._fs and self._pure == other._pure

    def __lt__(self, other: Path) -> bool:
        return self._pure < other._pure

    def stat(self, *, follow_symlinks: bool = True) -> Stat:
        """Return what is known about the file."""
        return self._fs.stat(str(self._pure), follow_symlinks=follow_symlinks)

    def lstat(self) -> Stat:
        """Return what is known about the file or symbolic link."""
        return self.stat(follow_symlinks=False)

    def exists(self) -> bool:
        """Return whether there is such a file, symbolic links followed."""
        return self._fs.exists(str(self._pure))

    def _is(self, kind: Callable[[int], bool], follow_symlinks: bool = True) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follow_symlinks).st_mode)
        except Error:
            return False

    def is_dir(self) -> bool:
        """Return whether it is a directory, symbolic links followed."""
        return self._is(stat.S_ISDIR)

    def is_file(self) -> bool:
        """Return whether it is a regular file, symbolic links followed."""
        return self._is(stat.S_ISREG)

    def is_symlink(self) -> bool:
        """Return whether it is a symbolic link."""
        return self._is(stat.S_ISLNK, follow_symlinks=False)

    def is_fifo(self) -> bool:
        """Return whether it is a fifo, symbolic links followed."""
        return self._is(stat.S_ISFIFO)

    def is_socket(self) -> bool:
        """Return whether it is a socket, symbolic links followed."""
        return self._is(stat.S_ISSOCK)

    def is_block_device(self) -> bool:
        """Return whether it is a block device, symbolic links followed."""
        return self._is(stat.S_ISBLK)

    def is_char_device(self) -> bool:
        """Return whether it is a character device, symbolic links followed."""
        return self._is(stat.S_ISCHR)

    def readlink(self) -> str:
        """Return the target of the symbolic link."""
        return self._fs.readlink(str(self._pure))

    def iterdir(self) -> Iterator[Path]:
        """Iterate over the entries of the directory, sorted by name."""
        for entry in self._fs.entries(str(self._pure)):
            yield self._new(self._pure / entry.name)

    def walk(
        self,
        top_down: bool = True,
        on_error: Callable[[Error], object] | None = None,
        follow_symlinks: bool = False,
    ) -> Iterator[tuple[Path, list[str], list[str]]]:
        """Walk the tree, as ``pathlib.Path.walk`` does."""
        where = str(self._pure)
        for top, dirs, files in self._fs.walk(where, top_down, on_error, follow_symlinks):
            yield self._new(PurePosixPath(top)), dirs, files

    def glob(self, pattern: str) -> Iterator[Path]:
        """Iterate over the files below that match a pattern; ``**`` matches any directories."""
        parts = PurePosixPath(pattern).parts
        if not parts or parts[0] == "/":
            raise ValueError(f"the pattern {pattern!r} is not relative")
        seen: set[Path] = set()
        for path in self._matches(parts):
            if path not in seen:
                seen.add(path)
                yield path

    def rglob(self, pattern: str) -> Iterator[Path]:
        """Iterate over the files at any depth that match a pattern."""
        return self.glob(f"**/{pattern}")

    def _matches(self, parts: tuple[str, ...]) -> Iterator[Path]:
        if not parts:
            yield self
            return
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._matches(rest)
            for below in self._directories():
                yield from below._matches(parts)
            return
        if re.search(r"[*?\[]", first) is None:
            path = self / first
            if path._is(bool, follow_symlinks=False):
                yield from path._matches(rest)
            return
        wanted = re.compile(translate(first)).fullmatch
        for path in self._entries():
            if wanted(path.name):
                yield from path._matches(rest)

    def _entries(self) -> Iterator[Path]:
        try:
            yield from self.iterdir()
        except NotADirectory:
            return

    def _directories(self) -> Iterator[Path]:
        try:
            entries = self._fs.entries(str(self._pure))
        except NotADirectory:
            return
        for entry in entries:
            if stat.S_ISDIR(entry.kind):
                yield self._new(self._pure / entry.name)

    @overload
    def open(
        self,
        mode: Literal["r", "rt"] = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> io.TextIOWrapper: ...

    @overload
    def open(self, mode: Literal["rb"], buffering: int = -1) -> io.BufferedReader: ...

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> io.TextIOWrapper | io.BufferedReader:
        """Open the regular file: as text in UTF-8 unless the mode is ``"rb"``."""
        if mode not in ("r", "rt", "rb"):
            raise ValueError(f"mode {mode!r}: an image is only read, expected 'r' or 'rb'")
        binary = self._fs.open(str(self._pure), buffering)
        if mode == "rb":
            return binary
        return io.TextIOWrapper(binary, encoding or "utf-8", errors, newline)

    def read_bytes(self) -> bytes:
        """Read the whole regular file."""
        return self._fs.read_bytes(str(self._pure))

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        """Read the whole regular file as text, UTF-8 unless it is another encoding."""
        with self.open("r", encoding=encoding, errors=errors) as file:
            return file.read()
