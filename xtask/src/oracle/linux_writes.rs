//! `linux-writes`: images made by real Linux, clean and cut off, with what Linux reads from them.

use crate::guest::Guest;
use crate::oracle::written::{self, Group};
use crate::oracle::{Checks, Paths};
use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::json;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

/// A chip that the guest simulates.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Chip {
    /// Its name in the names of cases.
    pub(crate) name: &'static str,
    /// Shell function and arguments that load it.
    #[serde(skip)]
    pub(crate) load: &'static str,
    /// Bytes in a physical erase block.
    pub(crate) peb_size: u32,
    /// Erase blocks in an image.
    pub(crate) pebs: u32,
    /// Bytes in a page, 1 for NOR.
    pub(crate) page_size: u32,
    /// Bytes in a sub-page.
    pub(crate) subpage_size: u32,
    /// Offset of VID headers, which determines the data offset.
    pub(crate) vid_header_offset: u32,
    /// Offset of the data in an eraseblock.
    pub(crate) data_offset: u32,
    /// Extra arguments of `ubiformat` and of `ubiattach` for an unusual offset.
    #[serde(skip)]
    pub(crate) offset_args: (&'static str, &'static str),
}

/// The chips of the oracle.
pub(crate) const CHIPS: [Chip; 5] = [
    Chip {
        name: "nand2k",
        load: "load_nand 0x20,0xa1,0x00,0x15 128",
        peb_size: 128 << 10,
        pebs: 128,
        page_size: 2048,
        subpage_size: 512,
        vid_header_offset: 512,
        data_offset: 2048,
        offset_args: ("", ""),
    },
    Chip {
        name: "nand2k-nosub",
        load: "load_nand 0x20,0xa1,0x00,0x15 128",
        peb_size: 128 << 10,
        pebs: 128,
        page_size: 2048,
        subpage_size: 2048,
        vid_header_offset: 2048,
        data_offset: 4096,
        offset_args: ("-s 2048 -O 2048", "-O 2048"),
    },
    Chip {
        name: "nand512",
        load: "load_nand 0x98,0x76 1024",
        peb_size: 16 << 10,
        pebs: 1024,
        page_size: 512,
        subpage_size: 256,
        vid_header_offset: 256,
        data_offset: 512,
        offset_args: ("", ""),
    },
    Chip {
        name: "nand4k",
        load: "load_nand 0x20,0xa1,0x00,0x26 64",
        peb_size: 256 << 10,
        pebs: 64,
        page_size: 4096,
        subpage_size: 1024,
        vid_header_offset: 1024,
        data_offset: 4096,
        offset_args: ("", ""),
    },
    Chip {
        name: "nor",
        load: "load_nor 16384 64",
        peb_size: 64 << 10,
        pebs: 256,
        page_size: 1,
        subpage_size: 1,
        vid_header_offset: 64,
        data_offset: 128,
        offset_args: ("", ""),
    },
];

#[derive(Debug)]
struct Case {
    name: &'static str,
    chip: usize,
    mount: &'static str,
    seed: u64,
    operations: u32,
    live_kib: u32,
    big: bool,
}

const fn case(
    name: &'static str,
    chip: usize,
    mount: &'static str,
    seed: u64,
    operations: u32,
    big: bool,
) -> Case {
    Case { name, chip, mount, seed, operations, live_kib: 3000, big }
}

const CASES: [Case; 7] = [
    case("nand2k-lzo", 0, "compr=lzo", 1, 4000, true),
    case("nand2k-zstd", 0, "compr=zstd,chk_data_crc", 2, 4000, false),
    case("nand2k-nosub-zlib", 1, "compr=zlib", 3, 4000, false),
    case("nand512-none", 2, "compr=none", 4, 3000, false),
    case("nand512-lzo", 2, "compr=lzo,bulk_read", 5, 4000, true),
    case("nand4k-zstd", 3, "compr=zstd", 6, 3000, true),
    case("nor-lzo", 4, "compr=lzo", 7, 4000, false),
];

/// Names of the images, as checks and as directories.
pub(crate) fn image_names() -> Vec<String> {
    CASES.iter().flat_map(|case| written::image_names(case.name)).collect()
}

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(|case| written::check_name(case.name)).collect()
}

/// Creates the images of all requested cases; see [`Group::run`]. Linux performs one of `share`
/// operations.
pub(crate) fn run(
    guest: &Guest,
    paths: &Paths,
    fresh: bool,
    share: NonZeroU32,
    checks: &mut Checks,
) -> Result<()> {
    let group = Group {
        batch: "linux-writes",
        title: "linux-writes",
        script: include_str!("../../guest/writes.sh"),
        allowed: &[],
        inputs: format!("{CHIPS:?}\n{CASES:?}, one of {share}"),
        complete,
    };
    let cases = CASES.iter().map(|case| written_case(case, share)).collect();
    group.run(guest, paths, fresh, cases, checks)
}

fn written_case(case: &Case, share: NonZeroU32) -> written::Case {
    let (chip, operations) = (CHIPS[case.chip], case.operations / share);
    written::Case {
        name: case.name,
        variables: vec![
            ("LOAD", chip.load.to_owned()),
            ("FORMAT", chip.offset_args.0.to_owned()),
            ("ATTACH", chip.offset_args.1.to_owned()),
            ("MOUNT", case.mount.to_owned()),
            ("SEED", case.seed.to_string()),
            ("OPS", operations.to_string()),
            ("LIVE", case.live_kib.to_string()),
            ("BIG", if case.big { "big" } else { "" }.to_owned()),
        ],
        info: json!({
            "chip": chip, "mount": case.mount, "volumes": ["firmware", "data"],
            "seed": case.seed, "operations": operations,
        }),
    }
}

/// Adds the content of the static volume, and compares Linux's view of the image before its
/// recovery is written back with the one after.
fn complete(case: &Path, image: &Path, point: &str) -> Result<()> {
    fs::copy(case.join("firmware.bin"), image.join("firmware.bin"))?;
    if let Ok(read_only) = fs::read(image.join("manifest-ro")) {
        ensure!(
            read_only == fs::read(image.join("manifest"))?,
            "{point}: Linux lists something else before recovery is written back"
        );
    }
    Ok(())
}
