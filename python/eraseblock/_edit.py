"""Images changed in place."""

from __future__ import annotations

from dataclasses import dataclass
from os import fspath
from types import TracebackType

from . import _native
from ._errors import Findings
from ._types import HostPath, InnerPath, VolumeRef, inner, named


def edit(
    image: HostPath,
    *,
    flash_size: int | None = None,
    fastmap: bool = False,
    peb: int | None = None,
    time: int | None = None,
) -> Edit:
    """Begin to change an image. Nothing is opened before a volume or file system is chosen.

    ``flash_size`` is the size of the flash that the image is made for, if it is shorter. ``fastmap`` leaves
    one on the flash. ``peb`` is the size of an eraseblock that a JFFS2 does not prove. ``time``, in seconds,
    is given to changes instead of that of the clock.
    """
    return Edit(fspath(image), flash_size, fastmap, peb, time)


@dataclass(frozen=True)
class Edit:
    """An image that is going to be changed."""

    path: str
    flash_size: int | None = None
    fastmap: bool = False
    peb: int | None = None
    time: int | None = None

    def __getitem__(self, volume: VolumeRef) -> EditVolume:
        return self._mounted(named(volume))

    @property
    def fs(self) -> EditVolume:
        """The only file system, mounted for writing."""
        return self._mounted(None)

    def _mounted(self, volume: bytes | None) -> EditVolume:
        return EditVolume(
            _native.edit(self.path, volume, self.flash_size, self.fastmap, self.peb, self.time)
        )


class EditVolume:
    """A file system mounted for writing; ``with`` unmounts it. When a change returns, it is durable."""

    def __init__(self, native: _native.EditVolume) -> None:
        self._native = native

    def __enter__(self) -> EditVolume:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> Findings:
        """Unmount; the second time does nothing."""
        return Findings._of(self._native.close())

    @property
    def findings(self) -> Findings:
        """What was found when it was mounted."""
        return Findings._of(self._native.findings())

    def read_bytes(self, path: InnerPath) -> bytes:
        """Read a whole regular file."""
        return self._native.read(inner(path))

    def write_bytes(self, path: InnerPath, content: bytes) -> None:
        """Make a file, or replace its content and keep owner and permissions."""
        self._native.write(inner(path), bytes(content))

    def write_text(self, path: InnerPath, content: str, encoding: str = "utf-8") -> None:
        """Write a file of text."""
        self.write_bytes(path, content.encode(encoding))

    def mkdir(self, path: InnerPath) -> None:
        """Make a directory, and those above it that are missing."""
        self._native.mkdir(inner(path))

    def symlink(self, target: InnerPath, path: InnerPath) -> None:
        """Make a symbolic link at ``path`` to ``target``."""
        self._native.symlink(inner(target), inner(path))

    def remove(self, path: InnerPath) -> None:
        """Remove a file, a symbolic link, or an empty directory."""
        self._native.remove(inner(path))

    def rename(self, source: InnerPath, target: InnerPath) -> None:
        """Rename a file or directory; a file that has the new name is replaced."""
        self._native.rename(inner(source), inner(target))

    def chmod(self, path: InnerPath, mode: int) -> None:
        """Set permission bits, set-id bits and the sticky bit."""
        self._native.chmod(inner(path), mode)

    def chown(self, path: InnerPath, uid: int, gid: int) -> None:
        """Set owner and group."""
        self._native.chown(inner(path), uid, gid)

    def check(self) -> Findings:
        """Verify every structure of the file system, and return what is wrong."""
        return Findings._of(self._native.check())
