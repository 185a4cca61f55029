# One case of `we-write-jffs2`: in each round Linux mounts a chip that we wrote, lists it, works on
# it, and leaves it unmounted or as after a power cut. Cleanmarkers out of line are handed over if OOB
# is set; without, erased blocks are erased once more by either side.
# Set by the caller: OUT LOAD ROUNDS [OOB]
set -e
/tools/modprobe jffs2

# dump_with_oob OUT: the chip, each page with its out-of-band bytes behind it.
dump_with_oob() {
    nanddump -q -o --bb=dumpbad -f /tmp/dump /dev/mtd0 && cp /tmp/dump "$1" && rm /tmp/dump
}

# flash_with_oob IMAGE: pages and out-of-band bytes, of which the driver fills in its own.
flash_with_oob() {
    cp "$1" /tmp/flash && nandwrite -q -o /dev/mtd0 /tmp/flash && rm /tmp/flash
}

# start IMAGE: the file system in it, mounted.
start() {
    $LOAD
    if [ -n "$OOB" ]; then flash_with_oob "$1"; else flash "$1"; fi
    mount -t jffs2 mtd0 /mnt
}

# keep OUT: the chip, as it would be found after a power cut now.
keep() {
    if [ -n "$OOB" ]; then dump_with_oob "$1"; else dump "$1"; fi
}

play() {
    dmesg -c >/dev/null
    if [ -n "$OOB" ]; then
        # Only mounted: what does Linux erase? It checks 20 inodes in a second, or erases as many
        # blocks.
        start "$OUT/tagged-$1"
        sleep 20
        umount /mnt
        dump_with_oob "$OUT/idle-$1"
        unload
    fi
    start "$OUT/ours-$1"
    oracle-manifest list /mnt >"$OUT/found-$1"
    work $1
    case $1 in
    *[258])
        # A power cut.
        keep "$OUT/linux-$1"
        umount /mnt
        ;;
    *)
        umount /mnt
        keep "$OUT/linux-$1"
        ;;
    esac
    unload
    # What Linux itself sees in it counts: a file that it deleted may come back.
    start "$OUT/linux-$1"
    oracle-manifest list /mnt >"$OUT/left-$1"
    umount /mnt
    unload
    dmesg -c >"$OUT/dmesg-$1"
    touch "$OUT/done-$1"
}

in_turns
