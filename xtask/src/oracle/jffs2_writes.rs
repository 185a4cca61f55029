//! `linux-writes` for JFFS2: images made by real Linux, clean and cut off, with what Linux reads
//! from them.

use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::jffs2_chips::{Jffs2Chip, NAND_2K, NAND_512, NOR};
use crate::oracle::linux_writes::POINTS;
use crate::oracle::{Checks, Paths};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

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

/// The information about an image that a reader needs, stored next to it.
#[derive(Debug, Serialize)]
struct Info<'a> {
    case: &'a str,
    point: &'a str,
    chip: Jffs2Chip,
    mount: &'a str,
    seed: u64,
    operations: u32,
    kernel: &'a str,
}

/// Names of the images, as checks and as directories.
pub(crate) fn image_names() -> Vec<String> {
    let of_case = |case: &Case| POINTS.map(|point| format!("{}-{point}", case.name));
    CASES.iter().flat_map(of_case).collect()
}

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(check_name).collect()
}

/// Creates the images of all requested cases, in one boot. Images are kept for the next run unless
/// `fresh` is set or their inputs changed. Linux performs one of `share` operations.
pub(crate) fn run(
    guest: &Guest,
    paths: &Paths,
    fresh: bool,
    share: NonZeroU32,
    checks: &mut Checks,
) -> Result<()> {
    let stamp = format!("{}one of {share}\n", stamp(guest, paths)?);
    let wanted: Vec<&Case> = CASES.iter().filter(|case| checks.wants(&check_name(case))).collect();
    let is_kept = |case: &&Case| {
        !fresh && fs::read_to_string(stamp_file(paths, case)).is_ok_and(|kept| kept == stamp)
    };
    let (kept, made): (Vec<&Case>, Vec<&Case>) = wanted.into_iter().partition(is_kept);
    for case in kept {
        checks.record(&format!("{} (kept from an earlier run)", check_name(case)), Ok(()));
    }
    if made.is_empty() {
        return Ok(());
    }
    let cases: Vec<BatchCase> = made.iter().map(|case| batch_case(case, share)).collect();
    let batch = Batch::run(guest, paths, "jffs2-writes", &[], &cases)?;
    println!("      linux-writes, JFFS2: {:.1} s in the guest", batch.seconds());
    for case in made {
        let outcome = batch.case_dir(case.name).and_then(|dir| {
            collect(guest, paths, &dir, case, share)?;
            Ok(fs::write(stamp_file(paths, case), &stamp)?)
        });
        checks.record(&check_name(case), outcome);
    }
    paths.finish(batch)
}

fn check_name(case: &Case) -> String {
    format!("linux-writes/{}", case.name)
}

fn stamp_file(paths: &Paths, case: &Case) -> std::path::PathBuf {
    paths.images.join(format!("{}.stamp", case.name))
}

/// Returns everything, except chance, that determines the images.
fn stamp(guest: &Guest, paths: &Paths) -> Result<String> {
    let program = crate::command::run("sha256sum", [&paths.manifest_program])?;
    let program = program.split(' ').next().unwrap_or_default();
    let scripts = [include_str!("../../guest/jffs2-writes.sh"), include_str!("../../guest/lib.sh")];
    Ok(format!("{}\n{program}\n{CASES:?}\n{scripts:?}\n", guest.release()))
}

/// The option for `flash_erase`: only chips without pages show cleanmarkers in images, the others
/// get theirs by the same option.
pub(crate) const MARKERS: &str = "-j";

fn batch_case(case: &Case, share: NonZeroU32) -> BatchCase {
    let variables = vec![
        ("LOAD", case.chip.load.to_owned()),
        ("MARKERS", MARKERS.to_owned()),
        ("MOUNT", case.mount.to_owned()),
        ("SEED", case.seed.to_string()),
        ("OPS", (case.operations / share).to_string()),
        ("LIVE", "1500".to_owned()),
    ];
    let script = include_str!("../../guest/jffs2-writes.sh");
    BatchCase { name: case.name.to_owned(), script, variables, files: Vec::new() }
}

/// Moves the results of a case to the directory that readers use.
fn collect(
    guest: &Guest,
    paths: &Paths,
    from: &Path,
    case: &Case,
    share: NonZeroU32,
) -> Result<()> {
    for point in POINTS {
        let place = paths.images.join(format!("{}-{point}", case.name));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&paths.images)?;
        fs::rename(from.join(point), &place)?;
        let log = String::from_utf8_lossy(&fs::read(place.join("dmesg"))?).into_owned();
        let found = complaints(&log, &ALLOWED);
        ensure!(found.is_empty(), "{point}: the kernel complains: {}", found.join("; "));
        let info = Info {
            case: case.name,
            point,
            chip: case.chip,
            mount: case.mount,
            seed: case.seed,
            operations: case.operations / share,
            kernel: guest.release(),
        };
        fs::write(place.join("info.json"), serde_json::to_string_pretty(&info)? + "\n")?;
    }
    Ok(())
}
