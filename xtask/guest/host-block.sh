# A case of `host-devices`: a loop device is made flash by our command and used as such.
# Set by the caller: OUT
set -e
/tools/modprobe loop
dmesg -c >/dev/null
truncate -s 64M /tmp/disk
disk=$(losetup -f)
losetup "$disk" /tmp/disk
if eraseblock info "$disk" 2>/dev/null; then exit 1; fi
eraseblock ubi format "$disk" --block-device --peb 128KiB
eraseblock ubi mkvol "$disk" data --size 16MiB
eraseblock ubi mkvol "$disk" firmware --size 500KiB --type static
eraseblock ubi update "$disk:firmware" "$OUT/firmware.bin"
eraseblock cat "$disk:firmware" | cmp - "$OUT/firmware.bin"
eraseblock mkfs ubifs /tools -o /tmp/tools.ubifs --peb 128KiB --page 4096 --max-lebs 130
eraseblock ubi update "$disk:data" /tmp/tools.ubifs
eraseblock put "$disk:data" "$OUT/firmware.bin" /firmware.bin
eraseblock check "$disk:data"
eraseblock ls "$disk:data" / | grep -q modprobe
eraseblock cat "$disk:data" /firmware.bin | cmp - "$OUT/firmware.bin"
eraseblock cat "$disk:data" /modprobe | cmp - /tools/modprobe
eraseblock info "$disk"
eraseblock ubi wear "$disk"

# Blocks that are erased are given back to the disk.
full=$(du -k /tmp/disk | cut -f1)
eraseblock ubi format "$disk"
bare=$(du -k /tmp/disk | cut -f1)
echo "$full KiB in use, $bare KiB after formatting"
[ $((full - bare)) -gt 900 ]

# A disk that is used by the kernel is left alone.
dd if=/dev/zero of=/tmp/swap bs=1M count=8 2>/dev/null
swap=$(losetup -f)
losetup "$swap" /tmp/swap
mkswap "$swap" >/dev/null
swapon "$swap"
if eraseblock ubi format "$swap" --block-device --force 2>"$OUT/busy"; then exit 1; fi
swapoff "$swap"
losetup -d "$swap"
losetup -d "$disk"
rm /tmp/disk /tmp/swap /tmp/tools.ubifs
dmesg >"$OUT/dmesg"
