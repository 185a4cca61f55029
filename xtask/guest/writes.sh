# One case of `linux-writes`: Linux formats a chip, works on it, and leaves images of it as they
# are after power cuts and after a clean unmount; then Linux itself says what it reads from each.
# Set by the caller: OUT LOAD FORMAT ATTACH MOUNT SEED OPS LIVE BIG
set -e
/tools/modprobe ubi
/tools/modprobe ubifs

clock() {
    echo "$(cut -d' ' -f1 /proc/uptime) $1"
}

attach() {
    ubiattach -p /dev/mtd0 $ATTACH >/dev/null
}

write_everything() {
    $LOAD
    ubiformat -y -q $FORMAT /dev/mtd0
    attach
    head -c 300000 /dev/urandom >"$OUT/firmware.bin"
    ubimkvol /dev/ubi0 -N firmware -t static -s 400KiB >/dev/null
    ubiupdatevol /dev/ubi0_0 "$OUT/firmware.bin"
    ubimkvol /dev/ubi0 -N data -m >/dev/null
    ubinfo -a >"$OUT/ubinfo"
    mtdinfo /dev/mtd0 >"$OUT/mtdinfo"
    mount -t ubifs -o "$MOUNT" ubi0:data /mnt
    clock mounted
    oracle-manifest exotic /mnt/exotic "$SEED" $BIG
    clock exotic
    rm -f /tmp/go /tmp/done
    mkfifo /tmp/go /tmp/done
    oracle-manifest mutate /mnt/work "$SEED" "$OPS" 3 "$LIVE" </tmp/go >/tmp/done &
    exec 3>/tmp/go 4</tmp/done
    for point in cut1 cut2; do
        read -r said <&4
        clock "$point: $said"
        echo 0 >/proc/sys/vm/dirty_writeback_centisecs
        mkdir -p "$OUT/$point"
        dump "$OUT/$point/image.bin"
        clock dumped
        echo 500 >/proc/sys/vm/dirty_writeback_centisecs
        echo >&3
    done
    read -r said <&4
    clock "clean: $said"
    echo >&3
    wait
    exec 3>&- 4<&-
    df /mnt | tail -n 1
    umount /mnt
    ubidetach -d 0
    clock unmounted
    mkdir -p "$OUT/clean"
    dump "$OUT/clean/image.bin"
    unload
}

# What Linux sees in an image, read-only first, then with recovery written back.
look() {
    $LOAD
    clock loaded
    flash "$OUT/$1/image.bin"
    clock flashed
    dmesg -c >/dev/null
    attach
    if [ $1 = cut1 ]; then
        mount -t ubifs -o ro ubi0:data /mnt
        oracle-manifest list /mnt >"$OUT/$1/manifest-ro"
        umount /mnt
    fi
    mount -t ubifs ubi0:data /mnt
    oracle-manifest list /mnt >"$OUT/$1/manifest"
    clock listed
    umount /mnt
    dmesg -c | tee "$OUT/$1/dmesg" >>/tmp/dmesg
    cmp /dev/ubi0_0 "$OUT/firmware.bin"
    unload
}

write_everything
dmesg -c >"$OUT/dmesg-writing"
for point in cut1 cut2 clean; do
    look $point
done
