//! The page that was written last, which a power cut may have torn (spec: yaffs2 10).
//!
//! Its tags may be whole although its data is not, and it may be readable now for the last time. The
//! reference lets such a chunk count. Here it is ignored where that is possible, so that an operation
//! that was cut leaves what was there before it.

use super::blocks::Block;
use crate::medium::Flash;
use crate::page::Tagged;
use eraseblock_base::Findings;
use eraseblock_mtd::ReadError;
use eraseblock_yaffs_format::Tags;
use eraseblock_yaffs_format::constants::object;

/// How the last writer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// With a valid checkpoint.
    Clean,
    /// Perhaps by a power cut.
    Cut,
}

/// A page with whole tags whose data cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Torn {
    pub(crate) tags: Tags,
}

/// Returns whether a page is a header whose tags void older data, even if a newer header follows: only
/// all data after it could undo that. So the operation counts as done, with the older attributes.
fn voids_data(tags: &Tags) -> bool {
    let is_removal = |parent| matches!(parent, object::UNLINKED | object::DELETED);
    tags.extra.is_some_and(|extra| extra.is_shrink || is_removal(extra.parent))
}

/// Holds the page that was written last, or takes it out of `blocks`, which are sorted, and returns
/// it.
///
/// A writer that finds a torn page first writes what it voids to a fresh block. If that is cut, too,
/// the fresh block has one page, which is torn, and the block before it still ends with a torn page.
pub(super) fn find(
    flash: &mut Flash,
    blocks: &mut [Block],
    findings: &mut Findings,
) -> Result<Vec<Torn>, ReadError> {
    let mut torn = Vec::new();
    for block in blocks.iter_mut().rev() {
        let used = block.tags.iter().rposition(|tagged| *tagged != Tagged::Unused);
        let Some(index) = used else { continue };
        let page = block.number * flash.layout.pages_per_block + index as u32;
        let pages = flash.page(page)?;
        if flash.layout.data_of(pages.get(0)).is_some() {
            flash.held = Some((page, pages));
            break;
        }
        if let Tagged::Good(tags) = block.tags[index] {
            if tags.object != object::SUMMARY {
                torn.push(Torn { tags });
            }
            let what = if voids_data(&tags) {
                "its tags count"
            } else {
                block.tags[index] = Tagged::Unused;
                "the page is ignored"
            };
            let message = format!(
                "written last, and its data cannot be read: a power cut tore the page; {what}"
            );
            findings.note(flash.location(page), "page-torn", message);
        }
        if index > 0 {
            break;
        }
    }
    Ok(torn)
}
