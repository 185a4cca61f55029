//! `linux-writes`: images made by real Linux, clean and cut off, with what Linux reads from them.

use crate::guest::{Guest, JobDir, complaints};
use crate::oracle::{Checks, Paths};
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
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
    /// Where VID headers are, which decides where data begins.
    pub(crate) vid_header_offset: u32,
    /// Where data begins in an erase block.
    pub(crate) data_offset: u32,
    /// Extra arguments of `ubiformat` and of `ubiattach`, when the offset is not the usual one.
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
pub(crate) const POINTS: [&str; 5] = ["cut1", "cut2", "cut3", "cut4", "clean"];

/// What a reader must know about an image, stored beside it.
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
    read_only_manifest_differs: bool,
}

/// Lines of the kernel that recovery from a cut brings, and that are no failure.
const RECOVERY: [&str; 0] = [];

/// Names of the images, as checks and as directories.
pub(crate) fn image_names() -> Vec<String> {
    let of_case = |case: &Case| POINTS.map(|point| format!("{}-{point}", case.name));
    CASES.iter().flat_map(of_case).collect()
}

/// Makes the images of all cases that are wanted, in one boot, and checks that Linux accepts what
/// it wrote itself.
pub(crate) fn run(guest: &Guest, paths: &Paths, checks: &mut Checks) -> Result<()> {
    let wanted: Vec<&Case> = CASES.iter().filter(|case| checks.wants(&check_name(case))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let job = JobDir::create(&paths.work.join("linux-writes"))?;
    job.add_program(&paths.manifest_program)?;
    job.write("lib.sh", include_str!("../../guest/lib.sh"))?;
    job.write("writes.sh", include_str!("../../guest/writes.sh"))?;
    job.write("job.sh", job_script(&wanted)?)?;
    let report = guest.run(&job)?;
    checks.note(&format!("linux-writes: {:.1} s in the guest", report.elapsed.as_secs_f64()));
    for case in wanted {
        let outcome = match collect(guest, paths, &job.path().join(case.name), case) {
            Ok(()) => Ok(()),
            Err(error) => {
                Err(report.failure().map_or(error.to_string(), |tail| format!("{error:#}: {tail}")))
            }
        };
        checks.record(&check_name(case), outcome);
    }
    Ok(())
}

fn check_name(case: &Case) -> String {
    format!("linux-writes/{}", case.name)
}

fn job_script(cases: &[&Case]) -> Result<String> {
    let mut script = String::from("dmesg -c >/dev/null\n");
    for case in cases {
        let chip = CHIPS[case.chip];
        writeln!(
            script,
            "mkdir -p {name}\n\
             OUT=/job/{name} LOAD='{load}' FORMAT='{format}' ATTACH='{attach}' MOUNT='{mount}' \
             SEED={seed} OPS={operations} LIVE={live} BIG={big} \
             sh -c '. ./lib.sh; . ./writes.sh' >{name}/output 2>&1\n\
             echo $? >{name}/status\n\
             sh -c '. ./lib.sh; unload'",
            name = case.name,
            load = chip.load,
            format = chip.offset_args.0,
            attach = chip.offset_args.1,
            mount = case.mount,
            seed = case.seed,
            operations = case.operations,
            live = case.live_kib,
            big = if case.big { "big" } else { "" },
        )?;
    }
    Ok(script)
}

/// Moves the results of a case to where readers look for them.
fn collect(guest: &Guest, paths: &Paths, from: &Path, case: &Case) -> Result<()> {
    let status = fs::read_to_string(from.join("status")).context("the case did not end")?;
    if status.trim() != "0" {
        let output = fs::read_to_string(from.join("output")).unwrap_or_default();
        anyhow::bail!("the case exited with {}:\n{}", status.trim(), output.trim());
    }
    for point in POINTS {
        let place = paths.images.join(format!("{}-{point}", case.name));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&paths.images)?;
        fs::rename(from.join(point), &place)?;
        fs::copy(from.join("firmware.bin"), place.join("firmware.bin"))?;
        let log = String::from_utf8_lossy(&fs::read(place.join("dmesg"))?).into_owned();
        let found = complaints(&log, &RECOVERY);
        anyhow::ensure!(found.is_empty(), "{point}: the kernel complains: {}", found.join("; "));
        let info = Info {
            case: case.name,
            point,
            chip: CHIPS[case.chip],
            mount: case.mount,
            volumes: ["firmware", "data"],
            seed: case.seed,
            operations: case.operations,
            kernel: guest.release(),
            read_only_manifest_differs: fs::read(place.join("manifest"))?
                != fs::read(place.join("manifest-ro"))?,
        };
        fs::write(place.join("info.json"), serde_json::to_string_pretty(&info)? + "\n")?;
    }
    Ok(())
}
