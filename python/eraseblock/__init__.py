"""Read, change, check and build raw-flash images: UBI, UBIFS, JFFS2, YAFFS, SquashFS, AXFS, LogFS.

    with eraseblock.open("board.ubi") as image:
        print((image["rootfs"].fs / "etc" / "motd").read_text())
"""

from ._build import BuildReport, BuiltVolume, CheckReport, Part, build, check, survey
from ._edit import Edit, EditVolume, edit
from ._errors import (
    Corrupted,
    Error,
    Exists,
    Finding,
    Findings,
    FlashFull,
    HostError,
    HostFull,
    InternalError,
    IsADirectory,
    MediaError,
    NoSuchVolume,
    NotADirectory,
    NotFound,
    PermissionDenied,
    Refused,
    UnsupportedFormat,
    UsageError,
)
from ._fs import ExtractReport, FileSystem, Stat
from ._image import Image, Volume, open
from ._path import Path

__all__ = [
    "BuildReport",
    "BuiltVolume",
    "CheckReport",
    "Corrupted",
    "Edit",
    "EditVolume",
    "Error",
    "Exists",
    "ExtractReport",
    "FileSystem",
    "Finding",
    "Findings",
    "FlashFull",
    "HostError",
    "HostFull",
    "Image",
    "InternalError",
    "IsADirectory",
    "MediaError",
    "NoSuchVolume",
    "NotADirectory",
    "NotFound",
    "Part",
    "Path",
    "PermissionDenied",
    "Refused",
    "Stat",
    "UnsupportedFormat",
    "UsageError",
    "Volume",
    "build",
    "check",
    "edit",
    "open",
    "survey",
]
