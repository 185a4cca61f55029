//! Which flash an image is made for: a part of the database, or its sizes.

use super::size32;
use clap::Args;
use eraseblock::medium::FlashChoice;

/// A flash; `--flash` alone is enough, single sizes may differ from the part's.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FlashArgs {
    /// A part of the database: `eraseblock chip parts` lists them
    #[arg(long, help_heading = "Flash", value_name = "PART")]
    pub flash: Option<String>,
    /// Size of a physical eraseblock
    #[arg(long, help_heading = "Flash", value_name = "SIZE", value_parser = size32)]
    pub peb: Option<u32>,
    /// Size of a page: the smallest unit that can be programmed
    #[arg(long, help_heading = "Flash", value_name = "SIZE", value_parser = size32)]
    pub page: Option<u32>,
    /// Size of a sub-page: the unit of UBI headers; as --page when left out
    #[arg(long, help_heading = "Flash", value_name = "SIZE", value_parser = size32)]
    pub subpage: Option<u32>,
}

impl FlashArgs {
    /// The same for the library.
    pub(crate) fn choice(&self) -> FlashChoice {
        let (peb, page, subpage) = (self.peb, self.page, self.subpage);
        FlashChoice { flash: self.flash.clone(), peb, page, subpage }
    }
}
