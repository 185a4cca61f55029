# Functions for the jobs of the oracle's guest. MTD 0 is the chip under test.

# load_nand ID_BYTES PEBS [PARAMETER...]: a simulated NAND chip whose first partition has PEBS erase
# blocks.
load_nand() {
    id="$1" parts="$2"
    shift 2
    /tools/modprobe nandsim id_bytes="$id" parts="$parts" "$@" || return 1
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

# dump OUT: the chip as it would be found after a power cut now.
dump() {
    oracle-manifest dump /dev/mtd0 "$1"
}

# flash IMAGE: onto the freshly loaded chip.
flash() {
    if grep -q '^nandsim ' /proc/modules; then
        # Page by page from the share would be slow.
        dd if="$1" of=/tmp/flash bs=1M 2>/dev/null || return 1
        nandwrite -q -p --skip-all-ffs /dev/mtd0 /tmp/flash || return 1
        rm /tmp/flash
    else
        dd if="$1" of=/dev/mtd0 bs=64k 2>/dev/null
    fi
}

# Of `we-write-ubifs` and `we-write-jffs2`, which share what Linux does in its turn.

# work ROUND: Linux on what is there, and on a new directory.
work() {
    find /mnt -type f | sort | awk "NR % 7 == $1 % 7" | tr '\n' '\0' | xargs -0 -r rm -f
    find /mnt -type f | sort | awk "NR % 5 == $1 % 5" | while read -r file; do
        echo "round $1" >>"$file"
    done
    rm -rf /mnt/linux-$(($1 - 2))
    oracle-manifest mutate /mnt/linux-$1 $1 250 1 300 </dev/null
}

# in_turns: has the caller's `play` take ROUNDS images that are put there one by one.
in_turns() {
    round=1
    while [ $round -le $ROUNDS ]; do
        while [ ! -e "$OUT/ours-$round" ]; do
            [ ! -e "$OUT/stop" ] || exit 1
            usleep 50000
        done
        play $round
        round=$((round + 1))
    done
}

# ubi_view DIR: what Linux shows of ubi0: `lines` for the device and its volumes, and their content.
ubi_view() {
    mkdir "$1"
    sys=/sys/class/ubi/ubi0
    echo "device leb_size=$(cat $sys/eraseblock_size) pebs=$(cat $sys/total_eraseblocks)" \
        "bad=$(cat $sys/bad_peb_count) volumes=$(cat $sys/volumes_count)" \
        "max_ec=$(cat $sys/max_ec)" >"$1/lines"
    for id in 0 1 2 3 4 5 6 7; do
        sys=/sys/class/ubi/ubi0_$id
        [ -e $sys ] || continue
        echo "volume $id name=$(cat $sys/name) type=$(cat $sys/type)" \
            "reserved=$(cat $sys/reserved_ebs) usable=$(cat $sys/usable_eb_size)" \
            "data=$(cat $sys/data_bytes) alignment=$(cat $sys/alignment)" \
            "upd=$(cat $sys/upd_marker)" >>"$1/lines"
        [ "$(cat $sys/upd_marker)" = 1 ] || cat /dev/ubi0_$id >"$1/$id"
    done
}
