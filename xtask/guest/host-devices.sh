# One case of `host-devices`: our programs use the kernel's devices, and the kernel reads what they
# wrote.
# Set by the caller: OUT LOAD
set -e
/tools/modprobe ubi
/tools/modprobe ubifs
$LOAD
dmesg -c >/dev/null

# Every call of the MTD device; Linux reads the same.
xtask subject mtd /dev/mtd0 "$OUT"
size=$(cat /sys/class/mtd/mtd0/erasesize)
dd if=/dev/mtd0 bs=$size skip=10 count=1 2>/dev/null | cmp - "$OUT/block"
cp /sys/class/mtd/mtd0/bad_blocks "$OUT/bad_blocks"

# Formatted by ubi-utils, then by us: the erase counters stay.
ubiformat -y -q -e 7 /dev/mtd0
eraseblock --json ubi format /dev/mtd0 --image-seq 195939070 >"$OUT/format"
eraseblock ubi mkvol /dev/mtd0 data --size 3MiB
eraseblock ubi mkvol /dev/mtd0 firmware --size 500KiB --type static
eraseblock ubi mkvol /dev/mtd0 scratch --lebs 8
eraseblock ubi update /dev/mtd0:firmware "$OUT/firmware.bin"
head -c 70000 "$OUT/firmware.bin" | eraseblock ubi update /dev/mtd0:scratch -
eraseblock --json ubi wear /dev/mtd0 >"$OUT/wear"
eraseblock --json info /dev/mtd0 >"$OUT/info"
xtask subject view /dev/mtd0 >"$OUT/ours-formatted"

# Attached by Linux; then it is the only one to write, also for us.
ubiattach -p /dev/mtd0 >/dev/null
ubi_view "$OUT/linux-formatted"
sum=$(sha256sum <"$OUT/firmware.bin")
[ "$(sha256sum </dev/ubi0_1)" = "$sum" ]
if eraseblock ubi mkvol /dev/mtd0 more --lebs 1 2>"$OUT/busy"; then exit 1; fi
eraseblock info /dev/mtd0 >/dev/null
xtask subject ubi /dev/ubi0_2 >"$OUT/ours-lebs"
ubi_view "$OUT/linux-lebs"

# A file system of Linux, read by our command from the volume and from the MTD device.
mount -t ubifs ubi0:data /mnt
oracle-manifest exotic /mnt 5
cp "$OUT/firmware.bin" /mnt/firmware.bin
oracle-manifest list /mnt >"$OUT/manifest"
umount /mnt
eraseblock manifest /dev/ubi0:data >"$OUT/ours-volume"
eraseblock info /dev/ubi0_0 >"$OUT/info-volume"
eraseblock ls -l /dev/ubi0_0 / >"$OUT/ls"
eraseblock cat /dev/ubi0_0 /firmware.bin | cmp - "$OUT/firmware.bin"
# A tar holds no sockets: that is a finding.
eraseblock extract /dev/ubi0:data --tar /tmp/all.tar || [ $? = 1 ]
ubi_view "$OUT/linux-end"
ubidetach -d 0
xtask subject view /dev/mtd0 >"$OUT/ours-end"
eraseblock info /dev/mtd0 >"$OUT/info-mtd"
eraseblock ls -l /dev/mtd0:data / | cmp - "$OUT/ls"
eraseblock cat /dev/mtd0:data /firmware.bin | cmp - "$OUT/firmware.bin"
eraseblock cat /dev/mtd0:firmware | cmp - "$OUT/firmware.bin"
eraseblock manifest /dev/mtd0:data >"$OUT/ours-mtd"
eraseblock extract /dev/mtd0:data --tar /tmp/again.tar || [ $? = 1 ]
cmp /tmp/all.tar /tmp/again.tar
rm /tmp/all.tar /tmp/again.tar

# Changed by us without a mount; Linux sees it.
eraseblock put /dev/mtd0:data "$OUT/block" /put
eraseblock check /dev/mtd0:data
ubiattach -p /dev/mtd0 >/dev/null
mount -t ubifs ubi0:data /mnt
cmp /mnt/put "$OUT/block"
cmp /mnt/firmware.bin "$OUT/firmware.bin"
umount /mnt
ubidetach -d 0
dmesg >"$OUT/dmesg"
unload
