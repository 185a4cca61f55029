# One case of `host-devices`: an MTD device is mounted by our command and by Linux in turns.
# Set by the caller: OUT LOAD KIND MARKERS EXOTIC
set -e
/tools/modprobe fuse
/tools/modprobe ubi
/tools/modprobe ubifs
/tools/modprobe jffs2
$LOAD
dmesg -c >/dev/null

linux_mounts() {
    if [ "$KIND" = ubifs ]; then
        ubiattach -p /dev/mtd0 >/dev/null
        mount -t ubifs ubi0:data /mnt
    else
        mount -t jffs2 mtd0 /mnt
    fi
}

linux_unmounts() {
    umount /mnt
    [ "$KIND" = jffs2 ] || ubidetach -d 0
}

# Ours is the first to use the chip; then Linux.
target=/dev/mtd0
if [ "$KIND" = ubifs ]; then
    eraseblock ubi format $target
    eraseblock ubi mkvol $target data --size 8MiB
    target=$target:data
else
    flash_erase -q $MARKERS $target 0 0
fi
eraseblock mount --rw $target /mnt
oracle-manifest exotic /mnt/ours 5 $EXOTIC
oracle-manifest mutate /mnt/work 7 120 1 300 </dev/null
oracle-manifest list /mnt >"$OUT/ours-wrote"
eraseblock --json mount --stats /mnt >"$OUT/stats"
eraseblock umount /mnt
linux_mounts
oracle-manifest list /mnt >"$OUT/linux-read"

# Linux writes; nobody else may, and ours reads without writing.
mkdir /tmp/second
if eraseblock mount --rw $target /tmp/second 2>"$OUT/busy"; then exit 1; fi
rmdir /tmp/second
oracle-manifest mutate /mnt/linux 11 120 1 300 </dev/null
find /mnt/work -type f | awk 'NR % 3 == 0' | tr '\n' '\0' | xargs -0 -r rm -f
oracle-manifest list /mnt >"$OUT/linux-wrote"
linux_unmounts
dump /tmp/before
eraseblock mount $target /mnt
oracle-manifest list /mnt >"$OUT/ours-read"
if touch /mnt/new 2>/dev/null; then exit 1; fi
eraseblock umount /mnt
dump /tmp/after
cmp /tmp/before /tmp/after
rm /tmp/before /tmp/after

# Ours goes on where Linux ended.
eraseblock mount --rw $target /mnt
rm -rf /mnt/linux
oracle-manifest mutate /mnt/again 13 120 1 300 </dev/null
oracle-manifest list /mnt >"$OUT/ours-wrote-again"
eraseblock umount /mnt
eraseblock check $target
linux_mounts
oracle-manifest list /mnt >"$OUT/linux-read-again"
linux_unmounts
dmesg >"$OUT/dmesg"
unload
