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

# work ROUND: on what is there, and on a new directory.
work() {
    find /mnt -type f | sort | awk "NR % 7 == $1 % 7" | tr '\n' '\0' | xargs -0 -r rm -f
    find /mnt -type f | sort | awk "NR % 5 == $1 % 5" | while read -r file; do
        echo "round $1" >>"$file"
    done
    rm -rf /mnt/linux-$(($1 - 2))
    oracle-manifest mutate /mnt/linux-$1 $1 250 1 300 </dev/null
}

play() {
    dmesg -c >/dev/null
    start "$OUT/ours-$1"
    oracle-manifest list /mnt >"$OUT/found-$1"
    work $1
    case $1 in
    *[258])
        # A power cut: what Linux itself sees after it counts.
        dump "$OUT/linux-$1"
        umount /mnt
        unload
        start "$OUT/linux-$1"
        oracle-manifest list /mnt >"$OUT/left-$1"
        umount /mnt
        ;;
    *)
        oracle-manifest list /mnt >"$OUT/left-$1"
        umount /mnt
        dump "$OUT/linux-$1"
        ;;
    esac
    unload
    dmesg -c >"$OUT/dmesg-$1"
    touch "$OUT/done-$1"
}

round=1
while [ $round -le $ROUNDS ]; do
    while [ ! -e "$OUT/ours-$round" ]; do
        [ ! -e "$OUT/stop" ] || exit 1
        usleep 50000
    done
    play $round
    round=$((round + 1))
done
