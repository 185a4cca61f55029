#!/bin/sh
# Makes vendor/* from the published crates and the patches; with --check compares only.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
: >"$work/src/lib.rs"
printf '[package]\nname = "x"\nedition = "2024"\n[dependencies]\nfuser = "=%s"\nnfs3_server = "=%s"\n' \
    0.18.0 0.11.1 >"$work/Cargo.toml"
(cd "$work" && cargo vendor --quiet all >/dev/null)
for crate in fuser nfs3_server; do
    mkdir "$work/$crate"
    cd "$work/all/$crate"
    case $crate in
    fuser) cp -r src Cargo.toml LICENSE.md build.rs "$work/$crate" ;;
    nfs3_server)
        cp -r src Cargo.toml LICENSE README.md "$work/$crate"
        rm -r "$work/$crate/src/memfs" "$work/$crate/src/fs_util"
        ;;
    esac
    patch -s -d "$work/$crate" -p1 <"$here/$crate.patch"
    if [ "${1-}" = --check ]; then
        diff -r "$work/$crate" "$here/$crate"
    else
        rm -rf "${here:?}/$crate"
        mv "$work/$crate" "$here/$crate"
    fi
done
