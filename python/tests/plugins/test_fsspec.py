"""Images as file systems of fsspec, and through it of pandas, Dask, Ray Data and ratarmount."""

import os
import pickle
import shutil
import subprocess
import sys
import time
import unittest
import zipfile
from pathlib import Path

import fsspec
import images
import pandas

import eraseblock


class Fsspec(images.Made):
    def url(self, path):
        return f"ubi://rootfs/{path}::file://{self.board}"

    def fs(self, **options):
        return fsspec.filesystem("ubi", fo=str(self.board), skip_instance_cache=True, **options)

    def test_entry_points_name_the_class(self):
        for protocol in ("ubi", "ubifs", "jffs2", "yaffs"):
            self.assertEqual(fsspec.get_filesystem_class(protocol).__name__, "EraseblockFileSystem")

    def test_every_file_reads_as_in_the_tree(self):
        fs, found = self.fs(), 0
        for top, _, names in os.walk(self.folder / "rootfs"):
            for name in names:
                host = Path(top, name)
                inside = f"rootfs/{host.relative_to(self.folder / 'rootfs')}"
                if host.is_symlink() or not host.is_file():
                    continue
                self.assertEqual(fs.cat_file(inside), host.read_bytes())
                self.assertEqual(fs.info(inside)["mode"], host.stat().st_mode)
                self.assertTrue(fs.isfile(inside))
                found += 1
        self.assertGreater(found, 5)

    def test_the_root_lists_volumes(self):
        fs = self.fs()
        self.assertEqual(fs.ls("", detail=False), ["env", "rootfs"])
        self.assertEqual(fs.ls("rootfs/etc", detail=False)[0], "rootfs/etc/deep")
        self.assertEqual({info["type"] for info in fs.ls("")}, {"directory"})
        self.assertIn("rootfs/etc/deep/er/x.conf", fs.find("rootfs"))
        self.assertEqual(fs.glob("rootfs/etc/*.csv"), ["rootfs/etc/table.csv"])
        info = fs.info("rootfs/etc/issue")
        self.assertEqual((info["type"], info["islink"], info["destination"]), ("file", True, "motd"))
        self.assertEqual(fs.info("rootfs/etc/lost")["type"], "link")

    def test_a_copy_of_all_volumes_stays_in_its_folder(self):
        """The files of a volume `..` were copied into the folder above; those of `a/b` could not be read."""
        fs = fsspec.filesystem("ubi", fo=str(images.oddly_named(self.folder)), skip_instance_cache=True)
        self.assertEqual(fs.ls("", detail=False), list(images.FOLDERS))
        out = self.folder / "out/of/all"
        fs.get("", str(out), recursive=True)
        found = {str(path.relative_to(self.folder / "out")): path.read_text()
                 for path in (self.folder / "out").rglob("*") if path.is_file()}
        self.assertEqual(found, {f"of/all/{name}/mark": str(number) for number, name in enumerate(images.FOLDERS)})
        # Its own name finds a volume unless it is that of another folder.
        self.assertEqual(fs.cat_file("two\nlines/mark"), b"4")
        self.assertEqual(fs.cat_file("volume-0/mark"), b"0")

    def test_parts_of_files(self):
        fs, whole = self.fs(), (self.folder / "rootfs/bin/tool").read_bytes()
        for start, end in ((0, 10), (100, 5000), (-7, None), (None, -3), (10**7, None), (5, 2)):
            self.assertEqual(fs.cat_file("rootfs/bin/tool", start, end), whole[start:end])
        with fs.open("rootfs/bin/tool") as file:
            file.seek(4097)
            self.assertEqual(file.read(3), whole[4097:4100])

    def test_what_is_missing_or_would_write_is_refused(self):
        fs = self.fs()
        for path in ("rootfs/none", "none/etc", "none"):
            with self.assertRaises(FileNotFoundError):
                fs.info(path)
            self.assertFalse(fs.exists(path))
        with self.assertRaises(IsADirectoryError):
            fs.open("rootfs/etc")
        for call in (lambda: fs.open("rootfs/new", "wb"), lambda: fs.rm("rootfs/etc"), lambda: fs.mkdir("rootfs/x")):
            with self.assertRaises(PermissionError):
                call()

    def test_it_is_pickled(self):
        fs = pickle.loads(pickle.dumps(self.fs()))
        self.assertEqual(fs.cat_file("rootfs/etc/motd"), b"hello flash\n")

    def test_images_in_other_file_systems(self):
        with zipfile.ZipFile(self.folder / "packed.zip", "w") as packed:
            packed.write(self.board, "board.ubi")
        url = f"ubi://rootfs/etc/motd::zip://board.ubi::file://{self.folder / 'packed.zip'}"
        with fsspec.open(url) as file:
            self.assertEqual(file.read(), b"hello flash\n")

    def test_get_copies_folders(self):
        self.fs().get("rootfs/etc/deep", str(self.folder / "got"), recursive=True)
        self.assertEqual((self.folder / "got/er/x.conf").read_text(), "x\n")

    def test_pandas_reads_a_table(self):
        self.assertEqual(pandas.read_csv(self.url("etc/table.csv")).b.tolist(), [2, 4])

    def test_dask_reads_lines(self):
        import dask.bag

        lines = dask.bag.read_text(self.url("etc/table.csv")).compute(scheduler="sync")
        self.assertEqual(lines, ["a,b\n", "1,2\n", "3,4\n"])

    def test_without_the_entry_point_there_is_nothing(self):
        """The same URL in a Python that does not see the package's entry points."""
        script = (
            "import importlib.metadata as m; whole = m.entry_points;"
            "m.entry_points = lambda **k: [] if k else {};"
            f"import fsspec; fsspec.open({self.url('etc/motd')!r}).open()"
        )
        done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)
        self.assertIn("Protocol not known: ubi", done.stderr)

    def test_ratarmount_mounts_it(self):
        if not os.path.exists("/dev/fuse"):
            self.skipTest("no /dev/fuse")
        where = self.folder / "mnt"
        where.mkdir()
        program = Path(sys.executable).with_name("ratarmount")
        url = f"ubi://rootfs::file://{self.board}"
        serving = subprocess.Popen([program, "-f", url, where], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + 60
            while not os.path.ismount(where) and serving.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            self.assertTrue(os.path.ismount(where), serving.poll() is not None and serving.stdout.read())
            self.assertEqual((where / "bin/tool").read_bytes(), (self.folder / "rootfs/bin/tool").read_bytes())
            self.assertEqual((where / "etc/motd").read_text(), "hello flash\n")
        finally:
            unmount = ["fusermount3", "-u"] if shutil.which("fusermount3") else ["umount"]
            subprocess.run([*unmount, where], capture_output=True)
            serving.terminate()
            serving.wait(20)
            serving.stdout.close()


class Bare(images.Made):
    def test_a_file_system_without_ubi(self):
        eraseblock._native.cli("eraseblock", [
            "eraseblock", "mkfs", "jffs2", str(self.folder / "rootfs"), "-o", str(self.folder / "r.jffs2"),
            "--peb", "64KiB", "-q"])
        with fsspec.open(f"jffs2://etc/motd::file://{self.folder / 'r.jffs2'}") as file:
            self.assertEqual(file.read(), b"hello flash\n")
        with open(self.folder / "r.jffs2", "rb") as image:
            fs = fsspec.filesystem("jffs2", fo=image, skip_instance_cache=True)
            self.assertEqual(fs.cat("etc/motd"), b"hello flash\n")


if __name__ == "__main__":
    unittest.main()
