//! Options of a YAFFS2 file system.

use super::source::SourceArgs;
use super::{Endian, size32};
use clap::Args;
use eraseblock::builder::yaffs2::Yaffs2Options;

/// Options of a YAFFS2 image; what is left out is as in the images of mkyaffs2image.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Yaffs2OptionArgs {
    /// Spare bytes of a page; those of the part, or 1/32 of the page when left out
    #[arg(long, help_heading = "Flash", value_name = "SIZE", value_parser = size32)]
    pub spare: Option<u32>,
    /// Byte order of the machine that will mount it
    #[arg(long, help_heading = "File system", value_name = "ORDER", default_value = "little")]
    pub byte_order: Option<Endian>,
    /// The spare byte at which tags begin: 0 for a tool that places them, 2 as Linux has them
    #[arg(long, help_heading = "File system", value_name = "BYTE", default_value_t = 0)]
    pub tags_at: u16,
    /// Put the tags at the end of the data
    #[arg(long, help_heading = "File system", conflicts_with = "tags_at")]
    pub in_band: bool,
    /// Tags without ECC, as for a mount with tags-ecc-off
    #[arg(long, help_heading = "File system")]
    pub no_tags_ecc: bool,
    /// Add Linux's Hamming code of the data, as in a dump of the chip
    #[arg(long, help_heading = "File system")]
    pub data_ecc: bool,
    #[command(flatten)]
    pub source: SourceArgs,
}

impl Yaffs2OptionArgs {
    /// The same for the library.
    pub(crate) fn choices(&self) -> Yaffs2Options {
        Yaffs2Options {
            spare: self.spare,
            byte_order: self.byte_order.unwrap_or(Endian::Little).into(),
            tags_at: self.tags_at,
            in_band: self.in_band,
            no_tags_ecc: self.no_tags_ecc,
            data_ecc: self.data_ecc,
            source: self.source.choices(),
        }
    }
}
