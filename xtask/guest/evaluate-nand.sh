# One case of `evaluate nand --linux`: the published steps in real Linux on its simulated chip, with
# counts of the functions of the kernel that do the operations.
# Set by the caller: OUT MODE ID PEBS BEB (of `ubiattach -b`, 0 for the default) SYSTEM
set -e
tracing=/sys/kernel/tracing
mount -t tracefs tracefs $tracing 2>/dev/null || true
functions="nand_read_page_op nand_read_oob_op nand_prog_page_begin_op nand_erase_op"

# probe: counts from now on. Before a chip is there, so that the scan for bad blocks is counted.
probe() {
    /tools/modprobe nand
    for function in $functions; do
        echo "p:$function $function" >>$tracing/kprobe_events
        echo 1 >$tracing/events/kprobes/$function/enable
    done
}

unprobe() {
    for function in $functions; do
        echo 0 >$tracing/events/kprobes/$function/enable
    done
    echo >$tracing/kprobe_events
}

# count NAME: a line with the operations so far.
count() {
    line=$1
    for function in $functions; do
        line="$line $(awk "\$1 == \"$function\" { print \$2 }" $tracing/kprobe_profile)"
    done
    echo "$line" >>"$OUT/counts"
}

# value NAME VALUE...: a line for the caller.
value() {
    echo "$@" >>"$OUT/values"
}

# settle: until nothing is done in the background any more.
settle() {
    before=
    now=$(cat $tracing/kprobe_profile)
    while [ "$now" != "$before" ]; do
        sleep 2
        before=$now
        now=$(cat $tracing/kprobe_profile)
    done
}

attach() {
    /tools/modprobe ubi
    /tools/modprobe ubifs
    ubiattach -b $BEB -p /dev/mtd0
}

new_volume() {
    ubiformat -q -y /dev/mtd0
    attach
    ubimkvol /dev/ubi0 -N data -m
}

start() {
    case $SYSTEM in
    jffs2) /tools/modprobe jffs2 && mount -t jffs2 mtd0 /mnt ;;
    ubifs) mount -t ubifs -o compr=lzo ubi0:data /mnt ;;
    ubifs-noz) mount -t ubifs -o compr=none ubi0:data /mnt ;;
    esac
}

# begin: the file system on an erased partition, mounted.
begin() {
    case $SYSTEM in
    jffs2) ;;
    *) new_volume ;;
    esac
    start
}

content() {
    find /mnt -type f -exec stat -c %s {} + | awk '{ sum += $1 } END { print sum + 0 }'
}

steps() {
    probe
    load_nand $ID $PEBS
    begin
    cp "$OUT/tree.tar" /tmp
    count begin
    if tar -xf /tmp/tree.tar -C /mnt && sync; then
        count written
    else
        value full 1
        unprobe
        return 0
    fi
    rm /tmp/tree.tar
    settle
    umount /mnt
    case $SYSTEM in
    jffs2) ;;
    *)
        ubidetach -d 0
        settle
        count detached
        attach
        count attached
        ;;
    esac
    settle
    count unmounted
    start
    count mounted
    value df $(stat -f -c '%S %b %f %a' /mnt)
    settle
    count idle
    find /mnt -type f -exec cat {} + >/dev/null
    count read
    rm -rf /mnt/*
    sync
    count removed
    unprobe
}

fits() {
    load_nand $ID $PEBS
    begin
    cp "$OUT/tree.tar" /tmp
    tar -xf /tmp/tree.tar -C /mnt || true
    sync
    value fits $(content)
    rm /tmp/tree.tar
}

# random: CHUNKS files of a MiB of random bytes, or as many as fit.
random() {
    probe
    load_nand $ID $PEBS
    begin
    dd if=/dev/urandom of=/tmp/random bs=1M count=1 2>/dev/null
    chunks=0
    count begin
    count chunk0
    while [ $chunks -lt $CHUNKS ] \
        && dd if=/tmp/random of=/mnt/chunk$chunks bs=1M 2>/dev/null && sync; do
        chunks=$((chunks + 1))
        count chunk$chunks
    done
    value chunks $chunks
    rm /tmp/random
    unprobe
}

# files: FILES small files, PER_DIR in a directory, and a mount.
files() {
    probe
    load_nand $ID $PEBS
    begin
    number=0
    while [ $number -lt $FILES ]; do
        [ $((number % PER_DIR)) != 0 ] || mkdir /mnt/dir$((number / PER_DIR))
        cat "$OUT/content" >/mnt/dir$((number / PER_DIR))/file$number
        number=$((number + 1))
    done
    sync
    settle
    umount /mnt
    case $SYSTEM in
    jffs2) ;;
    *)
        ubidetach -d 0
        settle
        count detached
        attach
        count attached
        ;;
    esac
    settle
    count unmounted
    start
    count mounted
    unprobe
}

# recorded: a recording, TIMES times, each followed by the removal of everything.
recorded() {
    probe
    load_nand $ID $PEBS
    begin
    cp "$OUT/eraseblock" "$OUT/app.ops" /tmp
    chmod +x /tmp/eraseblock
    settle
    count begin
    seed=1
    while [ $seed -le $TIMES ]; do
        /tmp/eraseblock lab replay-ops /tmp/app.ops --in /mnt --seed $seed -q >/dev/null
        if [ $seed = $TIMES ]; then
            find /mnt -mindepth 1 -type f -exec stat -c '%s %n' {} + | sed 's| /mnt| |' >"$OUT/listed"
            find /mnt -mindepth 1 ! -type f | sed 's|^/mnt|0 |' >>"$OUT/listed"
        fi
        rm -rf /mnt/*
        sync
        seed=$((seed + 1))
    done
    settle
    count done
    rm /tmp/eraseblock
    unprobe
}

overhead() {
    load_nand $ID $PEBS
    ubiformat -q -y /dev/mtd0
    attach
    sys=/sys/class/ubi/ubi0
    value available $(cat $sys/avail_eraseblocks) $(cat $sys/eraseblock_size)
}

# space SIZE: files of this size until no byte more fits. /tmp/random has more than fits.
space() {
    ubiupdatevol -t /dev/ubi0_0
    start
    (cd /mnt && split -a 5 -b $1 /tmp/random f) || true
    sync
    bytes=$(content)
    [ "$bytes" != 0 ]
    value space $1 $bytes
}

small() {
    probe
    count begin
    load_nand $ID $PEBS
    count loaded
    value subpage $(cat /sys/class/mtd/mtd0/subpagesize)
    new_volume
    start
    value df $(stat -f -c '%S %b %f %a' /mnt)
    umount /mnt
    dd if=/dev/urandom of=/tmp/random bs=1M count=26 2>/dev/null
    for size in 1048576 262144 65536 16384 4096 1024 512 256; do
        space $size
        umount /mnt
        if [ $size = 1048576 ]; then
            settle
            dump "$OUT/full"
            ubidetach -d 0
            settle
            count detached
            attach
            count attached
        fi
    done
    unprobe
}

$MODE
