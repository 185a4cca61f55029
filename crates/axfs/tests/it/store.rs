//! The images of the reference.

use std::path::{Path, PathBuf};

fn path(name: &str, extension: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.{extension}"))
}

pub(crate) fn image(name: &str) -> Vec<u8> {
    zstd::decode_all(&std::fs::read(path(name, "img.zst")).unwrap()[..]).unwrap()
}

pub(crate) fn manifest(name: &str) -> String {
    std::fs::read_to_string(path(name, "manifest")).unwrap()
}
