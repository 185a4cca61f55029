#!/usr/bin/env python3
"""Does what applications do in a directory, which `eraseblock mount --record` serves.

    record.py sqlite-wal|sqlite-delete|log-rotation|update|camera DIR
    record.py root DIR    a small system, made before the mount that is recorded
    record.py boot DIR    its first boot and login, as root

Each kind of work is small, and the same in every run except for its times.
"""

import os
import shutil
import sqlite3
import subprocess
import sys

FILES = {
    "etc/inittab": """::sysinit:/etc/init.d/rcS
::wait:/etc/init.d/first-login
::wait:/etc/init.d/rcK
::wait:/bin/poweroff -f
""",
    "etc/init.d/rcS": """#!/bin/sh
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
hostname -F /etc/hostname
cat /var/lib/seed >/dev/null 2>&1
dd if=/dev/urandom of=/var/lib/seed.new bs=512 count=1 conv=fsync 2>/dev/null
mv /var/lib/seed.new /var/lib/seed
syslogd -O /var/log/messages
logger -t rcS "the system boots"
for key in rsa ecdsa ed25519; do
    [ -e /etc/keys/$key ] && continue
    dd if=/dev/urandom of=/etc/keys/$key.new bs=1k count=2 conv=fsync 2>/dev/null
    chmod 600 /etc/keys/$key.new
    mv /etc/keys/$key.new /etc/keys/$key
    logger -t rcS "key $key"
done
ln -sf /proc/mounts /etc/mtab
date >/etc/clock
crond -c /etc/crontabs -L /var/log/cron
touch /var/log/wtmp
logger -t rcS "the system is up"
""",
    "etc/init.d/first-login": """#!/bin/sh
export HOME=/home USER=root
cd
. /etc/profile
cat /etc/motd >/dev/null
logger -t login "root login"
sed -i "s/^root::/root:!:/" /etc/shadow
ls -lR /etc >/dev/null
sed -i s/board/kitchen/ /etc/hostname
echo "ls -lR /etc" >>/home/.ash_history
vi -c ':q' /etc/motd </dev/null >/dev/null 2>&1
mkdir -p /home/notes
echo "first day" | dd of=/home/notes/today conv=fsync 2>/dev/null
""",
    "etc/init.d/rcK": """#!/bin/sh
logger -t rcK "the system goes down"
killall crond syslogd
date | dd of=/etc/clock conv=fsync 2>/dev/null
""",
    "etc/crontabs/root": "0 * * * * /bin/true\n",
    "etc/group": "root:x:0:\n",
    "etc/hostname": "board\n",
    "etc/motd": "Welcome.\n",
    "etc/passwd": "root:x:0:0:root:/home:/bin/sh\n",
    "etc/profile": "export PATH=/bin:/sbin\n",
    "etc/shadow": "root::19000:0:99999:7:::\n",
}


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


def root(folder):
    """A system of one program, as a board has it when it leaves the factory."""
    for name in ("bin", "dev", "etc/init.d", "etc/crontabs", "etc/keys", "home", "proc", "run", "tmp"):
        os.makedirs(os.path.join(folder, name))
    for name in ("var/lib", "var/log", "var/spool/cron"):
        os.makedirs(os.path.join(folder, name))
    os.symlink("bin", os.path.join(folder, "sbin"))
    busybox = os.path.join(folder, "bin/busybox")
    shutil.copy("/bin/busybox", busybox)
    for applet in subprocess.check_output([busybox, "--list"], text=True).split():
        if applet != "busybox":
            os.symlink("busybox", os.path.join(folder, "bin", applet))
    for name, text in FILES.items():
        with open(os.path.join(folder, name), "w") as out:
            out.write(text)
        if name.startswith("etc/init.d"):
            os.chmod(os.path.join(folder, name), 0o755)


def boot(folder):
    """The system is started in name spaces of its own, and switches itself off."""
    devices = os.path.join(folder, "dev")
    start = f'mount --rbind /dev "{devices}" && exec chroot "{folder}" /bin/busybox init'
    unshare = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
    subprocess.run([*unshare, "sh", "-c", start], stdin=subprocess.DEVNULL, check=False)


def main():
    kind, folder = sys.argv[1:]
    if kind in ("sqlite-wal", "sqlite-delete"):
        sqlite(folder, kind.removeprefix("sqlite-"))
    else:
        kinds = {"log-rotation": log_rotation, "update": update, "camera": camera}
        (kinds | {"root": root, "boot": boot})[kind](folder)


if __name__ == "__main__":
    main()
