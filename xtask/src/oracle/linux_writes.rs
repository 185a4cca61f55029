//! `linux-writes`: images made by real Linux, clean and cut off, with what Linux reads from them.

use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::{Checks, Paths};
use anyhow::{Result, ensure};
use serde::Serialize;
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

/// The points at which an image of each case is taken.
pub(crate) const POINTS: [&str; 3] = ["cut1", "cut2", "clean"];

/// The information about an image that a reader needs, stored next to it.
#[derive(Debug, Serialize)]
struct Info<'a> {
    case: &'a str,
    point: &'a str,
    chip: Chip,
    mount: &'a str,
    volumes: [&'a str; 2],
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

/// Creates the images of all requested cases, in one boot, and checks that Linux accepts its own
/// images. Images are kept for the next run unless `fresh` is set or their inputs changed. Linux
/// performs one of `share` operations.
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
    let batch = Batch::run(guest, paths, "linux-writes", &[], &cases)?;
    println!("      linux-writes: {:.1} s in the guest", batch.seconds());
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
    let scripts = [include_str!("../../guest/writes.sh"), include_str!("../../guest/lib.sh")];
    Ok(format!("{}\n{program}\n{CHIPS:?}\n{CASES:?}\n{scripts:?}\n", guest.release()))
}

fn batch_case(case: &Case, share: NonZeroU32) -> BatchCase {
    let chip = CHIPS[case.chip];
    let variables = vec![
        ("LOAD", chip.load.to_owned()),
        ("FORMAT", chip.offset_args.0.to_owned()),
        ("ATTACH", chip.offset_args.1.to_owned()),
        ("MOUNT", case.mount.to_owned()),
        ("SEED", case.seed.to_string()),
        ("OPS", (case.operations / share).to_string()),
        ("LIVE", case.live_kib.to_string()),
        ("BIG", if case.big { "big" } else { "" }.to_owned()),
    ];
    let script = include_str!("../../guest/writes.sh");
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
        fs::copy(from.join("firmware.bin"), place.join("firmware.bin"))?;
        let log = String::from_utf8_lossy(&fs::read(place.join("dmesg"))?).into_owned();
        let found = complaints(&log, &[]);
        ensure!(found.is_empty(), "{point}: the kernel complains: {}", found.join("; "));
        let info = Info {
            case: case.name,
            point,
            chip: CHIPS[case.chip],
            mount: case.mount,
            volumes: ["firmware", "data"],
            seed: case.seed,
            operations: case.operations / share,
            kernel: guest.release(),
        };
        fs::write(place.join("info.json"), serde_json::to_string_pretty(&info)? + "\n")?;
        if let Ok(read_only) = fs::read(place.join("manifest-ro")) {
            ensure!(
                read_only == fs::read(place.join("manifest"))?,
                "{point}: Linux lists something else before recovery is written back"
            );
        }
    }
    Ok(())
}
