# One case of `linux-mounts-ours`: an image of ours is put on a chip, Linux mounts it with its
# self-checks on, lists it, writes to it and mounts it again.
# Set by the caller: OUT LOAD FORMAT ATTACH PUT VOLUMES
set -e
/tools/modprobe ubi
/tools/modprobe ubifs
dmesg -c >/dev/null
$LOAD
case $PUT in
raw)
    flash "$OUT/image"
    ;;
ubiformat)
    dd if="$OUT/image" of=/tmp/image bs=1M 2>/dev/null
    ubiformat -y -q $FORMAT -f /tmp/image /dev/mtd0
    ;;
volume)
    ubiformat -y -q $FORMAT /dev/mtd0
    ;;
esac
ubiattach -p /dev/mtd0 $ATTACH >/dev/null
if [ $PUT = volume ]; then
    ubimkvol /dev/ubi0 -N data -m >/dev/null
    ubiupdatevol /dev/ubi0_0 "$OUT/image"
fi
if [ -e "$OUT/firmware.bin" ]; then
    cmp /dev/ubi0_0 "$OUT/firmware.bin"
fi
for check in chk_general chk_index chk_orphans chk_lprops chk_fs; do
    echo 1 >/sys/kernel/debug/ubifs/$check
done
for volume in $VOLUMES; do
    mount -t ubifs ubi0:$volume /mnt
    oracle-manifest list /mnt >"$OUT/manifest-$volume"
    oracle-manifest mutate /mnt/linux-was-here 11 300 1 500 </dev/null
    oracle-manifest list /mnt >/tmp/before
    umount /mnt
    mount -t ubifs ubi0:$volume /mnt
    oracle-manifest list /mnt >/tmp/after
    umount /mnt
    diff /tmp/before /tmp/after
done
dmesg >"$OUT/dmesg"
unload
