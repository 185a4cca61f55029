# Functions for the jobs of the oracle's guest. MTD 0 is the chip under test.

# load_nand ID_BYTES PEBS: a simulated NAND chip whose first partition has PEBS erase blocks.
load_nand() {
    /tools/modprobe nandsim id_bytes="$1" parts="$2" || return 1
}

# load_nor KIB ERASE_KIB
load_nor() {
    /tools/modprobe mtdram total_size="$1" erase_size="$2" || return 1
}

# Takes everything down, whatever state it is in.
unload() {
    grep -q ' /mnt ' /proc/mounts && umount /mnt
    for number in 0 1 2 3; do
        [ -e /sys/class/ubi/ubi$number ] && ubidetach -d $number
    done
    grep -q '^nandsim ' /proc/modules && rmmod nandsim
    grep -q '^mtdram ' /proc/modules && rmmod mtdram
    return 0
}

# dump OUT: the chip as it would be found after a power cut now. Read until two passes agree, so
# that nothing was written meanwhile.
dump() {
    tries=0
    dd if=/dev/mtd0 of=/tmp/pass1 bs=128k 2>/dev/null || return 1
    while :; do
        dd if=/dev/mtd0 of=/tmp/pass2 bs=128k 2>/dev/null || return 1
        cmp -s /tmp/pass1 /tmp/pass2 && break
        mv /tmp/pass2 /tmp/pass1
        tries=$((tries + 1))
        [ $tries -gt 20 ] && return 1
    done
    mv /tmp/pass2 "$1"
}

# flash IMAGE: onto the freshly loaded chip.
flash() {
    if grep -q '^nandsim ' /proc/modules; then
        nandwrite -q -p --skip-all-ffs /dev/mtd0 "$1"
    else
        dd if="$1" of=/dev/mtd0 bs=64k 2>/dev/null
    fi
}
