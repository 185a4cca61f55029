# Of the jobs with power cuts: /dev/vda is the disk under test, /dev/vdb the control disk.
# Set by the caller: SYSTEM OPTIONS (of the mount, with -o)
cp -r /job/lib /tmp/lib
export LD_LIBRARY_PATH=/tmp/lib
for module in $(cat /job/modules/order); do
    insmod /job/modules/$module 2>/dev/null || true
done
modprobe virtio_blk
[ -b /dev/vdb ] || sleep 2
disk=/dev/vda
echo 512 >/sys/block/vda/queue/max_sectors_kb
cat /sys/block/vda/queue/write_cache >/job/write_cache

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

start() {
    mount -t $SYSTEM $OPTIONS $disk /mnt
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
