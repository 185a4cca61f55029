"""Taking out, building, checking, changing; the command."""

import filecmp
import os
import subprocess
import sys
import unittest
from pathlib import Path

import images

import eraseblock


class Writing(images.Made):
    def fresh(self, name):
        target = self.folder / name
        target.write_bytes(self.board.read_bytes())
        return target

    def test_everything_is_extracted(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        report = fs.extractall(self.folder / "all", owners=False)
        self.assertEqual((report.left_out, report.hard_links, report.specials), (0, 1, 1))
        here, there = self.folder / "rootfs", self.folder / "all"
        for top, dirs, files in os.walk(here):
            other = there / os.path.relpath(top, here)
            self.assertEqual(sorted(os.listdir(top)), sorted(os.listdir(other)))
            plain = [name for name in files if os.path.isfile(os.path.join(top, name))]
            self.assertEqual(filecmp.cmpfiles(top, other, plain, shallow=False)[1:], ([], []))
        with self.assertRaises(eraseblock.Error):
            fs.extractall(there)
        fs.extractall(there, force=True)

    def test_members_are_extracted(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        fs.extractall(self.folder / "some", members=["/etc/deep", b"bin/tool", "etc/deep/er"])
        found = {str(path.relative_to(self.folder / "some"))
                 for path in (self.folder / "some").rglob("*") if path.is_file()}
        self.assertEqual(found, {"etc/deep/er/x.conf", "bin/tool"})
        with self.assertRaises(FileNotFoundError):
            fs.extractall(self.folder / "none", members=["etc/none"])
        with self.assertRaises(TypeError):
            fs.extractall(self.folder / "none", members="etc")

    def test_a_build_is_reported(self):
        self.assertEqual([volume.name for volume in self.report.volumes], ["env", "rootfs"])
        self.assertEqual(self.report.image_size, self.board.stat().st_size)
        eraseblock.build(self.folder, self.folder / "again.ubi", text=images.LAYOUT)
        self.assertTrue(filecmp.cmp(self.board, self.folder / "again.ubi", shallow=False))
        with self.assertRaises(eraseblock.Error):
            eraseblock.build(self.folder, self.folder / "bad.ubi", text="flash.part = 'none'\n")
        self.assertFalse((self.folder / "bad.ubi").exists())

    def test_an_image_is_checked(self):
        self.assertTrue(eraseblock.check(self.board).is_consistent)
        damaged = self.fresh("damaged.ubi")
        content = bytearray(damaged.read_bytes())
        at = content.rindex(bytes(range(200, 240)))
        content[at : at + 8] = b"damaged!"
        damaged.write_bytes(content)
        report = eraseblock.check(damaged, "rootfs")
        self.assertFalse(report.is_consistent)
        self.assertIn("error", [finding.severity for finding in report.findings])
        fs = eraseblock.open(damaged)["rootfs"].fs
        with self.assertRaises(eraseblock.Corrupted) as caught:
            fs.read_bytes("bin/tool")
        self.assertEqual(caught.exception.errno, 117)
        self.assertNotEqual(fs.check(), ())
        report = fs.extractall(self.folder / "salvaged", owners=False)
        self.assertEqual(report.left_out, 2)

    def test_an_image_is_changed_in_place(self):
        image = self.fresh("edit.ubi")
        with eraseblock.edit(image, time=1_700_000_000)["rootfs"] as fs:
            fs.write_text("/etc/motd", "changed\n")
            fs.mkdir("a/b/c")
            fs.symlink("b", "a/link")
            fs.rename("bin/tool", "a/b/tool")
            fs.remove("bin/again")
            fs.chmod("etc/motd", 0o600)
            fs.chown("etc/motd", 5, 6)
            self.assertEqual(fs.read_bytes("etc/motd"), b"changed\n")
            self.assertEqual(fs.check(), ())
            with self.assertRaises(FileNotFoundError):
                fs.remove("bin/none")
        with self.assertRaisesRegex(eraseblock.UsageError, "closed"):
            fs.read_bytes("etc/motd")
        read = eraseblock.open(image)["rootfs"].fs
        self.assertEqual(read.read_text("etc/motd"), "changed\n")
        found = read.stat("etc/motd")
        self.assertEqual((found.st_mode & 0o7777, found.st_uid, found.st_gid), (0o600, 5, 6))
        self.assertEqual(found.st_mtime, 1_700_000_000)
        self.assertEqual(read.listdir("a/b"), ["c", "tool"])
        self.assertTrue(eraseblock.check(image).is_consistent)

    def test_a_mounted_file_system_is_not_used_by_a_child(self):
        fs = eraseblock.edit(self.fresh("fork.ubi"))["rootfs"]
        child = os.fork()
        if child == 0:
            try:
                fs.write_text("/etc/motd", "child\n")
                os._exit(1)
            except eraseblock.UsageError:
                os._exit(7)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        fs.write_text("/etc/motd", "parent\n")
        fs.close()


class Command(images.Made):
    def run_command(self, *arguments, **more):
        program = Path(sys.executable).with_name("eraseblock")
        start = [str(program)] if program.exists() else [sys.executable, "-m", "eraseblock"]
        return subprocess.run([*start, *arguments], capture_output=True, text=True, **more)

    def test_the_command_is_in_the_package(self):
        done = self.run_command("cat", f"{self.board}:rootfs", "/etc/motd")
        self.assertEqual((done.returncode, done.stdout), (0, "hello flash\n"))
        self.assertEqual(self.run_command("info", "/none").returncode, 3)
        self.assertEqual(self.run_command("--wrong").returncode, 2)

    def test_links_for_other_names_lead_to_the_script(self):
        if not Path(sys.executable).with_name("eraseblock").exists():
            self.skipTest("the package is not installed as a wheel")
        links = self.folder / "links"
        self.run_command("personalities", "--readers", "--dir", str(links), check=True)
        done = subprocess.run([links / "ubireader_extract_files", "-o", self.folder / "read", self.board],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list((self.folder / "read").rglob("motd"))), 1)


if __name__ == "__main__":
    unittest.main()
