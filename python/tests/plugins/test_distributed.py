"""Campaigns and scans divided in every way, with workers that are killed and units that crash.

``ERASEBLOCK_UNITS`` is the number of units of the campaign.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import images

from eraseblock import distributed

UNITS = int(os.environ.get("ERASEBLOCK_UNITS", "200"))
CAMPAIGN = ["--target", "jffs2", "--every", "9", "--nested", "31", "--units", str(UNITS)]
PROGRAM = [str(Path(sys.executable).with_name("eraseblock"))]

WRAPPER = """#!/bin/sh
for last; do :; done
case "$last" in */*) echo "$last" >> "$EB_LOG" ;; esac
{fault}
exec {program} "$@"
"""


class Campaigns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="eraseblock-")
        cls.addClassCleanup(cls.place.cleanup)
        cls.top = Path(cls.place.name)
        cls.log = cls.top / "log"
        os.environ["EB_LOG"] = str(cls.log)
        cls.expected = distributed.powercut(CAMPAIGN, cls.top / "expected", batch=8)

    def wrapper(self, fault=""):
        path = Path(tempfile.mkdtemp(dir=self.top)) / "program"
        path.write_text(WRAPPER.format(fault=fault, program=PROGRAM[0]))
        path.chmod(0o755)
        return [str(path)]

    def driver(self, out, program, workers=2):
        """Start a driver with Ray, in a process group of its own."""
        script = (
            "import sys; from eraseblock import distributed;"
            f"distributed.powercut({CAMPAIGN!r}, {str(out)!r}, engine='ray', batch=4, workers={workers}, program={program!r})"
        )
        return subprocess.Popen(
            [sys.executable, "-c", script], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def rows(self, out):
        return sum(1 for _ in (Path(out) / "rows").glob("**/*.parquet"))

    def wait_for_rows(self, out, driver, number):
        deadline = time.monotonic() + 240
        while self.rows(out) < number and driver.poll() is None:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def logged(self):
        return self.log.read_text().split() if self.log.exists() else []

    def test_1_one_process_finds_the_same(self):
        done = subprocess.run([*PROGRAM, "lab", "powercut", *CAMPAIGN, "--json"], capture_output=True, check=True)
        serial = json.loads(done.stdout)
        self.assertEqual(serial["digest"], self.expected.digest)
        self.assertEqual(serial["plans"], UNITS)
        for what in ("states", "nested_states", "duplicates", "events", "operations", "variants", "cut_operations"):
            self.assertEqual(serial[what], self.expected.counts[what], what)

    def test_1_shares_in_any_order_find_the_same(self):
        shares = list(range(7))
        random.Random(1).shuffle(shares)
        out = self.top / "shares"
        for share in shares:
            subprocess.run([*PROGRAM, "lab", "powercut", *CAMPAIGN, "--shard", f"{share}/7", "--out", out], check=True)
        self.assertEqual(distributed.merge(out).text(), self.expected.text())

    def test_1_ray_finds_the_same(self):
        for workers in (1, 2, 4):
            with self.subTest(workers=workers):
                out = self.top / f"ray-{workers}"
                driver = self.driver(out, PROGRAM, workers)
                printed, _ = driver.communicate(timeout=280)
                self.assertEqual(driver.returncode, 0, printed)
                self.assertEqual(distributed.merge(out).text(), self.expected.text())

    def test_2_a_killed_worker_is_replaced(self):
        out = self.top / "killed-worker"
        driver = self.driver(out, PROGRAM)
        self.wait_for_rows(out, driver, UNITS // 12)
        listing = subprocess.run(["ps", "-eo", "pid,sid,args"], capture_output=True, text=True).stdout
        killed = 0
        for line in listing.splitlines()[1:]:
            pid, sid, arguments = line.split(None, 2)
            if int(sid) == driver.pid and arguments.startswith("ray::Map") and not killed:
                os.kill(int(pid), signal.SIGKILL)
                killed = int(pid)
        printed, _ = driver.communicate(timeout=280)
        self.assertTrue(killed, listing)
        self.assertEqual(driver.returncode, 0, printed)
        self.assertEqual(distributed.merge(out).text(), self.expected.text())

    def test_3_a_killed_driver_goes_on(self):
        self.log.unlink(missing_ok=True)
        out, program = self.top / "killed-driver", self.wrapper()
        driver = self.driver(out, program)
        self.wait_for_rows(out, driver, UNITS // 12)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
        before = len(self.logged())
        self.assertLess(before, UNITS)
        again = self.driver(out, program)
        printed, _ = again.communicate(timeout=280)
        self.assertEqual(again.returncode, 0, printed)
        self.assertEqual(distributed.merge(out).text(), self.expected.text())
        # One batch of each of the two workers, and those that were about to be written.
        print(f"{before} units, then {len(self.logged()) - before}, of {UNITS}")
        self.assertLess(len(self.logged()), UNITS + before)

    def test_3_a_local_run_goes_on(self):
        self.log.unlink(missing_ok=True)
        out, program = self.top / "killed-local", self.wrapper()
        script = (
            "from eraseblock import distributed;"
            f"distributed.powercut({CAMPAIGN!r}, {str(out)!r}, batch=2, workers=2, program={program!r})"
        )
        driver = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
        self.wait_for_rows(out, driver, UNITS // 6)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        found = distributed.powercut(CAMPAIGN, out, batch=2, workers=2, program=program)
        self.assertEqual(found.text(), self.expected.text())
        self.assertLessEqual(len(self.logged()), UNITS + 2 * 2)

    def test_4_a_unit_that_crashes_is_a_row(self):
        program = self.wrapper('case "$last" in */seq1-3) kill -ABRT $$ ;; */seq1-5) sleep 60 ;; esac')
        found = distributed.powercut(CAMPAIGN, self.top / "crash", batch=4, program=program, seconds=20)
        self.assertEqual(found.failed, ("jffs2/nand/seq1-3", "jffs2/nand/seq1-5"))
        self.assertEqual(found.statuses, {"done": UNITS - 2, "crashed": 1, "timeout": 1})
        # Rows of another run take the place of the failures.
        both = distributed.merge(self.top / "crash", self.top / "expected")
        self.assertEqual(both.text(), self.expected.text())

    def test_5_two_different_results_are_an_error(self):
        out = self.top / "clock"
        some = [*CAMPAIGN[:-1], "9"]
        fault = f'case "$last" in */seq1-7) {PROGRAM[0]} "$@" | sed "s/\\"states\\":/\\"states\\":$(date +%s%N | cut -c 10-)/"; exit ;; esac'
        distributed.powercut(some, out, program=self.wrapper(fault))
        with self.assertRaisesRegex(distributed.NotDeterministic, "jffs2/nand/seq1-7"):
            distributed.merge(out, self.top / "expected")

    def test_8_another_campaign_is_refused(self):
        with self.assertRaisesRegex(ValueError, "other work"):
            distributed.powercut([*CAMPAIGN, "--seed", "2"], self.top / "expected")


class Scans(images.Made):
    def test_7_hostile_images_are_rows(self):
        import duckdb

        number = int(os.environ.get("ERASEBLOCK_SCANS", "100"))
        rng = random.Random(5)
        names, empty = [], set()
        for index in range(number):
            name = self.folder / f"image-{index:03}"
            names.append(name)
            if index % 50 == 7:
                name.write_bytes(rng.randbytes(100_000))
            elif index % 50 == 8:
                os.mkfifo(name)  # opening it for reading would wait for ever
            else:
                tree = self.folder / "scanned"
                (tree / "etc").mkdir(parents=True, exist_ok=True)
                password = rng.choice(["", "!"])
                (tree / "etc/shadow").write_text(f"root:{password}:20000::::::\n")
                (tree / "etc/name").write_text(str(index))
                subprocess.run([*PROGRAM, "mkfs", "jffs2", tree, "-o", name, "--peb", "64KiB", "-q"], check=True)
                if not password:
                    empty.add(str(name))
        out = self.folder / "rows"
        found = distributed.scan(names, out, seconds=30)
        self.assertEqual(found.units, number)
        table = str(out / "rows/*.parquet")
        import hashlib

        digest = hashlib.sha256(b"root::20000::::::\n").hexdigest()
        rows = duckdb.sql(
            f"SELECT unit FROM '{table}', unnest(files) AS f(file) "
            f"WHERE file.path = 'etc/shadow' AND file.sha256 = '{digest}'"
        ).fetchall()
        self.assertEqual({unit for unit, in rows}, empty)
        hostile = duckdb.sql(f"SELECT count(*) FROM '{table}' WHERE status <> 'done' OR error IS NOT NULL").fetchone()
        self.assertEqual(hostile[0], number // 50 * 2)


if __name__ == "__main__":
    unittest.main()
