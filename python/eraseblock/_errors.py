"""Exceptions and findings."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Literal, NamedTuple

Severity = Literal["note", "warning", "error"]
Listed = tuple[list[tuple[Severity, str, str, str]], int]


class Finding(NamedTuple):
    """Something that a scan, a mount or a check reports about an image."""

    severity: Severity
    code: str
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.place}: {self.message} [{self.code}]"


class Findings(tuple[Finding, ...]):
    """Findings in the order in which they were found, 10,000 at most."""

    dropped: int
    """How many more there were."""

    def __new__(cls, findings: Iterable[Finding] = (), dropped: int = 0) -> Findings:
        self = super().__new__(cls, findings)
        self.dropped = dropped
        return self

    def __getnewargs__(self) -> tuple[tuple[Finding, ...], int]:
        return (tuple(self), self.dropped)

    @classmethod
    def _of(cls, listed: Listed) -> Findings:
        return cls((Finding(*found) for found in listed[0]), listed[1])


class Error(Exception):
    """What this package raises; most subclasses are also an exception of Python's own.

    ``str()`` names place, found and expected in one line.
    """

    message: str = ""
    code: str = "other"
    """The kind of the failure, as in ``--json`` documents: ``corruption``, ``refused``, ..."""
    place: str | None = None
    """The outermost thing that was being looked at, usually a path."""
    hint: str | None = None
    """What could be done about it."""
    findings: Findings = Findings()
    """What was found in the image before the failure."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.message = str(args[-1]) if args else ""

    def __str__(self) -> str:
        return self.message


class UsageError(Error, ValueError):
    """The arguments contradict each other, or the image."""


class UnsupportedFormat(Error, ValueError):
    """What was opened is not recognised as an image, is several, or needs something that is missing here."""


class NoSuchVolume(Error, KeyError):
    """The image has no volume of this name or number."""


class Refused(Error, OSError):
    """What was asked for is impossible."""


class NotFound(Error, FileNotFoundError):
    """There is no such file, on the host or in the image."""


class NotADirectory(Error, NotADirectoryError):
    """A file is no directory."""


class IsADirectory(Error, IsADirectoryError):
    """A file is a directory."""


class Exists(Error, FileExistsError):
    """A name is taken."""


class PermissionDenied(Error, PermissionError):
    """The host does not permit it."""


class Corrupted(Error, OSError):
    """Bytes are not what the format demands; ``errno`` is ``EUCLEAN``."""


class MediaError(Error, OSError):
    """The flash failed to read, program or erase; ``errno`` is ``EIO``."""


class FlashFull(Error, OSError):
    """The image or the flash is full; ``errno`` is ``ENOSPC``."""


class HostFull(Error, OSError):
    """A disk of the host is full; ``errno`` is ``ENOSPC``."""


class HostError(Error, OSError):
    """The host refused an operation on a file."""


class InternalError(Error, RuntimeError):
    """A broken invariant of this package: a bug."""


_HOST: dict[str, tuple[type[Error], int]] = {
    "not-found": (NotFound, errno.ENOENT),
    "exists": (Exists, errno.EEXIST),
    "not-a-directory": (NotADirectory, errno.ENOTDIR),
    "is-a-directory": (IsADirectory, errno.EISDIR),
    "permission-denied": (PermissionDenied, errno.EACCES),
}

_KIND: dict[str, tuple[type[Error], int]] = {
    "refused": (Refused, errno.EINVAL),
    "corruption": (Corrupted, errno.EUCLEAN),
    "media": (MediaError, errno.EIO),
    "flash-full": (FlashFull, errno.ENOSPC),
    "host-full": (HostFull, errno.ENOSPC),
    "host": (HostError, errno.EIO),
    "usage": (UsageError, 0),
    "unsupported": (UnsupportedFormat, 0),
}


def made(
    kind: str, host: str | None, message: str, place: str | None, hint: str | None, findings: Listed
) -> Error:
    """Return the exception for an error of the native half."""
    chosen, number = _HOST[host] if host in _HOST else _KIND.get(kind, (Error, 0))
    error = chosen(number, message) if issubclass(chosen, OSError) else chosen(message)
    error.code, error.place, error.hint = kind, place, hint
    error.findings = Findings._of(findings)
    if hint:
        error.add_note(f"hint: {hint}")
    return error
