//! Which flash an image is made for: a part of the database, or its sizes.

use crate::error::{Error, Setting};
use eraseblock_base::{Geometry, MediumKind};
use eraseblock_nandsim::parts::{self, Part};

/// A flash; [`Self::flash`] alone is enough, single sizes may differ from the part's.
#[derive(Clone, Debug, Default)]
pub struct FlashChoice {
    /// A part of the database: `eraseblock chip parts` lists them
    pub flash: Option<String>,
    /// Size of a physical eraseblock
    pub peb: Option<u32>,
    /// Size of a page: the smallest unit that can be programmed
    pub page: Option<u32>,
    /// Size of a sub-page: the unit of UBI headers; as [`Self::page`] when left out
    pub subpage: Option<u32>,
}

/// A flash with the number of its blocks, if that is known.
#[derive(Clone, Copy, Debug)]
pub struct Flash {
    /// The shape; its number of blocks is 0 when unknown.
    pub geometry: Geometry,
    /// Blocks of the whole chip.
    pub chip_blocks: Option<u32>,
}

impl FlashChoice {
    /// The flash meant, with `blocks` eraseblocks if given. Fails if a size is missing or
    /// impossible.
    pub fn resolve(&self, blocks: Option<u32>) -> Result<Flash, Error> {
        let part = match &self.flash {
            Some(name) => Some(parts::find(name).map_err(|error| {
                Error::new(error.to_string()).hint("`eraseblock chip parts` lists all parts")
            })?),
            None => None,
        };
        let missing = |what: &str, setting: Setting| {
            Error::usage(format!("the flash is not known: {what} is missing"))
                .hint(Setting::Flash.to("PART") + " names a chip, " + setting + " states the size")
        };
        let peb = self.peb.or(part.map(|p| p.peb_size));
        let peb = peb.ok_or_else(|| missing("the size of an eraseblock", Setting::Peb))?;
        let shape = part.map(Part::geometry);
        let page = self.page.or(shape.map(|g| g.min_io()));
        let page = page.ok_or_else(|| missing("the size of a page", Setting::Page))?;
        let part_subpage = if self.page.is_none() { shape.map(|g| g.subpage()) } else { None };
        let subpage = self.subpage.or(part_subpage).unwrap_or(page);
        let kind = match part {
            Some(part) => part.kind,
            None if page == 1 => MediumKind::Nor,
            None => MediumKind::Nand,
        };
        let chip_blocks = part.map(|p| p.peb_count).or(blocks);
        let count = blocks.or(chip_blocks).unwrap_or(0);
        let oob = shape.map_or(0, |g| g.oob_size());
        let geometry = Geometry::new(kind, peb, count, page, subpage, oob)?;
        Ok(Flash { geometry, chip_blocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_sizes() {
        let by_part = FlashChoice { flash: Some("W25N01GV".into()), ..FlashChoice::default() };
        let flash = by_part.resolve(None).unwrap();
        assert_eq!((flash.geometry.peb_size(), flash.chip_blocks), (131_072, Some(1024)));
        let by_size = FlashChoice { peb: Some(65_536), page: Some(1), ..FlashChoice::default() };
        let flash = by_size.resolve(Some(64)).unwrap();
        assert_eq!(flash.geometry.kind(), MediumKind::Nor);
        assert_eq!(flash.geometry.peb_count(), 64);
    }

    #[test]
    fn refusals_name_what_is_missing() {
        let error = FlashChoice::default().resolve(None).unwrap_err();
        assert!(error.message().contains("size of an eraseblock"));
        let unknown = FlashChoice { flash: Some("NOPE".into()), ..FlashChoice::default() };
        assert!(unknown.resolve(None).unwrap_err().next_step().unwrap().contains("chip parts"));
        let odd = FlashChoice { peb: Some(3000), page: Some(2048), ..FlashChoice::default() };
        assert!(odd.resolve(None).unwrap_err().message().contains("eraseblock size"));
    }
}
