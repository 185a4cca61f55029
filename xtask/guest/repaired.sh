# Repaired images in `images`: Linux mounts each read-write with its self-checks on, lists it, writes to
# it and unmounts it. Scripts of damage, in `scripts`: the peer repairs the damaged image, and Linux lists
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

# whole_flash IMAGE [OPTIONS]: an image of UBI, attached.
whole_flash() {
    chip $(($(wc -c <"$1") / 16384))
    flash "$1" && shift && ubiattach -p /dev/mtd0 "$@" >/dev/null
}

# one_volume [OPTIONS]: an empty volume for images of UBIFS.
one_volume() {
    chip 400
    ubiformat -y -q ${1:+-O $1} /dev/mtd0
    ubiattach -p /dev/mtd0 ${1:+-O $1} >/dev/null
    ubimkvol /dev/ubi0 -N data -S 300 >/dev/null
}

# try NAME MOUNT...: what Linux finds in it, and what it says. `ok` is written if all of that worked.
try() {
    tried="$1"
    shift
    dmesg -c >"$tried.before"
    "$@" && oracle-manifest list /mnt >"$tried.found" &&
        echo written >/mnt/written && sync && rm /mnt/written && umount /mnt && touch "$tried.ok"
    dmesg -c >"$tried.dmesg"
    ! grep -q ' /mnt ' /proc/mounts || umount /mnt
}

dmesg -c >/dev/null
cd images
one_volume
for image in ubifs*.image; do
    name="${image%.image}"
    cp $image /tmp/image && ubiupdatevol /dev/ubi0_0 /tmp/image && try $name mount -t ubifs ubi0_0 /mnt
done
for image in ubi-*.image; do
    name="${image%.image}"
    whole_flash $image && try $name mount -t ubifs ubi0_0 /mnt
done
unload
load_nor 640 16
for image in jffs2-*.image; do
    name="${image%.image}"
    dd if=$image of=/dev/mtd0 bs=64k 2>/dev/null && try $name mount -t jffs2 mtd0 /mnt
done
unload

cd ../scripts
# put IMAGE: where the peer and Linux find it, as /dev/ubi0_0.
put() {
    if head -c 4 "$1" | grep -q 'UBI#'; then
        whole_flash "$1" -O 512
    else
        one_volume 512 && cp "$1" /tmp/image && ubiupdatevol /dev/ubi0_0 /tmp/image
    fi
}

peer() {
    /job/peer/ld-linux-x86-64.so.2 --library-path /job/peer /job/peer/fsck.ubifs "$@" /dev/ubi0_0
}

for damaged in *.damaged; do
    [ -e "$damaged" ] || continue
    name="${damaged%.damaged}"
    for kind in whole fixed damaged; do
        [ -e $name.$kind ] || continue
        put $name.$kind || { echo "cannot be attached" >$name-$kind.refused; continue; }
        if [ $kind = damaged ]; then
            peer -y >$name.log 2>&1
            echo $? >$name.peer
            peer -y -b >>$name.log 2>&1
            echo $? >>$name.peer
        fi
        try $name-$kind mount -t ubifs ubi0_0 /mnt
    done
done
unload
exit 0
