//! `linux-writes` for JFFS2: images made by real Linux, clean and cut off, with what Linux reads
//! from them.

use crate::guest::Guest;
use crate::oracle::jffs2_chips::{Jffs2Chip, NAND_2K, NAND_512, NOR};
use crate::oracle::written::{self, Group};
use crate::oracle::{Checks, Paths};
use anyhow::Result;
use serde_json::json;
use std::num::NonZeroU32;

#[derive(Debug)]
struct Case {
    name: &'static str,
    chip: Jffs2Chip,
    mount: &'static str,
    seed: u64,
    operations: u32,
}

const CASES: [Case; 4] = [
    Case { name: "jffs2-nor", chip: NOR, mount: "rw", seed: 31, operations: 4000 },
    Case { name: "jffs2-nor-zlib", chip: NOR, mount: "compr=zlib", seed: 32, operations: 2000 },
    Case { name: "jffs2-nand2k", chip: NAND_2K, mount: "rw", seed: 33, operations: 1500 },
    Case { name: "jffs2-nand512", chip: NAND_512, mount: "compr=lzo", seed: 34, operations: 1500 },
];

/// Allowed messages: every cut leaves incomplete nodes.
const ALLOWED: [&str; 4] = ["CRC failed", "crc error", "Not enough space", "Empty flash"];

/// The option for `flash_erase`: only chips without pages show cleanmarkers in images, the others
/// get theirs by the same option.
pub(crate) const MARKERS: &str = "-j";

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
        batch: "jffs2-writes",
        title: "linux-writes, JFFS2",
        script: include_str!("../../guest/jffs2-writes.sh"),
        allowed: &ALLOWED,
        inputs: format!("{CASES:?}, one of {share}"),
        complete: |_, _, _| Ok(()),
    };
    let cases = CASES.iter().map(|case| written_case(case, share)).collect();
    group.run(guest, paths, fresh, cases, checks)
}

fn written_case(case: &Case, share: NonZeroU32) -> written::Case {
    let operations = case.operations / share;
    written::Case {
        name: case.name,
        variables: vec![
            ("LOAD", case.chip.load.to_owned()),
            ("MARKERS", MARKERS.to_owned()),
            ("MOUNT", case.mount.to_owned()),
            ("SEED", case.seed.to_string()),
            ("OPS", operations.to_string()),
            ("LIVE", "1500".to_owned()),
        ],
        info: json!({
            "chip": case.chip, "mount": case.mount, "seed": case.seed, "operations": operations,
        }),
    }
}
