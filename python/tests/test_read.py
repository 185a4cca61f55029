"""Reading: what Linux and others wrote, by paths and by streams."""

import importlib.resources
import io
import mmap
import os
import pickle
import random
import stat
import tarfile
import unittest
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

import images

import eraseblock


# Of larger files a manifest has no hash of the whole content.
LARGE = 1 << 30


def of_paths(fs):
    """The manifest of a tree, through `Path`."""
    lines, todo = {}, [fs.root]
    while todo:
        path = todo.pop()
        is_file = not path.is_symlink() and path.is_file() and path.stat().st_size < LARGE
        line = images.described(path, path.read_bytes() if is_file else None)
        lines[str(path).encode("utf-8", "surrogateescape")[1:]] = line
        if stat.S_ISDIR(line.kind):
            todo += path.iterdir()
    return lines


def of_streams(fs):
    """The same, through `walk` and `open`."""
    lines = {b"": images.described(fs.root, None)}
    for top, dirs, files in fs.walk():
        for name in dirs + files:
            path = fs.path(top) / name
            content = None
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_size < LARGE:
                with fs.open(str(path)) as file:
                    content = b"".join(iter(lambda: file.read(70_000), b""))
            line = images.described(path, content)
            lines[str(path).encode("utf-8", "surrogateescape")[1:]] = line
    return lines


class Volumes(images.Made):
    def test_each_has_a_file_name_of_its_own(self):
        with eraseblock.open(images.oddly_named(self.folder)) as image:
            self.assertEqual(tuple(image.volumes), images.ODD)
            names = [volume.file_name for volume in image.volumes.values()]
            self.assertEqual(names, list(images.FOLDERS))

    def test_two_of_the_same_name_are_both_there(self):
        """The second one replaced the first, which could not be read."""
        text, double = self.folder / "odd.txt", self.folder / "double.ubi"
        for arguments in (
            ["disasm", str(images.oddly_named(self.folder)), "-o", str(text)],
            ["asm", str(text), "-o", str(double)],
        ):
            if arguments[0] == "asm":
                lines = text.read_text().replace('name_len=3 name="a_b"', 'name_len=3 name="a/b"')
                text.write_text(lines)
            self.assertEqual(eraseblock._native.cli("eraseblock", ["eraseblock", *arguments, "-q"]), 0)
        with eraseblock.open(double) as image:
            self.assertEqual(list(image.volumes), [*images.ODD[:5], "volume-5"])
            marks = [volume.fs.read_text("mark") for volume in image.volumes.values()]
            self.assertEqual(marks, list("012345"))
            self.assertEqual([image["a/b"].id, image["volume-5"].id], [2, 5])
            names = [volume.file_name for volume in image.volumes.values()]
            self.assertEqual(names, [f"volume-{number}" for number in range(6)])


class WrittenElsewhere(unittest.TestCase):
    def compare(self, images_of_a_kind):
        compared = 0
        for path, expected in images_of_a_kind:
            with self.subTest(str(path)), eraseblock.open(path) as image:
                for found in (of_paths(image.fs), of_streams(image.fs)):
                    self.assertEqual(found.keys(), expected.keys())
                    # A time that a manifest leaves open is any time.
                    found = {k: v._replace(mtime=expected[k].mtime and v.mtime) for k, v in found.items()}
                    wrong = {k: (v, expected[k]) for k, v in found.items() if v != expected[k]}
                    self.assertEqual(wrong, {})
                compared += len(expected)
        return compared

    def test_golden_images_are_their_manifests(self):
        self.assertGreater(self.compare(images.golden()), 100)

    def test_images_of_real_linux_are_their_manifests(self):
        if not any(images.linux()):
            self.skipTest("the oracle has made no images")
        self.assertGreater(self.compare(images.linux()), 100)


