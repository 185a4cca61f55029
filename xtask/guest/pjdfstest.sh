# pjdfstest on Linux's own UBIFS and JFFS2; pjdfstest.toml and the program come from the host.
. ./lib.sh
mkdir -p /etc /second
printf 'root:x:0:0::/:/bin/sh\ndaemon:x:1:1::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' \
    >/etc/passwd
printf 'root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n' >/etc/group
mount -t tmpfs tmpfs /second || exit 1

# judge NAME: everything, and once more what remounts.
judge() {
    for remounts in false true; do
        sed "s/REMOUNTS/$remounts/" pjdfstest.toml >/tmp/pjdfstest.toml
        only= what=everything
        [ $remounts = false ] || only=erofs what=erofs
        pjdfstest -c /tmp/pjdfstest.toml -p /mnt -s /second $only >"$1-$what.log" 2>&1
    done
}

/tools/modprobe ubi && /tools/modprobe ubifs || exit 1
load_nand 0x20,0xa1,0x00,0x15 1024 || exit 1
ubiformat -q -y /dev/mtd0 && ubiattach -m 0 >/dev/null || exit 1
ubimkvol /dev/ubi0 -N judged -m >/dev/null || exit 1
mount -t ubifs ubi0:judged /mnt || exit 1
judge ubifs
unload

/tools/modprobe mtdblock && /tools/modprobe jffs2 || exit 1
load_nor 65536 64 || exit 1
flash_erase -q -j /dev/mtd0 0 0 >/dev/null || exit 1
mount -t jffs2 /dev/mtdblock0 /mnt || exit 1
judge jffs2
unload
