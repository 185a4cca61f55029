# One case of `linux-mounts-ours` for JFFS2: an image of ours is put on an erased chip, Linux mounts
# it, lists it, writes to it until it has to collect garbage, and mounts it again.
# Set by the caller: OUT LOAD MARKERS UNSTABLE (lines that need not survive a new mount)
set -e
/tools/modprobe jffs2
dmesg -c >/dev/null
$LOAD
flash_erase -q $MARKERS /dev/mtd0 0 0
flash "$OUT/image"
mount -t jffs2 mtd0 /mnt
oracle-manifest list /mnt >"$OUT/manifest"
oracle-manifest mutate /mnt/linux-was-here 11 1500 1 1500 </dev/null
oracle-manifest list /mnt | grep -v "$UNSTABLE" >/tmp/before
umount /mnt
mount -t jffs2 mtd0 /mnt
oracle-manifest list /mnt | grep -v "$UNSTABLE" >/tmp/after
umount /mnt
diff /tmp/before /tmp/after
dmesg >"$OUT/dmesg"
unload
