# What UBIFS costs the flash: programs, erases and page reads, counted at the functions of the
# kernel that do them.
# Set by the caller: OUT ID PEBS LEBS, and in OUT an image `ours` of such a chip
set -e
tracing=/sys/kernel/tracing
mount -t tracefs tracefs $tracing
load_nand $ID $PEBS
/tools/modprobe ubi
/tools/modprobe ubifs
for function in nand_prog_page_begin_op nand_erase_op nand_read_page_op; do
    echo "p:$function $function" >>$tracing/kprobe_events
    echo 1 >$tracing/events/kprobes/$function/enable
done

# count NAME: a line with everything so far, and the blocks that statfs counts where mounted.
count() {
    echo "$1" $(awk '{ print $2 }' $tracing/kprobe_profile) \
        $(stat -f -c '%b %f %a' /mnt) >>"$OUT/counts"
}

start() {
    mount -t ubifs -o compr=lzo ubi0:data /mnt
}

# settle: until UBI, which erases in the background, has nothing to do.
settle() {
    before=
    now=$(cat $tracing/kprobe_profile)
    while [ "$now" != "$before" ]; do
        sleep 2
        before=$now
        now=$(cat $tracing/kprobe_profile)
    done
}

unpack() {
    tar -xf /tmp/tree.tar -C /mnt
    sync
    settle
}

# others IMAGE: the chip with that on it instead.
others() {
    unload
    load_nand $ID $PEBS
    flash "$1"
    ubiattach -p /dev/mtd0
    count ${1##*/}
    start
    count ${1##*/}-mounted
}

ubiformat -q -y /dev/mtd0
ubiattach -p /dev/mtd0
ubimkvol /dev/ubi0 -N data -S $LEBS
start
umount /mnt
cp $OUT/tree.tar /tmp
start
count start
unpack
count unpacked
rm -rf /mnt/*
unpack
count again
umount /mnt
dump "$OUT/clean"
count clean
start
count clean-mounted
for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    dd if=/tmp/tree.tar of=/mnt/late-$number bs=64k count=1 skip=$number conv=fsync
done
dump "$OUT/cut"
rm /tmp/tree.tar
others "$OUT/cut"
others "$OUT/ours"
