#!/usr/bin/env bash
# The main job in one run: a real folder becomes a UBI image, and the image a folder again. No root.
# ERASEBLOCK names another command than that of `make demo`.
set -euo pipefail
cd "$(dirname "$0")"
eraseblock=${ERASEBLOCK:-$PWD/target/demo/eraseblock}
folder=${1:-/usr/share/doc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

step() { # what is run, timed
    printf '\n$ %s\n' "$*"
    local started=$EPOCHREALTIME
    "$@"
    awk -v a="$started" -v b="$EPOCHREALTIME" 'BEGIN { printf "  (%.2f s)\n", b - a }'
}
eraseblock() { command "$eraseblock" "$@"; }

# A copy, so that what is compared does not change meanwhile, and everything is readable.
mkdir rootfs
cp -rL --no-preserve=ownership "$folder" rootfs/ 2>/dev/null || true
printf 'folder: %s, %s files, %s\n' "$folder" "$(find rootfs -type f | wc -l)" \
    "$(du -sh --apparent-size rootfs | cut -f1)"

cat > flash.toml <<'TOML'
[flash]
part = "MT29F4G08ABADA"

[[volume]]
name = "rootfs"
size = "400MiB"
content = { ubifs = "rootfs", compressor = "zstd" }
TOML

step eraseblock build flash.toml -o flash.ubi
step eraseblock info flash.ubi
step eraseblock ls flash.ubi /
step eraseblock extract flash.ubi again
step diff -r rootfs again
printf '\nThe image gave back exactly the %s files that went in.\n' "$(find again -type f | wc -l)"
