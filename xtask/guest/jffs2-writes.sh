# One case of `linux-writes` for JFFS2: Linux works on an erased chip, and leaves images of it as
# they are after power cuts and after a clean unmount; then Linux itself says what it reads from each.
# Set by the caller: OUT LOAD MARKERS MOUNT SEED OPS LIVE
set -e
/tools/modprobe jffs2

write_everything() {
    $LOAD
    flash_erase -q $MARKERS /dev/mtd0 0 0
    mount -t jffs2 -o "$MOUNT" mtd0 /mnt
    oracle-manifest exotic /mnt/exotic "$SEED" jffs2
    rm -f /tmp/go /tmp/done
    mkfifo /tmp/go /tmp/done
    oracle-manifest mutate /mnt/work "$SEED" "$OPS" 3 "$LIVE" </tmp/go >/tmp/done &
    exec 3>/tmp/go 4</tmp/done
    for point in cut1 cut2; do
        read -r said <&4
        echo "$point: $said"
        mkdir -p "$OUT/$point"
        dump "$OUT/$point/image.bin"
        echo >&3
    done
    read -r said <&4
    echo "clean: $said"
    echo >&3
    wait
    exec 3>&- 4<&-
    df /mnt | tail -n 1
    umount /mnt
    mkdir -p "$OUT/clean"
    dump "$OUT/clean/image.bin"
    unload
}

# What Linux sees in an image.
look() {
    $LOAD
    flash "$OUT/$1/image.bin"
    dmesg -c >/dev/null
    mount -t jffs2 mtd0 /mnt
    oracle-manifest list /mnt >"$OUT/$1/manifest"
    umount /mnt
    dmesg -c >"$OUT/$1/dmesg"
    unload
}

write_everything
dmesg -c >"$OUT/dmesg-writing"
for point in cut1 cut2 clean; do
    look $point
done
