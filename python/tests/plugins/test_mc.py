"""The script for Midnight Commander, called as it calls it."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

import images

SCRIPT = Path(os.environ["ERASEBLOCK_REPOSITORY"]) / "plugins/mc/ueb"


class MidnightCommander(images.Made):
    def script(self, *arguments):
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        return subprocess.run(["sh", SCRIPT, *arguments], capture_output=True, env=environment)

    def test_the_list_is_that_of_ls(self):
        done = self.script("list", self.board)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        # mode, links, owner, group, size, date, time, name
        rows = [line.split(b" ", 7) for line in done.stdout.splitlines()]
        found = {row[7].split(b" -> ")[0]: (row[0], row[4]) for row in rows if not row[7].startswith(b"env")}
        letters = {name.partition(b"/")[2]: row[0] for name, row in found.items() if b"/" in name}
        tree = self.folder / "rootfs"
        listing = subprocess.run(
            ["find", ".", "-mindepth", "1", "-printf", "%M %P\\n"], cwd=tree, capture_output=True).stdout
        for line in listing.splitlines():
            mode, _, name = line.partition(b" ")
            self.assertEqual(letters[name], mode, name)
        self.assertIn(b"rootfs/etc/issue -> motd", done.stdout)

    def test_files_are_copied_out(self):
        odd = os.fsdecode(b"rootfs/odd-\xff\xfe")
        for name, content in (("rootfs/etc/motd", b"hello flash\n"), ("env", b"bootdelay=3\n"), (odd, b"odd\n")):
            self.assertEqual(self.script("copyout", self.board, name, self.folder / "copy").returncode, 0)
            self.assertEqual((self.folder / "copy").read_bytes(), content)

    def test_volumes_with_odd_names(self):
        """A volume `..` was the folder above, one with a slash was two folders, one of two lines two entries."""
        image = images.oddly_named(self.folder)
        done = self.script("list", image)
        names = [line.split(b" ", 7)[7].decode() for line in done.stdout.splitlines()]
        self.assertEqual(names, [*images.FOLDERS, *(f"{name}/mark" for name in images.FOLDERS)])
        for number, name in enumerate(images.FOLDERS):
            self.assertEqual(self.script("copyout", image, f"{name}/mark", self.folder / "copy").returncode, 0)
            self.assertEqual((self.folder / "copy").read_text(), str(number))
        self.assertNotEqual(self.script("copyout", image, "../mark", self.folder / "copy").returncode, 0)

    def test_writing_is_refused(self):
        self.assertEqual(self.script("rm", self.board, "rootfs/etc/motd").returncode, 1)


if __name__ == "__main__":
    unittest.main()
