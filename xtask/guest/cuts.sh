# Does what the server says: /dev/vda is the disk under test with a cache, /dev/vdc the same disk without
# one, /dev/vdb the control disk. One boot records workloads, judges states and lets cuts accumulate.
cp -r /job/lib /tmp/lib
export LD_LIBRARY_PATH=/tmp/lib
for module in $(cat /job/modules/order); do
    insmod /job/modules/$module 2>/dev/null || true
done
modprobe virtio_blk
[ -b /dev/vdc ] || sleep 2
mkdir -p /job/results
head -9 /sys/block/vda/queue/write_cache /sys/block/vdc/queue/write_cache >/job/write_cache
for queue in /sys/block/vda/queue /sys/block/vdc/queue; do
    echo 512 >$queue/max_sectors_kb
done

# control COMMAND: to the server.
control() {
    printf '%-512s' "$1" | /usr/local/bin/dd of=/dev/vdb bs=512 count=1 iflag=fullblock \
        oflag=direct conv=notrunc 2>/dev/null
}

# reply: of the server to the last command.
reply() {
    /usr/local/bin/dd if=/dev/vdb bs=512 count=1 skip=8 iflag=direct 2>/dev/null | tr -d '\0'
}

format() {
    case $SYSTEM in
    f2fs) mkfs.f2fs -q -f -t 0 $disk ;;
    nilfs2) /usr/local/bin/mkfs.nilfs2 -q -f -K -B 256 $disk ;;
    ext4) /usr/local/bin/mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard $disk ;;
    btrfs) mkfs.btrfs -q -f -K $disk ;;
    # Smaller than the tool allows for real use; the variables are those of its own tests.
    xfs) TEST_DIR=/mnt TEST_DEV=$disk QA_CHECK_FS=1 mkfs.xfs -q -f -K $disk ;;
    vfat) /usr/local/bin/mkfs.fat -F 32 $disk >/dev/null ;;
    esac
}

# start [OPTIONS]
start() {
    mount -t $SYSTEM ${1:+-o $1} $disk /mnt
}

# check: the file system's own tool, which changes nothing.
check() {
    case $SYSTEM in
    f2fs) fsck.f2fs -f --dry-run $disk ;;
    nilfs2) true ;;
    ext4) e2fsck -fn $disk ;;
    btrfs) btrfs check --readonly $disk ;;
    xfs) xfs_repair -n $disk ;;
    vfat) fsck.fat -n $disk ;;
    esac
}

# step NAME COMMAND...: its output and status as a section of the result.
step() {
    echo "== $1"
    shift
    "$@" 2>&1
    echo "== status $?"
}

# record [OPTIONS]: a new file system, and the workload on it.
record() {
    format && sync && start "$1" && control "mark 0" &&
        oracle-manifest play /mnt /job/script /dev/vdb && umount /mnt && control done
}

# judge: mounts the state, lists it, checks it, writes to it and checks it again.
judge() {
    dmesg -c >/dev/null
    step mount start
    if grep -q ' /mnt ' /proc/mounts; then
        step list oracle-manifest blocks /mnt
        step unmount umount /mnt
        step check check
        step again start
        step write write
        step unmount umount /mnt
        step checked check
    fi
    ! grep -q ' /mnt ' /proc/mounts || umount -l /mnt
    echo "== kernel"
    dmesg -c
    echo "== end"
}

write() {
    mkdir /mnt/after && echo after >/mnt/after/file && sync &&
        [ "$(cat /mnt/after/file)" = after ]
}

# report CUTS: space, inodes, and entries that cannot be read.
report() {
    echo "cuts $1"
    df -k /mnt | tail -1
    df -i /mnt | tail -1
    oracle-manifest blocks /mnt | grep -c '^error'
}

# round NAME CUTS: files of 4 KiB on what so many cuts left, without a check.
round() {
    dmesg -c >/dev/null
    if ! start 2>/tmp/refused; then
        echo "refused $2" >>/job/results/$1
        { cat /tmp/refused; dmesg -c; } >/job/results/$1-refused
        control refused
        return
    fi
    [ $(($2 % 100)) != 0 ] || report $2 >>/job/results/$1
    mkdir -p /mnt/w
    if ! oracle-manifest play /mnt/w /job/round-$(($2 % 8)) /dev/vdb 2>/tmp/failed; then
        [ -e /job/results/$1-failed ] ||
            { echo "$2"; cat /tmp/failed; } >/job/results/$1-failed
    fi
    umount /mnt
}

while control next; do
    set -- $(reply)
    [ "$1" != end ] || exit 0
    what=$1 SYSTEM=$2 disk=/dev/$3
    blockdev --flushbufs /dev/vda
    blockdev --flushbufs /dev/vdc
    case $what in
    record) record $4 >>/job/results/recorded 2>&1 || umount /mnt ;;
    judge)
        judge >/tmp/result
        cp /tmp/result /job/results/$4
        ;;
    pile) format && start && mkdir /mnt/w && umount /mnt || control refused ;;
    round) round $4 $5 ;;
    esac
done
exit 1
