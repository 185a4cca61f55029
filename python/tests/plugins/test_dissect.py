"""The plug-in in the programs of dissect.target as they come from their registry."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

import images

FOLDER = Path(os.environ["ERASEBLOCK_REPOSITORY"]) / "plugins/dissect"


class Dissect(images.Made):
    def run_tool(self, name, *arguments, plugin=True):
        environment = dict(os.environ)
        environment.pop("DISSECT_PLUGINS", None)
        if plugin:
            environment["DISSECT_PLUGINS"] = str(FOLDER)
        program = Path(sys.executable).with_name(name)
        return subprocess.run([program, *map(str, arguments)], capture_output=True, env=environment)

    def test_files_of_a_volume_are_read(self):
        done = self.run_tool("target-fs", self.board, "cat", "/fs1/etc/motd")
        listing = self.run_tool("target-fs", self.board, "ls", "/")
        if b"hello" not in done.stdout:
            done = self.run_tool("target-fs", self.board, "cat", "/etc/motd")
        self.assertEqual(done.stdout, b"hello flash\n", (done.stderr, listing.stdout))
        done = self.run_tool("target-fs", self.board, "cat", "/bin/tool")
        self.assertEqual(done.stdout, (self.folder / "rootfs/bin/tool").read_bytes())
        listing = self.run_tool("target-fs", self.board, "ls", "-l", "/etc")
        self.assertIn(b"issue -> ", listing.stdout)

    def test_volumes_with_odd_names(self):
        image = images.oddly_named(self.folder)
        done = self.run_tool("target-query", "-f", "walkfs", "-s", image)
        for number in range(len(images.ODD)):
            self.assertIn(f"/fs{number}/mark".encode(), done.stdout, done.stderr)
        done = self.run_tool("target-info", image)
        for name in images.FOLDERS:
            self.assertIn(f"<Volume name='{name}'".encode(), done.stdout, done.stderr)

    def test_all_files_are_walked(self):
        done = self.run_tool("target-query", "-f", "walkfs", "-s", self.board)
        for name in (b"/etc/deep/er/x.conf", b"/bin/again"):
            self.assertIn(name, done.stdout, done.stderr)

    def test_without_the_plugin_there_is_nothing(self):
        done = self.run_tool("target-fs", self.board, "cat", "/etc/motd", plugin=False)
        self.assertNotIn(b"hello flash", done.stdout)


if __name__ == "__main__":
    unittest.main()
