"""Campaigns and scans divided in every way, with workers that are killed and units that crash.

``ERASEBLOCK_PLANTED`` is the command with a bug (``unsynced.patch``), which breaks a rule in every unit that syncs.
"""

import collections
import contextlib
import hashlib
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

from eraseblock import _native, distributed

UNITS = 200
CAMPAIGN = ["--target", "jffs2", "--every", "9", "--nested", "31", "--units", str(UNITS)]
BATCH = 4
HANGS = 900
"""Seconds after which a driver hangs. All tests together take a third of that on two idle processors."""
PROGRAM = [os.environ.get("ERASEBLOCK_PROGRAM", str(Path(sys.executable).with_name("eraseblock")))]
"""Runs the units. That of the package starts Python first, which takes five times as long as most units."""
PLANTED = os.environ.get("ERASEBLOCK_PLANTED")

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
        # The command of the package alone, in one process.
        serial = cls.top / "serial"
        subprocess.run([*distributed.PROGRAM, "lab", "powercut", *CAMPAIGN, "--out", serial], check=True)
        listed = subprocess.run([*PROGRAM, "lab", "powercut", *CAMPAIGN, "--list-units"], capture_output=True, text=True)
        cls.slow = listed.stdout.split()[UNITS * 3 // 5]
        cls.expected = distributed.merge(serial)

    def setUp(self):
        self.log.unlink(missing_ok=True)

    def wrapper(self, fault=""):
        """Return a command that notes each unit it begins, and does ``fault`` first."""
        path = Path(tempfile.mkdtemp(dir=self.top)) / "program"
        path.write_text(WRAPPER.format(fault=fault, program=PROGRAM[0]))
        path.chmod(0o755)
        return [str(path)]

    def waiting(self):
        """Return a command that waits the first time it runs the unit ``slow``: something is left to be killed then."""
        marker = Path(tempfile.mkdtemp(dir=self.top)) / "waited"
        return self.wrapper(f'[ "$last" = {self.slow} ] && [ ! -e {marker} ] && touch {marker} && sleep 5')

    def driver(self, out, program, workers=2):
        """Start a driver with Ray, in a session of its own."""
        script = (
            "from eraseblock import distributed;"
            f"distributed.powercut({CAMPAIGN!r}, {str(out)!r}, engine='ray', batch={BATCH}, workers={workers}, program={program!r})"
        )
        driver = subprocess.Popen(
            [sys.executable, "-c", script], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(self.kill, driver)
        return driver

    def kill(self, driver):
        """Kill a driver with all processes that it has started."""
        for pid, _ in self.processes(driver):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        driver.wait()
        driver.stdout.close()

    def finish(self, driver, out):
        """Wait for the end of a driver, and compare the sum of its rows."""
        printed, _ = driver.communicate(timeout=HANGS)
        self.assertEqual(driver.returncode, 0, printed)
        self.assertEqual(distributed.merge(out).text(), self.expected.text())

    def wait_for_a_third(self, out, driver):
        deadline = time.monotonic() + HANGS
        while sum(1 for _ in (out / "rows").glob("**/*.parquet")) * BATCH < UNITS / 3:
            if driver.poll() is not None:
                self.fail(f"the driver ended before it was killed:\n{driver.stdout.read()}")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def processes(self, driver):
        """Return the numbers and names of the processes of a driver that is running."""
        listing = subprocess.run(["ps", "-eo", "pid,sid,args"], capture_output=True, text=True, check=True).stdout
        fields = (line.split(None, 2) for line in listing.splitlines()[1:])
        return [(int(pid), name) for pid, sid, name in fields if int(sid) == driver.pid]

    def noted(self):
        """Return how often each unit was begun."""
        return collections.Counter(self.log.read_text().split() if self.log.exists() else [])

    def test_1_one_process_finds_the_same(self):
        done = subprocess.run([*PROGRAM, "lab", "powercut", *CAMPAIGN, "--json"], capture_output=True, check=True)
        serial = json.loads(done.stdout)
        self.assertEqual(serial["digest"], self.expected.digest)
        self.assertEqual(serial["plans"], UNITS)
        for what in ("states", "nested_states", "duplicates", "events", "operations", "variants", "cut_operations"):
            self.assertEqual(serial[what], self.expected.counts[what], what)

    def test_1_this_machine_finds_the_same(self):
        found = distributed.powercut(CAMPAIGN, self.top / "local", batch=8, program=self.wrapper())
        self.assertEqual(found.text(), self.expected.text())
        self.assertEqual(sorted(self.noted().values()), [1] * UNITS)

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
                self.finish(self.driver(out, PROGRAM, workers), out)
                self.assertGreaterEqual(len(list((out / "rows").glob("**/*.parquet"))), UNITS // BATCH)

    def test_1_units_in_any_order_find_the_same(self):
        shuffle = f'case "$last" in --list-units) {PROGRAM[0]} "$@" | shuf; exit ;; esac'
        out = self.top / "shuffled"
        found = distributed.powercut(CAMPAIGN, out, batch=8, program=self.wrapper(shuffle))
        self.assertEqual(found.text(), self.expected.text())
        begun = self.log.read_text().split()
        self.assertNotEqual(begun, sorted(begun))

    def test_2_a_killed_worker_is_replaced(self):
        out = self.top / "killed-worker"
        driver = self.driver(out, self.waiting())
        self.wait_for_a_third(out, driver)
        # The worker is one that runs a unit: it has a child.
        killed = None
        while killed is None:
            self.assertIsNone(driver.poll(), "the driver ended before a worker was killed")
            of = dict(self.processes(driver))
            for pid, name in of.items():
                if f"--unit {self.slow}" in name:
                    parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
                    if of.get(parent, "").startswith("ray::"):
                        os.kill(parent, signal.SIGKILL)
                        killed = parent
                        break
        self.finish(driver, out)
        # Only the batch of the killed worker runs again, from its beginning.
        again = {unit: count for unit, count in self.noted().items() if count != 1}
        print(f"{len(again)} units of a killed worker ran again")
        self.assertIn(self.slow, again)
        self.assertTrue(len(again) <= BATCH and set(again.values()) == {2}, again)

    def test_3_a_killed_driver_goes_on(self):
        out, program, workers = self.top / "killed-driver", self.waiting(), 2
        driver = self.driver(out, program, workers)
        self.wait_for_a_third(out, driver)
        self.kill(driver)
        before = self.noted().total()
        self.assertLess(before, UNITS)
        self.finish(self.driver(out, program, workers), out)
        total = self.noted().total()
        print(f"{before} units, the driver was killed, then {total - before}; {UNITS} in all")
        self.assertEqual(len(self.noted()), UNITS)
        self.assertLessEqual(total, UNITS + workers * BATCH)

    def test_3_a_local_run_goes_on(self):
        out, program = self.top / "killed-local", self.waiting()
        script = (
            "from eraseblock import distributed;"
            f"distributed.powercut({CAMPAIGN!r}, {str(out)!r}, batch={BATCH}, workers=2, program={program!r})"
        )
        driver = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
        self.wait_for_a_third(out, driver)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        found = distributed.powercut(CAMPAIGN, out, batch=BATCH, workers=2, program=program)
        self.assertEqual(found.text(), self.expected.text())
        self.assertLessEqual(self.noted().total(), UNITS + 2 * BATCH)

    def test_4_a_unit_that_crashes_is_a_row(self):
        # The second one never ends.
        program = self.wrapper('case "$last" in */seq1-3) kill -ABRT $$ ;; */seq1-5) sleep 60 ;; esac')
        found = distributed.powercut(CAMPAIGN, self.top / "crash", batch=4, program=program, seconds=10)
        self.assertEqual(found.failed, ("jffs2/nand/seq1-3", "jffs2/nand/seq1-5"))
        self.assertEqual(found.statuses, {"done": UNITS - 2, "crashed": 1, "timeout": 1})
        # All other rows are equal, or this would fail; rows of another run take the place of the failures.
        both = distributed.merge(self.top / "crash", self.top / "serial")
        self.assertEqual(both.text(), self.expected.text())

    def test_5_two_different_results_are_an_error(self):
        out = self.top / "clock"
        some = [*CAMPAIGN[:-1], "9"]
        fault = f'case "$last" in */seq1-7) {PROGRAM[0]} "$@" | sed "s/\\"states\\":/\\"states\\":$(date +%s%N | cut -c 10-)/"; exit ;; esac'
        distributed.powercut(some, out, program=self.wrapper(fault))
        with self.assertRaisesRegex(distributed.NotDeterministic, "jffs2/nand/seq1-7"):
            distributed.merge(out, self.top / "serial")

    @unittest.skipUnless(PLANTED, "ERASEBLOCK_PLANTED names no command with a bug")
    def test_6_a_violation_has_an_id_that_is_judged_again(self):
        unit = "jffs2/nand/seq1-137"
        fault = f'[ "$last" = {unit} ] && exec {PLANTED} "$@"'
        found = distributed.powercut(CAMPAIGN, self.top / "planted", batch=8, program=self.wrapper(fault))
        self.assertEqual(found.statuses, {"done": UNITS})
        self.assertTrue(found.violations)
        for violation in found.violations:
            self.assertTrue(violation["id"].startswith(f"{unit}@"), violation)
        first = found.violations[0]
        # The command without the bug judges the same state otherwise, or never comes to it.
        for program, is_confirmed in ((PLANTED, True), (PROGRAM[0], False)):
            again = subprocess.run([program, "lab", "replay", first["id"]], capture_output=True, text=True)
            self.assertEqual(again.returncode == 1, is_confirmed, again.stdout + again.stderr)
            self.assertEqual(first["rule"] in again.stdout, is_confirmed, again.stdout)
        print(f"{len(found.violations)} violations; {first['id']}: {first['rule']}")

    def test_8_another_campaign_is_refused(self):
        out = self.top / "other"
        distributed.powercut([*CAMPAIGN[:-1], "1"], out)
        with self.assertRaisesRegex(ValueError, "other work"):
            distributed.powercut([*CAMPAIGN[:-1], "2"], out)


IMAGES = 500

ROOT = {
    "root::20000:0:99999:7:::\n": True,
    "root::::::::\ndaemon:*:20000:0:99999:7:::\n": True,
    "bin:*:1::::::\nroot::20000::::::\n": True,
    "root:!:20000:0:99999:7:::\n": False,
    "root:*:20000::::::\nguest::20000::::::\n": False,
    "root:$6$salt$hash:20000:0:99999:7:::\n": False,
}
"""Contents of /etc/shadow, and whether root has an empty password in them."""

MAKERS = (
    ["mkfs", "jffs2", "--peb", "64KiB"],
    ["mkfs", "yaffs2", "--page", "2048", "--peb", "128KiB"],
    ["mkfs", "ubifs", "--page", "2048", "--leb", "126976", "--max-lebs", "200"],
)


class Scans(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="eraseblock-")
        self.addCleanup(place.cleanup)
        self.top = Path(place.name)

    def make(self, tree, image, number):
        """Make an image of a tree, in this process: starting another one takes longer."""
        command = ["eraseblock", *MAKERS[number % len(MAKERS)], str(tree), "-o", str(image), "-q"]
        self.assertEqual(_native.cli("eraseblock", command), 0, command)

    def good(self, image, number, rng):
        """Make an image; return whether it has what the query looks for."""
        tree = self.top / "tree"
        text, is_empty = rng.choice(list(ROOT.items()))
        place = rng.choice(["etc/shadow", "etc/shadow", "etc/shadow-", "backup/etc/shadow", "etc/passwd"])
        file = tree / place
        file.parent.mkdir(parents=True)
        file.write_text(text)
        (tree / "number").write_text(str(number))
        self.make(tree, image, number)
        for path in sorted(tree.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        return is_empty and place == "etc/shadow"

    def hostile(self, rng):
        """Return ten ways to make an image that keeps a reader busy or cannot be read."""
        bomb = self.top / "bomb"
        bomb.mkdir()
        with open(bomb / "0", "wb") as file:
            file.truncate(1 << 30)  # nothing in UBIFS; 300 GiB to read by all its names
        for index in range(1, 300):
            os.link(bomb / "0", bomb / str(index))
        self.make(bomb, self.top / "bomb.ubifs", 2)
        sparse = (self.top / "bomb.ubifs").read_bytes()
        return [
            os.mkfifo, os.mkfifo,  # opening it for reading waits for a writer
            lambda path: path.write_bytes(sparse), lambda path: path.write_bytes(sparse),
            lambda path: path.write_bytes(rng.randbytes(100_000)),
            lambda path: path.write_bytes(rng.randbytes(3_000_000)),
            lambda path: path.write_bytes(b"UBI#\x01" * 50_000),
            lambda path: path.write_bytes(b""),
            lambda path: path.symlink_to("/dev/zero"),
            os.mkdir,
        ]

    def test_7_hostile_images_are_rows(self):
        import duckdb

        rng = random.Random(5)
        hostile = self.hostile(rng)
        names, empty, bad = [], set(), set()
        for number in range(IMAGES):
            image = self.top / f"image-{number:03}"
            names.append(image)
            if number % 50 == 7:
                hostile[number // 50](image)
                bad.add(str(image))
            elif self.good(image, number, rng):
                empty.add(str(image))
        self.assertEqual(len(bad), len(hostile))
        self.assertGreater(len(empty), 20)
        out = self.top / "rows"
        found = distributed.scan(names, out, batch=10, seconds=8, program=PROGRAM)
        self.assertEqual(found.units, IMAGES)
        table = str(out / "rows/*.parquet")
        known = ", ".join(f"('{hashlib.sha256(text.encode()).hexdigest()}')" for text, is_empty in ROOT.items() if is_empty)
        rows = duckdb.sql(
            f"SELECT DISTINCT unit FROM '{table}', unnest(files) AS f(file) "
            f"JOIN (VALUES {known}) AS known(sha256) ON file.sha256 = known.sha256 WHERE file.path = 'etc/shadow'"
        ).fetchall()
        self.assertEqual({unit for unit, in rows}, empty)
        rows = duckdb.sql(f"SELECT unit, status FROM '{table}' WHERE status <> 'read'").fetchall()
        self.assertEqual({unit for unit, _ in rows}, bad)
        statuses = collections.Counter(status for _, status in rows)
        print(f"{IMAGES} images, {len(empty)} without a password; {dict(statuses)}")
        self.assertEqual(set(statuses), {"refused", "timeout"})


if __name__ == "__main__":
    unittest.main()
