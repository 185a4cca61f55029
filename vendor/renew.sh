#!/bin/sh
# Makes vendor/fuser from the published crate and fuser.patch; with --check compares only.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
version=0.18.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
: >"$work/src/lib.rs"
printf '[package]\nname = "x"\nedition = "2024"\n[dependencies]\nfuser = "=%s"\n' "$version" \
    >"$work/Cargo.toml"
(cd "$work" && cargo vendor --quiet all >/dev/null)
mkdir "$work/fuser"
cd "$work/all/fuser"
cp -r src Cargo.toml LICENSE.md build.rs "$work/fuser"
patch -s -d "$work/fuser" -p1 <"$here/fuser.patch"
if [ "${1-}" = --check ]; then
    diff -r "$work/fuser" "$here/fuser"
else
    rm -rf "$here/fuser"
    mv "$work/fuser" "$here/fuser"
fi
