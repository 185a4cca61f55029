# One case of `we-write-jffs2`: in each round Linux mounts a chip that we wrote, lists it, works on
# it, and leaves it unmounted or as after a power cut. Cleanmarkers out of line are not handed over:
# erased blocks without one are erased once more by either side.
# Set by the caller: OUT LOAD ROUNDS
set -e
/tools/modprobe jffs2

# start IMAGE: the file system in it, mounted.
start() {
    $LOAD
    flash "$1"
    mount -t jffs2 mtd0 /mnt
}

play() {
    dmesg -c >/dev/null
    start "$OUT/ours-$1"
    oracle-manifest list /mnt >"$OUT/found-$1"
    work $1
    case $1 in
    *[258])
        # A power cut.
        dump "$OUT/linux-$1"
        umount /mnt
        ;;
    *)
        umount /mnt
        dump "$OUT/linux-$1"
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
