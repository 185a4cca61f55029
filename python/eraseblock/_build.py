"""Building, checking, and looking for images."""

from __future__ import annotations

from dataclasses import dataclass
from os import fspath
from typing import TYPE_CHECKING

from . import _native
from ._errors import Findings
from ._types import Format, HostPath, ImageLike, Options, VolumeRef, host, named

if TYPE_CHECKING:
    from typing import Unpack


@dataclass(frozen=True)
class BuiltVolume:
    """A volume of a new image."""

    id: int
    name: str
    reserved_lebs: int
    content_lebs: int


@dataclass(frozen=True)
class BuildReport:
    """What was built."""

    image_seq: int
    image_size: int
    blocks: int
    volumes: tuple[BuiltVolume, ...]


@dataclass(frozen=True)
class CheckReport:
    """The result of a check."""

    is_consistent: bool
    """Whether nothing is wrong: notes at most were found."""
    findings: Findings
    next_steps: tuple[str, ...]
    """Runs of the ``eraseblock`` command that could help."""


@dataclass(frozen=True)
class Part:
    """Something in a file that can be opened."""

    offset: int
    length: int
    format: Format
    description: str


def build(layout: HostPath, out: HostPath, *, text: str | None = None) -> BuildReport:
    """Build a whole UBI image from a layout file.

    With ``text``, that is the layout, and ``layout`` the folder that its paths are relative to. ``out`` is
    replaced once the new image is complete.
    """
    seq, size, blocks, volumes = _native.build(fspath(layout), text, fspath(out))
    return BuildReport(seq, size, blocks, tuple(BuiltVolume(*volume) for volume in volumes))


def check(
    image: HostPath, volume: VolumeRef | None = None, **options: Unpack[Options]
) -> CheckReport:
    """Check every structure and every byte of an image, or of one volume."""
    name = None if volume is None else named(volume)
    is_consistent, findings, steps = _native.check(fspath(image), name, **options)
    return CheckReport(is_consistent, Findings._of(findings), tuple(steps))


def survey(image: ImageLike) -> tuple[Part, ...]:
    """Look through a file for everything that can be opened, at any offset."""
    found = _native.survey(host(image), image)
    return tuple(Part(*part) for part in found)  # type: ignore[arg-type]
