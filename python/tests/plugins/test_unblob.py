"""The handlers in unblob as it comes from its registry.

Each image is extracted twice, with the package's entry point and without: the second run must not give what the
first one does, or the test shows nothing. In the second run unblob has the readers that are installed with it.
Then it has the package's readers by their names, and must find as much as with the entry point.
"""

import collections
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import images

import eraseblock

PEB = 128 << 10

PROGRAM = os.environ.get("ERASEBLOCK_PROGRAM", str(Path(sys.executable).with_name("eraseblock")))

LARGE = 1 << 30
"""Bytes of a file from which on a manifest has no digest of it."""

READERS = Path(sys.executable).parent
"""Where the readers are that unblob needs: its installer puts them there."""

BLIND = """
import importlib.metadata, sys
whole = importlib.metadata.distributions
importlib.metadata.distributions = lambda **k: (d for d in whole(**k) if d.metadata["Name"] != "eraseblock")
from unblob.cli import main
sys.argv[0] = "unblob"
sys.exit(main())
"""


def files(top):
    """Return the regular files below a folder with their content."""
    return {
        os.path.relpath(os.path.join(where, name), top): Path(where, name).read_bytes()
        for where, _, names in os.walk(top) for name in names
        # A link first: where a long one leads is a name that the host refuses.
        if not Path(where, name).is_symlink() and Path(where, name).is_file()
    }


def digests(top):
    """Return how often each content of a regular file is there, without those that a manifest has no digest of."""
    found = collections.Counter()
    for where, _, names in os.walk(top):
        for path in (Path(where, name) for name in names):
            if not path.is_symlink() and path.is_file() and path.stat().st_size < LARGE:
                found[hashlib.sha256(path.read_bytes()).hexdigest()] += 1
    return found


