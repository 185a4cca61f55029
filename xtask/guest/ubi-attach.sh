# One case of `ubi-chips`: UBI made by us on a simulated chip, attached by Linux.
# Set by the caller: OUT LOAD
set -e
/tools/modprobe ubi
$LOAD
flash "$OUT/image"
dmesg -c >/dev/null
ubiattach -p /dev/mtd0 >/dev/null
ubi_view "$OUT/linux"
dmesg >"$OUT/dmesg"
unload
