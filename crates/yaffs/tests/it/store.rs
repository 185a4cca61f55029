//! The images: a selection in the repository, and all of them in a folder that an environment
//! variable names.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The environment variable with the folder.
const FOLDER: &str = "ERASEBLOCK_YAFFS_DATA";

/// A row of the index.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) format: String,
    pub(crate) page: u32,
    pub(crate) spare: u32,
    pub(crate) pages_per_block: u32,
    pub(crate) tags: String,
    pub(crate) tag_ecc: bool,
    pub(crate) is_big: bool,
    pub(crate) data_ecc: String,
    pub(crate) is_quirk: bool,
}

/// A folder with images.
#[derive(Debug)]
pub(crate) struct Store(PathBuf);

impl Store {
    /// The selection in the repository.
    pub(crate) fn selection() -> Self {
        Self(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"))
    }

    /// All images, if they are there.
    pub(crate) fn all() -> Option<Self> {
        std::env::var_os(FOLDER).map(|folder| Self(folder.into()))
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        let index = std::fs::read_to_string(self.0.join("index.tsv")).unwrap();
        let row = |line: &str| {
            let fields: Vec<&str> = line.split('\t').collect();
            let number = |index: usize| fields[index].parse().unwrap();
            Row {
                name: fields[0].to_owned(),
                format: fields[1].to_owned(),
                page: number(2),
                spare: number(3),
                pages_per_block: number(4),
                tags: fields[5].to_owned(),
                tag_ecc: fields[6] == "yes",
                is_big: fields[7] == "big",
                data_ecc: fields[8].to_owned(),
                is_quirk: fields[9] == "quirk",
            }
        };
        index.lines().skip(1).map(row).collect()
    }

    pub(crate) fn image(&self, name: &str) -> Vec<u8> {
        unpack(&std::fs::read(self.0.join(format!("{name}.img.zst"))).unwrap())
    }

    pub(crate) fn manifest(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(format!("{name}.manifest"))).unwrap()
    }

    /// The operations that made an image.
    pub(crate) fn script(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(format!("{name}.script"))).unwrap()
    }

    /// The files of an archive of images.
    pub(crate) fn archive(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let packed = std::fs::read(self.0.join(format!("{name}.tar.zst"))).unwrap();
        untar(&unpack(&packed))
    }
}

fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut decoder = zstd::Decoder::new(packed).unwrap();
    decoder.window_log_max(27).unwrap();
    let mut bytes = Vec::new();
    decoder.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads the plain files of a tar archive.
fn untar(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut rest = bytes;
    while rest.len() >= 512 && rest[0] != 0 {
        let text = |range: std::ops::Range<usize>| {
            let field = rest[range].split(|byte| *byte == 0).next().unwrap();
            String::from_utf8(field.to_vec()).unwrap()
        };
        let size = usize::from_str_radix(text(124..136).trim(), 8).unwrap();
        let name = text(0..100).trim_start_matches("./").to_owned();
        if rest[156] == b'0' {
            files.insert(name, rest[512..512 + size].to_vec());
        }
        rest = &rest[512 + size.next_multiple_of(512)..];
    }
    files
}
