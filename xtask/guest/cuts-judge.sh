# Judges states until the server has no more of them: each is mounted, listed, checked, written to and
# checked again.
mkdir -p /job/results

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

while control next; do
    state=$(reply)
    [ "$state" != end ] || exit 0
    blockdev --flushbufs $disk
    judge >/tmp/result
    cp /tmp/result /job/results/$state
done
exit 1
