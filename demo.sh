#!/bin/sh
# The main job in a minute: a folder becomes a whole UBI image, the image is looked at, read back
# without root or kernel modules, and compared with the folder.
# usage: demo.sh ERASEBLOCK
set -eu
eraseblock=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

mkdir -p rootfs/bin rootfs/etc rootfs/var/log
cp "$eraseblock" rootfs/bin/program
echo demo >rootfs/etc/hostname
ln rootfs/etc/hostname rootfs/etc/nodename
ln -s /bin/program rootfs/etc/init
truncate -s 3000000 rootfs/var/log/sparse
head -c 200000 /dev/urandom >firmware.bin

cat >layout.toml <<'LAYOUT'
[flash]
peb = "128KiB"
page = 2048
subpage = 512
blocks = 1024

[[volume]]
name = "firmware"
type = "static"
content = { file = "firmware.bin" }

[[volume]]
name = "rootfs"
size = "80MiB"
content = { ubifs = "rootfs", compressor = "zstd" }
LAYOUT

show() {
    echo
    echo "\$ eraseblock $*"
    "$eraseblock" "$@"
}

show build layout.toml -o demo.ubi
show info demo.ubi
show ls demo.ubi:rootfs /etc
show cat demo.ubi:rootfs /etc/hostname
show extract demo.ubi:rootfs out
diff -r --no-dereference rootfs out
show build layout.toml -o again.ubi
cmp demo.ubi again.ubi
echo
echo "what was read back equals the folder, and a second build equals the first"
