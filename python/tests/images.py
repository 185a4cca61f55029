"""Images that the tests use.

``ERASEBLOCK_IMAGES`` is a folder with two kinds, each with the manifest of its tree: ``golden`` images, which
other programs and other kernels wrote, and images that real Linux wrote for the oracle (``linux``).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import eraseblock

FOLDER = Path(os.environ.get("ERASEBLOCK_IMAGES", "images"))

LAYOUT = """
flash.part = "W29N01HV"

[[volume]]
name = "env"
type = "static"
content = { file = "env" }

[[volume]]
name = "rootfs"
size = "24MiB"
content = { ubifs = "rootfs" }
"""


ODD = ("..", "volume-0", "a/b", "../outside", "two\nlines", "a_b")
"""Names of volumes that cannot be those of folders, or that a folder of another one may have."""

FOLDERS = ("volume-0", "volume-1", "volume-2", "volume-3", "volume-4", "a_b")
"""The folders that these volumes get."""


class Line(NamedTuple):
    """What a manifest says about a file, without what every file system computes in its own way."""

    kind: int
    mode: int
    uid: int
    gid: int
    mtime: int | None
    size: int
    device: str
    target: bytes
    sha256: str


def golden() -> Iterator[tuple[Path, dict[bytes, Line]]]:
    """Return the golden images that are not damaged; crates/yaffs/tests has what is left of the others."""
    for image in sorted((FOLDER / "golden").glob("*.img")):
        if not any(word in image.name for word in ("torn", "damaged", "erased", "lost")):
            yield image, parse_golden(image.with_suffix(".manifest"))


def linux() -> Iterator[tuple[Path, dict[bytes, Line]]]:
    """Return the images that real Linux wrote for the oracle."""
    for image in sorted((FOLDER / "linux").glob("*/image.bin")):
        yield image, parse_oracle(image.with_name("manifest"))


WORDS = {
    "regular file": stat.S_IFREG,
    "regular empty file": stat.S_IFREG,
    "directory": stat.S_IFDIR,
    "symbolic link": stat.S_IFLNK,
    "block special file": stat.S_IFBLK,
    "character special file": stat.S_IFCHR,
    "fifo": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
}

LETTERS = dict(zip("-dlbcps", (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFBLK, stat.S_IFCHR,
                               stat.S_IFIFO, stat.S_IFSOCK)))


def unescaped(text: str) -> bytes:
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


def parse_golden(path: Path) -> dict[bytes, Line]:
    """Parse a manifest of crates/yaffs/tests/data/README.md."""
    lines = {}
    for line in path.read_text().splitlines():
        fields = line.split("|")
        name, words, mode, uid, gid, size, mtime, _, device, target, sha256 = fields[:11]
        kind = WORDS[words]
        lines[unescaped(name)[2:]] = Line(
            kind, int(mode, 8), int(uid), int(gid), None if mtime == "-" else int(mtime),
            int(size) if kind == stat.S_IFREG else 0,
            ":".join(str(int(part, 16)) for part in device.split(":") if part),
            unescaped(target), sha256,
        )
    return lines


def parse_oracle(path: Path) -> dict[bytes, Line]:
    """Parse a manifest of crates/vfs-testkit/src/manifest.rs."""
    lines = {}
    for line in path.read_text().splitlines():
        name, letter, mode, owner, *rest = line.split(" ")
        fields = dict(field.split("=", 1) for field in rest)
        kind, content = LETTERS[letter], fields["content"]
        uid, gid = owner.split(":")
        lines[b"" if name == "." else unescaped(name)] = Line(
            kind, int(mode, 8), int(uid), int(gid), int(fields["mtime"]),
            int(fields["size"]) if kind == stat.S_IFREG else 0, fields["dev"].replace("-", ""),
            unescaped(content[7:]) if content.startswith("target:") else b"",
            content[7:] if content.startswith("sha256:") else "",
        )
    return lines


def described(path: eraseblock.Path, content: bytes | None) -> Line:
    """Describe a file of an image."""
    found = path.lstat()
    kind = stat.S_IFMT(found.st_mode)
    device = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}" if found.st_rdev else ""
    if kind in (stat.S_IFBLK, stat.S_IFCHR):
        device = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    return Line(
        kind, found.st_mode & 0o7777, found.st_uid, found.st_gid, found.st_mtime_ns // 10**9,
        found.st_size if kind == stat.S_IFREG else 0, device,
        path.readlink().encode("utf-8", "surrogateescape") if kind == stat.S_IFLNK else b"",
        hashlib.sha256(content).hexdigest() if content is not None else "",
    )


class Made(unittest.TestCase):
    """Tests with an image of their own, ``board.ubi``, in the folder ``folder``."""

    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="eraseblock-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        make_tree(cls.folder / "rootfs")
        (cls.folder / "env").write_bytes(b"bootdelay=3\n")
        (cls.folder / "board.toml").write_text(LAYOUT)
        cls.report = eraseblock.build(cls.folder / "board.toml", cls.folder / "board.ubi")

    @property
    def board(self) -> Path:
        return self.folder / "board.ubi"


def oddly_named(folder: Path) -> Path:
    """Make an image whose volumes have the names in `ODD`; the file ``mark`` of each one contains its number."""
    layout = 'flash.part = "W29N01HV"\n'
    for number, name in enumerate(ODD):
        (folder / f"tree-{number}").mkdir(exist_ok=True)
        (folder / f"tree-{number}" / "mark").write_text(str(number))
        layout += f'[[volume]]\nname = {json.dumps(name)}\nsize = "4MiB"\ncontent = {{ ubifs = "tree-{number}" }}\n'
    (folder / "odd.toml").write_text(layout)
    eraseblock.build(folder / "odd.toml", folder / "odd.ubi")
    return folder / "odd.ubi"


def make_tree(top: Path) -> None:
    (top / "etc/deep/er").mkdir(parents=True)
    (top / "bin").mkdir()
    (top / "etc/motd").write_text("hello flash\n")
    (top / "etc/issue").symlink_to("motd")
    (top / "etc/here").symlink_to(".")
    (top / "etc/lost").symlink_to("nowhere")
    (top / "etc/deep/er/x.conf").write_text("x\n")
    (top / "etc/table.csv").write_text("a,b\n1,2\n3,4\n")
    (top / "bin/tool").write_bytes(bytes(range(256)) * 4000)
    (top / "bin/tool").chmod(0o755)
    os.link(top / "bin/tool", top / "bin/again")
    os.mkfifo(top / "pipe")
    with open(os.fsencode(top) + b"/odd-\xff\xfe", "wb") as file:
        file.write(b"odd\n")