class Unblob(images.Made):
    def unblob(self, image, plugin=True, readers=READERS, depth=1):
        """Return the report, and the folder of the extracted image."""
        out = Path(tempfile.mkdtemp(dir=self.folder))
        report = out / "report.json"
        command = ["-I", "-c", BLIND]
        if plugin:
            command = ["-I", "-c", BLIND.replace('!= "eraseblock"', "is not None")]
        done = subprocess.run(
            [sys.executable, *command, "-e", out / "tree", "--report", report, "-d", str(depth), image],
            capture_output=True, text=True, timeout=300,
            env=os.environ | {"PATH": os.pathsep.join([str(readers), os.environ["PATH"]])},
        )
        self.assertTrue(report.exists(), done.stdout + done.stderr)
        return json.loads(report.read_text()), out / "tree" / f"{Path(image).name}_extract"

    def chunks(self, report):
        return [
            (found["handler_name"], found["start_offset"], found["end_offset"])
            for task in report for found in task["reports"] if found["__typename__"] == "ChunkReport"
        ]

    def errors(self, report):
        return [
            found for task in report for found in task["reports"]
            if "Error" in found["__typename__"] or "Problem" in found["__typename__"]
        ]

    def extracted(self, image, handler):
        """Extract, and compare with the tree; return whether unblob alone gives the same."""
        wanted = {name: content for name, content in files(self.folder / "rootfs").items()}
        report, tree = self.unblob(image)
        size = Path(image).stat().st_size
        self.assertEqual(self.chunks(report), [(handler, 0, size)])
        self.assertEqual(self.errors(report), [])
        top = tree / "rootfs" if handler == "eraseblock_ubi" else tree
        self.assertEqual(files(top), wanted)
        report, _ = self.unblob(image, plugin=False)
        self.assertNotIn(handler, [name for name, _, _ in self.chunks(report)])
        _, alone = self.unblob(image, plugin=False)
        below = [where for where in [alone, *alone.rglob("*")] if where.is_dir()] if alone.exists() else []
        return any(files(where) == wanted for where in below)

    def test_images_are_extracted_whole(self):
        board = self.board.read_bytes()
        bad = self.folder / "bad.ubi"
        # A bad block in the middle: its content is erased.
        bad.write_bytes(board[: 3 * PEB] + b"\xff" * PEB + board[3 * PEB :])
        alone = [self.extracted(self.board, "eraseblock_ubi"), self.extracted(bad, "eraseblock_ubi")]
        self.assertIn(False, alone, "unblob alone gives the same: the test shows nothing")

    def test_an_image_inside_a_file(self):
        inside = self.folder / "inside.bin"
        board = self.board.read_bytes()
        inside.write_bytes(b"header\n" + bytes(5000) + board + b"\x00" * 777 + b"trailer")
        report, _ = self.unblob(inside)
        self.assertIn(("eraseblock_ubi", 5007, 5007 + len(board)), self.chunks(report))

    def test_volumes_with_odd_names_stay_in_the_folder(self):
        """A volume `..` was extracted into the folder above, and `a/b` into the folder of `a_b`."""
        image = images.oddly_named(self.folder)
        report, tree = self.unblob(image)
        self.assertEqual(self.errors(report), [])
        wanted = {f"{folder}/mark": str(number).encode() for number, folder in enumerate(images.FOLDERS)}
        self.assertEqual(files(tree), wanted)
        self.assertEqual([path.name for path in tree.parent.iterdir()], [tree.name])

    def test_classic_tools_write_images(self):
        """Images of mtd-utils."""
        tools = ("mkfs.ubifs", "mkfs.jffs2")
        if not all(shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin") for tool in tools):
            self.skipTest("no mtd-utils")
        tree = self.folder / "rootfs"
        for handler, name, command in (
            ("eraseblock_ubifs", "r.ubifs", ["mkfs.ubifs", "-r", tree, "-m", "2048", "-e", "126976", "-c", "200", "-o"]),
            ("eraseblock_jffs2", "r.jffs2", ["mkfs.jffs2", "-r", tree, "-e", "65536", "-p", "-o"]),
        ):
            image = self.folder / name
            environment = os.environ | {"PATH": os.environ["PATH"] + ":/usr/sbin"}
            subprocess.run([*command, image], check=True, capture_output=True, env=environment)
            with self.subTest(name):
                self.extracted(image, handler)

    def is_whole(self, image, wanted, readers):
        """Return whether unblob without the entry point gives all files, by these readers: first volumes, then their files."""
        _, top = self.unblob(image, plugin=False, readers=readers, depth=2)
        # The tree of unblob has folders of its own above those of the image.
        below = [top] if top.is_dir() else []
        for _ in range(6):
            if any(digests(where) == wanted for where in below):
                return True
            below = [path for where in below for path in where.iterdir() if path.is_dir() and not path.is_symlink()]
        return False

    def test_images_of_linux(self):
        """Images that real Linux wrote, clean and cut off: every regular file has the digest of Linux's manifest."""
        looked_at, lost = 0, []
        personalities = self.folder / "readers"
        command = [PROGRAM, "personalities", "--readers", "--dir", personalities]
        subprocess.run(command, check=True, capture_output=True)
        for image, manifest in images.linux():
            kind = eraseblock.open(image).kind
            if kind not in ("ubi", "ubifs", "jffs2"):
                continue
            looked_at += 1
            wanted = collections.Counter(line.sha256 for line in manifest.values() if line.sha256)
            with self.subTest(image.parent.name):
                report, tree = self.unblob(image)
                # Erased blocks at the beginning are no part of a JFFS2: unblob makes a file of them, and a folder of the rest.
                content = image.read_bytes()
                start = len(content) - len(content.lstrip(b"\xff"))
                if start:
                    tree /= f"{start}-{len(content)}.eraseblock_{kind}_extract"
                found = [chunk for chunk in self.chunks(report) if chunk[0] != "padding"]
                self.assertEqual(found, [(f"eraseblock_{kind}", start, len(content))])
                self.assertEqual(self.errors(report), [])
                self.assertEqual(digests(tree / "data" if kind == "ubi" else tree), wanted)
                if not self.is_whole(image, wanted, READERS):
                    lost.append(image.parent.name)
                self.assertTrue(self.is_whole(image, wanted, personalities), "the readers by their names")
        if not looked_at:
            self.skipTest("the oracle has made no images")
        print(f"{looked_at} images of Linux; unblob alone loses files of {len(lost)}")
        self.assertGreaterEqual(len(lost), 3, "unblob alone gives the same: the test shows nothing")


if __name__ == "__main__":
    unittest.main()
