"""Errors, panics, forks, signals, threads."""

import io
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

import images

import eraseblock
from eraseblock import _native


class Errors(images.Made):
    def test_errors_are_also_those_of_python(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        for builtin, ours, call in (
            (FileNotFoundError, eraseblock.NotFound, lambda: fs.open("none")),
            (FileNotFoundError, eraseblock.NotFound, lambda: eraseblock.open(self.folder / "none")),
            (IsADirectoryError, eraseblock.IsADirectory, lambda: fs.open("etc")),
            (IsADirectoryError, eraseblock.IsADirectory, lambda: fs.read_bytes("etc")),
            (NotADirectoryError, eraseblock.NotADirectory, lambda: fs.listdir("etc/motd")),
            (ValueError, eraseblock.UnsupportedFormat, lambda: eraseblock.open(b"hsqs, and so on")),
            (OSError, eraseblock.Refused, lambda: fs.read_bytes("pipe")),
        ):
            with self.subTest(ours), self.assertRaises(builtin) as caught:
                call()
            self.assertIsInstance(caught.exception, ours)
            self.assertIsInstance(caught.exception, eraseblock.Error)
            self.assertNotIn("[Errno", str(caught.exception))
        with self.assertRaises(eraseblock.Error) as caught:
            eraseblock.open(self.folder / "none")
        self.assertEqual(caught.exception.errno, 2)
        self.assertIn("none", caught.exception.place)

    def test_a_panic_is_an_exception(self):
        with self.assertRaisesRegex(eraseblock.InternalError, "provoked"):
            _native._provoke_panic()

    def test_random_bytes_raise_nothing_but_errors(self):
        rng = random.Random(7)
        starts = [b"", b"UBI#\x01", b"\x31\x18\x10\x06", b"\x85\x19\x01\xe0", b"hsqs", b"\x19\x85"]
        content = self.board.read_bytes()
        for number in range(int(os.environ.get("ERASEBLOCK_RANDOM", "5000"))):
            if number % 100 == 99:
                image = bytearray(content[: 400_000])
                for _ in range(50):
                    image[rng.randrange(len(image))] = rng.randrange(256)
                image = bytes(image)
            else:
                image = rng.choice(starts) + rng.randbytes(rng.randrange(400))
            try:
                for volume in eraseblock.open(image).volumes.values():
                    volume.fs.check()
            except eraseblock.InternalError:
                raise
            except eraseblock.Error:
                pass

    def test_what_a_file_object_raises_is_in_the_message(self):
        class Broken(io.BytesIO):
            def read(self, size=-1):
                raise OSError("the line is down")

        with self.assertRaisesRegex(eraseblock.Error, "the line is down"):
            eraseblock.open(Broken(b"x" * 1000))

    def test_what_a_sink_raises_is_raised(self):
        class Full:
            def write(self, data):
                raise ZeroDivisionError("no room")

        fs = eraseblock.open(self.board)["rootfs"].fs
        with self.assertRaisesRegex(ZeroDivisionError, "no room"):
            fs.to_tar(Full())

    def test_a_file_object_may_end_early(self):
        class Short(io.BytesIO):
            def read(self, size=-1):
                return super().read(min(size, 5)) if self.tell() < 100_000 else b""

        with self.assertRaises(eraseblock.Error):
            eraseblock.open(Short(self.board.read_bytes()))


class Processes(images.Made):
    def test_a_forked_child_extracts(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        fs.extractall(self.folder / "parent")
        child = os.fork()
        if child == 0:
            try:
                eraseblock.open(self.board)["rootfs"].fs.extractall(self.folder / "child")
                fs.extractall(self.folder / "inherited")
                os._exit(0)
            finally:
                os._exit(1)
        deadline = time.monotonic() + 20
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                self.fail("the child hangs")
            time.sleep(0.02)
        self.assertEqual(os.waitstatus_to_exitcode(ended[1]), 0)
        self.assertEqual((self.folder / "inherited/etc/motd").read_text(), "hello flash\n")

    def test_an_interrupt_ends_an_extraction(self):
        many = self.folder / "many"
        many.mkdir()
        for number in range(300):
            (many / f"file-{number:03}").write_bytes(random.Random(number).randbytes(64 << 10))
        layout = "flash.part = 'W29N01HV'\n[[volume]]\nname = 'many'\ncontent = { ubifs = 'many' }\n"
        eraseblock.build(self.folder, self.folder / "many.ubi", text=layout)
        # The file object is slow, so the extraction would take minutes.
        script = textwrap.dedent(f"""
            import io, os, signal, threading, time, eraseblock
            # What a shell starts in the background ignores the signal.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            class Slow(io.FileIO):
                slow = False
                def read(self, size=-1):
                    if Slow.slow:
                        time.sleep(0.02)
                    return super().read(size)
            fs = eraseblock.open(Slow({str(self.folder / "many.ubi")!r})).fs
            Slow.slow = True
            sent = []
            def interrupt():
                time.sleep(1)
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=interrupt).start()
            try:
                fs.extractall({str(self.folder / "slow")!r})
            except KeyboardInterrupt:
                print("interrupted after", time.monotonic() - sent[0])
        """)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
        self.assertIn("interrupted after", done.stdout, done.stderr)
        print(done.stdout.strip(), "s")
        # Without the interrupt it takes more than ten times as long.
        self.assertLess(float(done.stdout.split()[-1]), 5)
        # What is there is complete.
        for path in (self.folder / "slow").glob("file-*"):
            self.assertEqual(path.read_bytes(), (many / path.name).read_bytes())

    def test_threads_share_an_image(self):
        fs = eraseblock.open(self.board)["rootfs"].fs
        expected, wrong = (self.folder / "rootfs/bin/tool").read_bytes(), []

        def read():
            for _ in range(20):
                if fs.read_bytes("bin/tool") != expected:
                    wrong.append(True)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_large_file_is_read_in_little_memory(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            tree = Path(folder, "tree")
            tree.mkdir()
            with open(tree / "large", "wb") as file:
                file.seek((1 << 30) - 1)
                file.write(b"x")
            layout = "flash.part = 'W29N01HV'\n[[volume]]\nname = 'l'\ncontent = { ubifs = 'tree' }\n"
            eraseblock.build(folder, Path(folder, "large.ubi"), text=layout)
            script = textwrap.dedent(f"""
                import eraseblock
                fs = eraseblock.open({str(Path(folder, "large.ubi"))!r}).fs
                buffer, total = bytearray(1 << 20), 0
                with fs.open("large", buffering=1 << 20) as file:
                    while length := file.readinto(buffer):
                        total += length
                # Not `ru_maxrss`, which begins with what the parent used.
                peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
                print(total, buffer[-1], peak.split()[1])
            """)
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            total, last, peak = map(int, done.stdout.split())
            self.assertEqual((total, last), (1 << 30, ord("x")))
            self.assertLess(peak, 64 << 10)
            print("peak memory of reading 1 GiB:", peak, "KiB")


if __name__ == "__main__":
    unittest.main()