class Reading(images.Made):
    def test_a_path_bytes_buffers_and_file_objects_are_the_same_image(self):
        content = self.board.read_bytes()
        expected = eraseblock.open(self.board)["rootfs"].fs.read_bytes("/bin/tool")
        self.assertEqual(expected, (self.folder / "rootfs/bin/tool").read_bytes())
        with open(self.board, "rb") as file, open(self.board, "rb", buffering=0) as raw:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            for image in (str(self.board), content, bytearray(content), memoryview(content), mapped,
                          file, raw, io.BytesIO(content)):
                with self.subTest(type(image)):
                    opened = eraseblock.open(image)
                    self.assertEqual(opened["rootfs"].fs.read_bytes("/bin/tool"), expected)

    def test_volumes_have_names_and_numbers(self):
        with eraseblock.open(self.board) as image:
            self.assertEqual(image.kind, "ubi")
            self.assertEqual(list(image.volumes), ["env", "rootfs"])
            self.assertEqual([v.id for v in image.volumes.values()], [0, 1])
            self.assertEqual(image[1].name, "rootfs")
            self.assertEqual(image["env"].kind, "static")
            with image["env"].open() as file:
                self.assertEqual(file.read(), b"bootdelay=3\n")
            self.assertIs(image["rootfs"].fs, image["rootfs"].fs)
            self.assertEqual(image.fs.read_text("/etc/motd"), "hello flash\n")
            with self.assertRaises(KeyError) as caught:
                image["data"]
            self.assertIn("env, rootfs", str(caught.exception))
        with self.assertRaisesRegex(ValueError, "closed"):
            image.volumes

    def test_paths_are_those_of_pathlib(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        here, there = self.folder / "rootfs", fs.root
        for pattern in ("*", "etc/*", "**/*.conf", "etc/**/*", "b?n/tool", "etc/[im]*", "**/er", "none/*"):
            ours = sorted(str(path.relative_to("/")) for path in there.glob(pattern))
            theirs = sorted(str(path.relative_to(here)) for path in here.glob(pattern))
            self.assertEqual(ours, theirs, pattern)
        motd = fs / "etc" / "motd"
        self.assertEqual((motd.name, motd.suffix, motd.parent.name), ("motd", "", "etc"))
        self.assertEqual(motd.relative_to("/etc"), PurePosixPath("motd"))
        self.assertEqual(motd, fs.path("/etc/motd"))
        self.assertEqual(len({motd, fs.path(b"etc/motd")}), 1)
        self.assertTrue((fs / "etc/issue").is_symlink() and (fs / "etc/issue").is_file())
        self.assertEqual((fs / "etc/issue").readlink(), "motd")
        self.assertTrue((fs / "pipe").is_fifo())
        self.assertFalse((fs / "etc/lost").exists())
        odd = next(path for path in fs.root.iterdir() if path.name.startswith("odd"))
        self.assertEqual((odd.name_bytes, odd.read_bytes()), (b"odd-\xff\xfe", b"odd\n"))
        with motd.open() as file:
            self.assertEqual(file.readline(), "hello flash\n")
        with self.assertRaises(ValueError):
            motd.open("w")

    def test_walk_is_that_of_os(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        here = str(self.folder / "rootfs")
        for topdown in (True, False):
            ours = [(top, sorted(dirs), sorted(files)) for top, dirs, files in fs.walk("/", topdown)]
            theirs = [(top[len(here):] or "/", sorted(dirs), sorted(files))
                      for top, dirs, files in os.walk(here, topdown)]
            self.assertEqual(sorted(ours), sorted(theirs))
        cut = []
        for top, dirs, _ in fs.walk():
            dirs[:] = [name for name in dirs if name != "deep"]
            cut.append(top)
        self.assertNotIn("/etc/deep", cut)
        errors = []
        self.assertEqual(list(fs.walk("/none", onerror=errors.append)), [])
        self.assertIsInstance(errors[0], FileNotFoundError)

    def test_streams_seek_and_fill_buffers(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        expected = (self.folder / "rootfs/bin/tool").read_bytes()
        with fs.open("/bin/tool") as file:
            self.assertIsInstance(file, io.BufferedReader)
            self.assertEqual(file.seek(-10, os.SEEK_END), len(expected) - 10)
            self.assertEqual(file.read(), expected[-10:])
            self.assertEqual(file.read(), b"")
            file.seek(4095)
            buffer = bytearray(3 << 20)
            self.assertEqual(file.readinto(buffer), len(expected) - 4095)
            self.assertEqual(buffer[: len(expected) - 4095], expected[4095:])
            with self.assertRaises((ValueError, OSError)):
                file.seek(-1)
            with self.assertRaises(io.UnsupportedOperation):
                file.write(b"x")
        rng = random.Random(1)
        with fs.open("/bin/tool", buffering=1) as file:
            for _ in range(200):
                at, length = rng.randrange(len(expected) + 100), rng.randrange(9000)
                file.seek(at)
                self.assertEqual(file.read(length), expected[at : at + length])

    def test_stat_has_the_fields_of_os(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        for name in ("bin/tool", "etc/motd", "pipe", "etc/issue"):
            ours, theirs = fs.lstat(name), os.lstat(self.folder / "rootfs" / name)
            for field in ("st_mode", "st_nlink", "st_uid", "st_gid", "st_mtime"):
                self.assertEqual(int(getattr(ours, field)), int(getattr(theirs, field)), (name, field))
        self.assertEqual(fs.stat("etc/issue").st_ino, fs.stat("etc/motd").st_ino)
        self.assertEqual(fs.stat("bin/tool").xattrs, {})

    def test_traversable_resources(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        path = fs / "etc" / "motd"
        self.assertIsInstance(path, Traversable)
        with importlib.resources.as_file(path) as copy:
            self.assertEqual(Path(copy).read_text(), "hello flash\n")

    def test_options_and_survey(self):
        content = b"\xa5" * 300_000 + self.board.read_bytes()
        parts = eraseblock.survey(content)
        self.assertEqual([(part.offset, part.format) for part in parts], [(300_000, "ubi")])
        image = eraseblock.open(content, offset=300_000, format="ubi", threads=1)
        self.assertEqual(image.fs.read_text("etc/motd"), "hello flash\n")
        for wrong in ({"format": "ext4"}, {"threads": 0}, {"byte_order": "middle"}):
            with self.assertRaises(ValueError, msg=wrong):
                eraseblock.open(content, **wrong)
        with self.assertRaises(TypeError):
            eraseblock.open(content, colour="red")

    def test_tar_of_everything_and_of_members(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        out = io.BytesIO()
        report = fs.to_tar(out)
        self.assertEqual((report.left_out, report.damaged), (0, 0))
        out.seek(0)
        with tarfile.open(fileobj=out) as archive:
            self.assertEqual(archive.extractfile("etc/motd").read(), b"hello flash\n")
        out = io.BytesIO()
        fs.to_tar(out, members=["etc/deep", "/bin/tool"])
        out.seek(0)
        with tarfile.open(fileobj=out) as archive:
            names = {member.name for member in archive if member.isfile()}
        self.assertEqual(names, {"etc/deep/er/x.conf", "bin/tool"})

    def test_findings_survive_pickling(self):
        findings = eraseblock.Findings([eraseblock.Finding("note", "a", "image", "b")], 3)
        again = pickle.loads(pickle.dumps(findings))
        self.assertEqual((again, again.dropped), (findings, 3))
