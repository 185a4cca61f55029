# One case of `ubi-fastmap`: an image of ours with a fastmap is put on a chip, Linux attaches it,
# lists and changes what is in it, and attaches it again.
# Set by the caller: OUT LOAD PUT
set -e
/tools/modprobe ubi
/tools/modprobe ubifs
$LOAD
case $PUT in
raw)
    flash "$OUT/image"
    ;;
ubiformat)
    dd if="$OUT/image" of=/tmp/image bs=1M 2>/dev/null
    ubiformat -y -q -f /tmp/image /dev/mtd0
    ;;
esac
# A kernel without fastmap scans, and erases what it does not know.
[ ! -e /sys/module/ubi/parameters/fm_autoconvert ] || touch "$OUT/has-fastmap"
dmesg -c >/dev/null
ubiattach -p /dev/mtd0 >/dev/null
dmesg >"$OUT/dmesg-attach"
ubi_view "$OUT/linux"
cmp /dev/ubi0_0 "$OUT/firmware.bin"
mount -t ubifs ubi0:data /mnt
oracle-manifest list /mnt >"$OUT/manifest"
for round in 1 2 3; do
    oracle-manifest mutate /mnt/linux-$round $round 300 1 500 </dev/null
done
oracle-manifest list /mnt >/tmp/before
umount /mnt
ubirsvol /dev/ubi0 -N rest -S 8 >/dev/null
ubimkvol /dev/ubi0 -N later -S 5 >/dev/null
ubidetach -d 0
ubiattach -p /dev/mtd0 >/dev/null
cmp /dev/ubi0_0 "$OUT/firmware.bin"
mount -t ubifs ubi0:data /mnt
oracle-manifest list /mnt >/tmp/after
umount /mnt
diff /tmp/before /tmp/after
dmesg >"$OUT/dmesg"
unload
