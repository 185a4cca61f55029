# One case of `we-write-ubifs`: in each round Linux mounts a chip that we wrote, with its self-checks
# on, lists it, works on it, and leaves it unmounted or as after a power cut.
# Set by the caller: OUT LOAD ROUNDS COMPRESSOR
set -e
/tools/modprobe ubi
/tools/modprobe ubifs

clock() {
    echo "$(cut -d' ' -f1 /proc/uptime) $1"
}

checks() {
    for check in chk_general chk_index chk_orphans chk_lprops chk_fs; do
        echo $1 >/sys/kernel/debug/ubifs/$check
    done
}

# start IMAGE: the file system in it, mounted.
start() {
    $LOAD
    flash "$1"
    ubiattach -p /dev/mtd0 >/dev/null
    mount -t ubifs -o compr=$COMPRESSOR,chk_data_crc ubi0:data /mnt
}

play() {
    dmesg -c >/dev/null
    start "$OUT/ours-$1"
    clock "round $1 mounted"
    oracle-manifest list /mnt >"$OUT/found-$1"
    work $1
    clock "worked"
    case $1 in
    *[369])
        # A power cut: what Linux itself sees after it counts. Its own recovery forgets attributes
        # of files that were open and without name, and its check of the whole complains.
        dump "$OUT/linux-$1"
        checks 0
        umount /mnt
        checks 1
        echo 0 >/sys/kernel/debug/ubifs/chk_fs
        unload
        start "$OUT/linux-$1"
        oracle-manifest list /mnt >"$OUT/left-$1"
        umount /mnt
        checks 1
        ;;
    *)
        oracle-manifest list /mnt >"$OUT/left-$1"
        umount /mnt
        ubidetach -d 0
        dump "$OUT/linux-$1"
        ;;
    esac
    unload
    dmesg -c >"$OUT/dmesg-$1"
    clock "round $1 done"
    touch "$OUT/done-$1"
}

checks 1
in_turns
checks 0
