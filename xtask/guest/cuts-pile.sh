# The published experiment: files of 4 KiB are written, the power goes off, the disk is mounted again
# without a check, a thousand times. The server cuts the power in what a round wrote.
# Set by the caller: SCRIPTS (scripts to choose from)
mkdir -p /job/results

# report CUTS: space, inodes, and entries that cannot be read.
report() {
    echo "cuts $1"
    df -k /mnt | tail -1
    df -i /mnt | tail -1
    oracle-manifest blocks /mnt | grep -c '^error'
}

format
start && mkdir /mnt/w && umount /mnt || exit 1
while control next; do
    cuts=$(reply)
    [ "$cuts" != end ] || exit 0
    blockdev --flushbufs $disk
    if ! start 2>/job/results/refused; then
        echo "refused $cuts" >>/job/results/pile
        exit 0
    fi
    [ $((cuts % 100)) != 0 ] || report $cuts >>/job/results/pile
    mkdir -p /mnt/w
    if ! oracle-manifest play /mnt/w /job/script-$((cuts % SCRIPTS)) /dev/vdb 2>/tmp/failed; then
        [ -e /job/results/failed ] || { echo "$cuts"; cat /tmp/failed; } >/job/results/failed
    fi
    umount /mnt || exit 1
done
exit 1
