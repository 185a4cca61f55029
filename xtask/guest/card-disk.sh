# The published steps of one file system on a card, /dev/vda: trees of small files, then large files.
# Marks in the card's log show where a step ends.
# Set by the caller: SYSTEM TREES SEGMENT (bytes of a segment of nilfs2)
set -e
cp -r /job/lib /tmp/lib
export LD_LIBRARY_PATH=/tmp/lib
for module in $(cat /job/modules/order); do
    insmod /job/modules/$module 2>/dev/null || true
done
modprobe virtio_blk
[ -b /dev/vda ] || sleep 2
disk=/dev/vda
queue=/sys/block/vda/queue
# The largest request of an SD host of 2012.
echo 512 >$queue/max_sectors_kb
echo 0 >$queue/rotational
echo 128 >$queue/read_ahead_kb
echo mq-deadline >$queue/scheduler 2>/dev/null || true
head -99 $queue/max_sectors_kb $queue/scheduler $queue/write_cache $queue/read_ahead_kb >/job/queue
# An eighth of what a machine with 4 GiB of memory and the defaults of the kernel has.
echo 50000000 >/proc/sys/vm/dirty_background_bytes
echo 100000000 >/proc/sys/vm/dirty_bytes
echo 375 >/proc/sys/vm/dirty_expire_centisecs
echo 62 >/proc/sys/vm/dirty_writeback_centisecs

sectors=$(cat /sys/block/vda/size)
marks=0

# mark NAME: a read of 512 bytes past the page cache, the next one from the end of the disk.
mark() {
    marks=$((marks + 1))
    /usr/local/bin/dd if=$disk of=/dev/null bs=512 count=1 skip=$((sectors - marks)) \
        iflag=direct 2>/dev/null
    echo "$1" >>/job/marks
}

format() {
    case $SYSTEM in
    f2fs) mkfs.f2fs -q -f $disk ;;
    nilfs2) /usr/local/bin/mkfs.nilfs2 -q -f -K -B $((SEGMENT / 4096)) $disk ;;
    ext4) /usr/local/bin/mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard $disk ;;
    btrfs) mkfs.btrfs -q -f -K $disk ;;
    xfs) mkfs.xfs -q -f -K $disk ;;
    vfat) /usr/local/bin/mkfs.fat -F 32 $disk >/dev/null ;;
    ubifs*)
        # The second time all files were removed.
        [ ! -e /sys/class/ubi/ubi0 ] || return 0
        modprobe block2mtd block2mtd=$disk,131072
        modprobe ubi
        modprobe ubifs
        ubiformat -q -y /dev/mtd0
        ubiattach -p /dev/mtd0
        ubimkvol /dev/ubi0 -N data -m
        ;;
    esac
}

start() {
    case $SYSTEM in
    f2fs) mount -t f2fs -o nodiscard $disk /mnt ;;
    ubifs) mount -t ubifs -o compr=lzo ubi0:data /mnt ;;
    ubifs-nc) mount -t ubifs -o compr=none ubi0:data /mnt ;;
    *) mount -t $SYSTEM $disk /mnt ;;
    esac
}

# again: mounted with cold caches.
again() {
    umount /mnt
    sync
    echo 3 >/proc/sys/vm/drop_caches
    start
}

cp /job/tree.tar /job/large /tmp
format
start
trees=$(seq 1 $TREES)
sync
mark begin
for tree in $trees; do
    mkdir /mnt/t$tree
    tar -xf /tmp/tree.tar -C /mnt/t$tree
    mark write-$tree
done
sync
mark write-sync
again
mark mounted
for tree in $trees; do
    find /mnt/t$tree -type f -exec cat {} + >/dev/null
    mark read-$tree
done
again
for tree in $trees; do
    mark du-begin-$tree
    du -a /mnt/t$tree >/dev/null
    mark du-$tree
    rm -r /mnt/t$tree
    mark rm-$tree
    sync
    mark rm-sync-$tree
done
rm /tmp/tree.tar
umount /mnt
format
start
sync
mark large-begin
cp /tmp/large /mnt/one
cp /tmp/large /mnt/other
mark large-write
sync
mark large-sync
again
mark large-mounted
cat /mnt/one /mnt/other >/dev/null
mark large-read
umount /mnt
