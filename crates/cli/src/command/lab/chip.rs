//! Which chip a campaign simulates: one with a name of its own, a part, or any sizes.

use crate::args::size32;
use crate::failure::Failure;
use eraseblock::raw::nandsim::parts;

/// Eraseblocks of a chip, unless their number is given: few, so that rare events occur often.
const BLOCKS: u32 = 64;

/// A chip that is not one of those with names of their own.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ChipArgs {
    /// A part of the database instead of --chip: `eraseblock chip parts` lists them
    #[arg(long, visible_alias = "flash", help_heading = "Another chip", value_name = "PART", conflicts_with_all = ["chip", "peb", "page", "subpage", "oob"])]
    part: Option<String>,
    /// Size of a physical eraseblock
    #[arg(long, help_heading = "Another chip", value_name = "SIZE", value_parser = size32, requires = "page", conflicts_with = "chip")]
    peb: Option<u32>,
    /// Size of a page; 1 makes a NOR chip
    #[arg(long, help_heading = "Another chip", value_name = "SIZE", value_parser = size32, requires = "peb")]
    page: Option<u32>,
    /// Size of a sub-page; as --page when left out
    #[arg(long, help_heading = "Another chip", value_name = "SIZE", value_parser = size32, requires = "page")]
    subpage: Option<u32>,
    /// Out-of-band bytes of a page; a 32nd of the page when left out
    #[arg(long, help_heading = "Another chip", value_name = "BYTES", requires = "page")]
    oob: Option<u32>,
    /// Number of its eraseblocks; 64 when left out
    #[arg(long, help_heading = "Another chip", value_name = "NUMBER", conflicts_with = "chip")]
    blocks: Option<u32>,
    /// Open UBI with fastmaps
    #[arg(long, help_heading = "Another chip", conflicts_with = "chip")]
    fastmap: bool,
}

impl ChipArgs {
    /// Returns the name of the chip, which ids of its states contain; `None` if no other chip is
    /// asked for.
    pub(super) fn name(&self) -> Result<Option<String>, Failure> {
        let flash = match (&self.part, self.peb, self.page) {
            (Some(part), ..) => {
                let part = parts::find(part).map_err(|error| {
                    Failure::new(error.to_string()).hint("`eraseblock chip parts` lists all parts")
                })?;
                part.name.to_owned()
            }
            (None, Some(peb), Some(page)) => {
                let subpage = self.subpage.unwrap_or(page);
                format!("{peb}-{page}-{subpage}-{}", self.oob.unwrap_or(page / 32))
            }
            _ if self.blocks.is_some() || self.fastmap => {
                let text = "which chip? --part, or --peb and --page, are missing";
                return Err(Failure::usage(text).hint("--chip names one with a size of its own"));
            }
            _ => return Ok(None),
        };
        let end = if self.fastmap { "-fastmap" } else { "" };
        Ok(Some(format!("{}x{flash}{end}", self.blocks.unwrap_or(BLOCKS))))
    }
}
