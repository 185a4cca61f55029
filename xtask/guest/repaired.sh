# Repaired images in `images`: Linux mounts each read-write with its self-checks on, lists it, writes to
# it and unmounts it. Scripts of damage to UBI and UBIFS, in `scripts`: the peer repairs the damaged image, and Linux lists
# what that left, what we left, and the sound image.
/tools/modprobe ubi
/tools/modprobe ubifs
/tools/modprobe jffs2
for check in chk_general chk_index chk_orphans chk_lprops chk_fs; do
    echo 1 >/sys/kernel/debug/ubifs/$check
done

# chip PEBS: a chip with pages of 512 bytes, and nothing on it.
chip() {
    unload
    load_nand 0x98,0x76 $1
}

# whole_flash IMAGE [OPTIONS]: an image of UBI, attached. It may be shorter than its flash.
whole_flash() {
    pebs=$(($(wc -c <"$1") / 16384))
    chip $((pebs > 64 ? pebs : 64))
    flash "$1" && shift && ubiattach -p /dev/mtd0 "$@" >/dev/null
}

# one_volume [OPTIONS]: an empty volume for images of UBIFS.
one_volume() {
    chip 200
    ubiformat -y -q ${1:+-O $1} /dev/mtd0
    ubiattach -p /dev/mtd0 ${1:+-O $1} >/dev/null
    ubimkvol /dev/ubi0 -N data -S 64 >/dev/null
}

# limited COMMAND...: with a limit of time. What the kernel does not let go of is left there: the guest must
# start again, which the host learns from `hangs`.
limited() {
    rm -f /tmp/status
    { "$@" </dev/null; echo $? >/tmp/status; } &
    child=$!
    for step in $(seq 600); do
        [ ! -s /tmp/status ] || return $(cat /tmp/status)
        usleep 100000
    done
    pkill -9 -P $child
    sleep 5
    [ -s /tmp/status ] || echo "$*" >>/job/hangs
    return 124
}

# try NAME MOUNT...: what Linux finds in it, and what it says. `ok` is written if all of that worked.
try() {
    tried="$1"
    shift
    rm -f "$tried.ok" "$tried.found"
    dmesg -c >"$tried.before"
    limited "$@" && limited oracle-manifest list /mnt >"$tried.found" &&
        echo written >/mnt/written && sync && rm -f /mnt/written && [ ! -e /mnt/written ] &&
        limited umount /mnt && touch "$tried.ok"
    dmesg -c >"$tried.dmesg"
    ! grep -q ' /mnt ' /proc/mounts || limited umount /mnt || umount -l /mnt
    [ -e "$tried.ok" ]
}

# is_new NAME: true once for each, unless the guest must start again.
is_new() {
    [ ! -e /job/hangs ] && [ -e "$1" ] && [ ! -e "$1.done" ] && touch "$1.done"
}

dmesg -c >/dev/null
cd images
one_volume
for image in ubifs*.image; do
    is_new "$image" || continue
    name="${image%.image}"
    cp $image /tmp/image && ubiupdatevol /dev/ubi0_0 /tmp/image && try $name mount -t ubifs ubi0_0 /mnt
done
for image in ubi-*.image; do
    is_new "$image" || continue
    name="${image%.image}"
    whole_flash $image && try $name mount -t ubifs ubi0_0 /mnt
done
unload
load_nor 640 16
for image in jffs2-*.image; do
    is_new "$image" || continue
    name="${image%.image}"
    dd if=$image of=/dev/mtd0 bs=64k 2>/dev/null && try $name mount -t jffs2 mtd0 /mnt
done
unload

cd ../scripts
is_plain=no
# put IMAGE: where the peer and Linux find it, as the volume `volume` of ubi0.
put() {
    if head -c 4 "$1" | grep -q 'UBI#'; then
        is_plain=no
        whole_flash "$1" -O 512 || return 1
    else
        # An empty chip is only made again after one with a UBI of its own, or if a mount hangs.
        [ "$is_plain" = yes ] && ! grep -q ' /mnt ' /proc/mounts || one_volume 512 || return 1
        is_plain=yes
        cp "$1" /tmp/image && ubiupdatevol /dev/ubi0_0 /tmp/image || return 1
    fi
    volume=
    for number in 0 1; do
        [ "$(cat /sys/class/ubi/ubi0_$number/type 2>/dev/null)" != dynamic ] || volume=ubi0_$number
    done
    [ -n "$volume" ]
}

# peer NAME OPTIONS: its exit status is added to NAME.peer, and returned.
peer() {
    script="$1"
    shift
    limited /job/peer/ld-linux-x86-64.so.2 --library-path /job/peer /job/peer/fsck.ubifs "$@" \
        /dev/$volume >>$script.log 2>&1
    status=$?
    echo "$* $status" >>$script.peer
    return $status
}

# left NAME: the flash as the peer left it, before a mount changes it.
left() {
    dd if=/dev/mtd0 of=$1.left bs=16k 2>/dev/null
}

# A user who is told that something is left, or whose mount fails, tries -b next.
judged_by_peer() {
    peer $1 -y
    [ $? -le 1 ] && left $1 && try $1-damaged mount -t ubifs $volume /mnt && return
    [ ! -e /job/hangs ] || return
    peer $1 -y -b
    left $1
    try $1-damaged mount -t ubifs $volume /mnt
}

for damaged in ubi*.damaged; do
    is_new "$damaged" || continue
    name="${damaged%.damaged}"
    for kind in whole fixed damaged; do
        [ -e $name.$kind ] || continue
        echo $name-$kind >/dev/console
        put $name.$kind || { echo "cannot be attached" >$name-$kind.refused; continue; }
        if [ $kind = damaged ]; then
            judged_by_peer $name
        else
            try $name-$kind mount -t ubifs $volume /mnt
        fi
        [ ! -e /job/hangs ] || exit 0
    done
done
unload
exit 0
