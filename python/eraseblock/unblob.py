"""Handlers for unblob, which finds them by the entry point ``unblob_v1``.

unblob finds the end of a UBI image at the first block that does not begin with ``UBI#``: a bad or an erased block
truncates it. These handlers attach images as Linux does, and extract the files of all volumes in one step.

unblob asks the handler first whose pattern ends first, so the patterns here are shorter than its own.
"""

from __future__ import annotations

import weakref
from pathlib import Path

from unblob.models import (
    Extractor,
    ExtractResult,
    File,
    Handler,
    HandlerDoc,
    HandlerType,
    HexString,
    Reference,
    ValidChunk,
)
from unblob.plugins import hookimpl
from unblob.report import ExtractionProblem

from . import _build, _image
from ._errors import Error, Finding
from ._fs import ExtractReport, FileSystem
from ._types import Format

_parts: weakref.WeakKeyDictionary[File, dict[int, _build.Part]] = weakref.WeakKeyDictionary()
"""What is in a file, by offset: a file is looked through once, not at every match."""


def _part(file: File, offset: int) -> _build.Part | None:
    if file not in _parts:
        _parts[file] = {part.offset: part for part in _build.survey(file)}
    return _parts[file].get(offset)


class EraseblockExtractor(Extractor):
    """Copies the files of all file systems of an image, and the content of volumes without one."""

    def __init__(self, format: Format) -> None:
        self._format = format

    def get_dependencies(self) -> list[str]:
        """Return no programs: the package does everything itself."""
        return []

    def extract(self, inpath: Path, outdir: Path) -> ExtractResult | None:
        """Extract an image; what could not be delivered is a problem of the report."""
        # unblob forks: the threads of a pool would not be in the child.
        image = _image.open(inpath, format=self._format, threads=1)
        problems = _problems(image.findings, outdir)
        if image.kind != "ubi":
            return ExtractResult(reports=problems + _extract(image.fs, outdir))
        for volume in image.volumes.values():
            where = outdir / volume.file_name
            try:
                fs = volume.fs
            except Error:
                with volume.open() as content, open(where, "wb") as file:
                    while piece := content.read(1 << 20):
                        file.write(piece)
                continue
            problems += _extract(fs, where)
        return ExtractResult(reports=problems)


def _extract(fs: FileSystem, folder: Path) -> list[ExtractionProblem]:
    report: ExtractReport = fs.extractall(folder, owners=False, force=True)
    return _problems([*fs.findings, *report.findings], folder)


def _problems(findings: object, folder: Path) -> list[ExtractionProblem]:
    bad = [each for each in findings if isinstance(each, Finding) and each.severity == "error"]  # type: ignore[attr-defined]
    return [
        ExtractionProblem(problem=f"{each.place}: {each.message}", resolution="Skipped.", path=str(folder))
        for each in bad
    ]


class _Image(Handler):
    """An image of a format, with the end that reading it shows."""

    FORMAT: Format

    def calculate_chunk(self, file: File, start_offset: int) -> ValidChunk | None:
        """Return the image that begins here; None if its checksums do not agree."""
        part = _part(file, start_offset)
        if part is None or part.format != self.FORMAT:
            return None
        return ValidChunk(start_offset=start_offset, end_offset=start_offset + part.length)


def _doc(name: str, description: str, url: str) -> HandlerDoc:
    return HandlerDoc(
        name=name,
        description=description,
        handler_type=HandlerType.FILESYSTEM,
        vendor=None,
        references=[Reference(title=f"{name} documentation", url=url)],
        limitations=[],
    )


class UbiHandler(_Image):
    """UBI images and dumps: all volumes."""

    NAME = "eraseblock_ubi"
    FORMAT = "ubi"
    PATTERNS = [HexString("55 42 49 23")]
    EXTRACTOR = EraseblockExtractor("ubi")
    DOC = _doc("UBI (eraseblock)", "UBI images, attached as Linux does.",
               "http://www.linux-mtd.infradead.org/doc/ubi.html")


class UbifsHandler(_Image):
    """Bare UBIFS images."""

    NAME = "eraseblock_ubifs"
    FORMAT = "ubifs"
    PATTERNS = [HexString("31 18 10 06")]
    EXTRACTOR = EraseblockExtractor("ubifs")
    DOC = _doc("UBIFS (eraseblock)", "UBIFS images, with journal replay.",
               "http://www.linux-mtd.infradead.org/doc/ubifs.html")


class Jffs2Handler(_Image):
    """JFFS2 images of both byte orders."""

    NAME = "eraseblock_jffs2"
    FORMAT = "jffs2"
    PATTERNS = [HexString("85 19 ( 01 | 02 | 03 | 04 | 06 | 08 | 09 )"), HexString("19 85 ( e0 | 20 )")]
    EXTRACTOR = EraseblockExtractor("jffs2")
    DOC = _doc("JFFS2 (eraseblock)", "JFFS2 images, with all checksums verified.",
               "http://www.linux-mtd.infradead.org/doc/jffs2.html")


@hookimpl
def unblob_register_handlers() -> list[type[Handler]]:
    """Return the handlers."""
    return [UbiHandler, UbifsHandler, Jffs2Handler]
