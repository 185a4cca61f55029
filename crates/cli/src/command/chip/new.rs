//! `eraseblock chip new`: an erased chip in a sparse file.

use super::stats::Report;
use crate::args::{size32, size64};
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::base::{Geometry, MediumKind, Peb};
use eraseblock::raw::nandsim::{Chip, ChipConfig, parts};
use std::path::PathBuf;

/// Arguments of `chip new`.
#[derive(Debug, clap::Args)]
pub(super) struct NewArgs {
    /// The file to make
    file: PathBuf,
    /// A part of the database: `eraseblock chip parts` lists them
    #[arg(long, visible_alias = "flash", value_name = "PART", conflicts_with_all = ["size", "peb", "page", "subpage", "oob"])]
    part: Option<String>,
    /// Size of the chip
    #[arg(long, value_name = "SIZE", value_parser = size64)]
    size: Option<u64>,
    /// Size of a physical eraseblock
    #[arg(long, value_name = "SIZE", value_parser = size32)]
    peb: Option<u32>,
    /// Size of a page; 1 makes a NOR chip
    #[arg(long, value_name = "SIZE", value_parser = size32)]
    page: Option<u32>,
    /// Size of a sub-page; as --page when left out
    #[arg(long, value_name = "SIZE", value_parser = size32)]
    subpage: Option<u32>,
    /// Out-of-band bytes of a page; a 32nd of the page when left out
    #[arg(long, value_name = "BYTES")]
    oob: Option<u32>,
    /// Program/erase cycles that a block endures
    #[arg(long, value_name = "CYCLES")]
    endurance: Option<u32>,
    /// Blocks that are bad from the factory
    #[arg(long, value_name = "PEB", value_delimiter = ',')]
    bad: Vec<u32>,
    /// Replace a file that exists
    #[arg(long)]
    force: bool,
}

/// Makes it.
pub(super) fn run(args: &NewArgs, session: &mut Session) -> Result<(), Failure> {
    let path = args.file.display();
    if args.file.exists() && !args.force {
        return Err(Failure::new(format!("{path}: exists already")).hint("--force replaces it"));
    }
    let mut config = match &args.part {
        Some(name) => ChipConfig::of_part(parts::find(name).map_err(|error| {
            Failure::new(error.to_string()).hint("`eraseblock chip parts` lists all parts")
        })?),
        None => ChipConfig::of_geometry(args.geometry()?)?,
    };
    if let Some(cycles) = args.endurance {
        config = config.with_endurance(cycles);
    }
    let count = config.geometry().peb_count();
    if let Some(outside) = args.bad.iter().find(|peb| **peb >= count) {
        return Err(Failure::usage(format!("--bad {outside}: the chip has {count} blocks")));
    }
    let chip = Chip::create(&args.file, config)?;
    for peb in &args.bad {
        chip.set_factory_bad(Peb::new(*peb)).context(&path)?;
    }
    Report::of(&args.file, &chip).print_change(session)
}

impl NewArgs {
    fn geometry(&self) -> Result<Geometry, Failure> {
        let missing = |option: &str| {
            Failure::usage(format!("which chip? {option} is missing"))
                .hint("--part PART is enough; --size, --peb and --page describe any other")
        };
        let size = self.size.ok_or_else(|| missing("--size"))?;
        let peb = self.peb.ok_or_else(|| missing("--peb"))?;
        let page = self.page.ok_or_else(|| missing("--page"))?;
        let (kind, usual_oob) = match page {
            1 => (MediumKind::Nor, 0),
            _ => (MediumKind::Nand, page / 32),
        };
        if !size.is_multiple_of(u64::from(peb.max(1))) {
            return Err(Failure::usage(format!("--size {size} is no multiple of --peb {peb}")));
        }
        let count = u32::try_from(size / u64::from(peb.max(1)))
            .map_err(|_| Failure::usage("--size: more than 2^32 eraseblocks"))?;
        let oob = self.oob.unwrap_or(usual_oob);
        Ok(Geometry::new(kind, peb, count, page, self.subpage.unwrap_or(page), oob)?)
    }
}
