# One case of `ubi-chips`: a chip worn by ubi-utils, with an update that does not come to its end.
# Set by the caller: OUT LOAD
set -e
/tools/modprobe ubi
$LOAD
dmesg -c >/dev/null
ubiformat -y -q /dev/mtd0
ubiattach -p /dev/mtd0 >/dev/null
ubimkvol /dev/ubi0 -N data -S 12 >/dev/null
ubimkvol /dev/ubi0 -N kernel -t static -S 4 >/dev/null
ubimkvol /dev/ubi0 -N gone -S 3 >/dev/null
ubimkvol /dev/ubi0 -N half -S 4 >/dev/null
dd if=/dev/urandom of=/tmp/content bs=1024 count=48 2>/dev/null
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    head -c $((round * 2001)) /tmp/content >/tmp/part
    ubiupdatevol /dev/ubi0_0 /tmp/part
    ubiupdatevol /dev/ubi0_1 /tmp/part
    ubirename /dev/ubi0 data other kernel data
    ubirename /dev/ubi0 other kernel
    ubirename /dev/ubi0 data kernel kernel data
done
ubirmvol /dev/ubi0 -N gone
ubirsvol /dev/ubi0 -n 0 -S 14
head -c 5000 /tmp/content | ubiupdatevol -s 20000 /dev/ubi0_3 - 2>/dev/null || true
dmesg >"$OUT/dmesg"
ubi_view "$OUT/linux"
ubidetach -d 0
dump "$OUT/image"
unload
