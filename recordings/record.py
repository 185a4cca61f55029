#!/usr/bin/env python3
"""Does what applications do in a directory, which `eraseblock mount --record` serves.

    record.py sqlite-wal|sqlite-delete|log-rotation|update|camera DIR

Each kind of work is small, and the same in every run except for its times.
"""

import os
import sqlite3
import subprocess
import sys


def sqlite(folder, mode):
    """Forty transactions of a table with an index, and a clean-up."""
    base = sqlite3.connect(os.path.join(folder, "app.db"), isolation_level=None)
    base.execute("PRAGMA page_size = 4096")
    base.execute(f"PRAGMA journal_mode = {mode}")
    base.execute("PRAGMA synchronous = FULL")
    base.execute("CREATE TABLE readings (at INTEGER PRIMARY KEY, sensor TEXT, value REAL)")
    base.execute("CREATE INDEX by_sensor ON readings (sensor, at)")
    for number in range(40):
        base.execute("BEGIN")
        for at in range(5):
            row = (number * 5 + at, f"sensor {at}", number * 0.25)
            base.execute("INSERT INTO readings VALUES (?, ?, ?)", row)
        base.execute("UPDATE readings SET value = value + 1 WHERE at % 7 = 0")
        base.execute("COMMIT")
    base.execute("DELETE FROM readings WHERE at < 100")
    base.execute("VACUUM")
    base.close()


def log_rotation(folder):
    """Lines that a daemon appends, with logs that are renamed and compressed."""
    log = os.path.join(folder, "messages")
    for turn in range(4):
        with open(log, "a") as out:
            for line in range(200):
                out.write(f"turn {turn}, line {line}: the door of cabinet {line % 9} was opened\n")
                out.flush()
                if line % 20 == 19:
                    os.fsync(out.fileno())
        for old in range(3, 0, -1):
            name = f"{log}.{old}.gz"
            if os.path.exists(name):
                os.rename(name, f"{log}.{old + 1}.gz")
        os.rename(log, f"{log}.1")
        subprocess.run(["gzip", "-n", f"{log}.1"], check=True)


def update(folder):
    """A new version in a directory of its own, made durable, then switched to by a link."""
    for version in range(3):
        new = os.path.join(folder, f"version-{version}")
        os.mkdir(new)
        for part in range(12):
            with open(os.path.join(new, f"part-{part}"), "wb") as out:
                out.write(bytes(range(256)) * (40 + 60 * (part % 4)))
                out.flush()
                os.fsync(out.fileno())
        directory = os.open(new, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        os.symlink(f"version-{version}", os.path.join(folder, "next"))
        os.rename(os.path.join(folder, "next"), os.path.join(folder, "current"))
        os.sync()
        if version > 0:
            old = os.path.join(folder, f"version-{version - 1}")
            for name in sorted(os.listdir(old)):
                os.unlink(os.path.join(old, name))
            os.rmdir(old)


def camera(folder):
    """Pictures of 1 MiB, of which the last two stay."""
    for number in range(4):
        with open(os.path.join(folder, f"picture-{number}.jpg"), "wb") as out:
            for _ in range(16):
                out.write(os.urandom(65536))
            out.flush()
            os.fsync(out.fileno())
        if number >= 2:
            os.unlink(os.path.join(folder, f"picture-{number - 2}.jpg"))


def main():
    kind, folder = sys.argv[1:]
    if kind in ("sqlite-wal", "sqlite-delete"):
        sqlite(folder, kind.removeprefix("sqlite-"))
    else:
        {"log-rotation": log_rotation, "update": update, "camera": camera}[kind](folder)


if __name__ == "__main__":
    main()
