//! Bounds an image's size before it is built.

use super::error::MkfsError;
use super::finish;
use super::options::{Compressor, MkfsOptions};
use super::plan::{Plan, index_bytes};
use super::report::{NoProgress, NodeCounts};
use eraseblock_ubifs_format::constants::MAX_NODE_SIZE;
use eraseblock_ubifs_format::encode::index_len;
use eraseblock_ubifs_format::layout::Layout;
use eraseblock_vfs::SourceTree;

/// Whether content fits a volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fit {
    /// Even if nothing can be compressed.
    Always,
    /// If contents compress well enough, or enough blocks of them are zeros, which are not stored.
    DependsOnContent,
    /// Not even if contents took no space at all.
    Never,
}

/// Bounds of an image's size, without the LEBs of UBI itself, for bad blocks and wear levelling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preflight {
    /// The areas of the volume.
    pub layout: Layout,
    /// Main-area LEBs needed if contents took no space.
    pub main_lebs_least: u32,
    /// Main-area LEBs that are enough if nothing can be compressed.
    pub main_lebs_most: u32,
    /// LEBs of the image if contents took no space, all areas included.
    pub image_lebs_least: u32,
    /// LEBs of the image if nothing can be compressed and LEBs are filled badly, all areas
    /// included.
    pub image_lebs_most: u32,
    /// Required maximum LEB count of the volume if contents took no space; a volume has a minimum
    /// that an image may be below.
    pub volume_lebs_least: u32,
    /// Whether some file with content will be compressed.
    pub compresses: bool,
    /// Nodes to be written; blocks include those that turn out to be holes.
    pub nodes: NodeCounts,
    /// Bytes of all files.
    pub content_bytes: u64,
}

impl Preflight {
    /// Returns whether the content fits the volume.
    pub fn fit(&self) -> Fit {
        if self.main_lebs_most <= self.layout.max_main_lebs {
            Fit::Always
        } else if self.main_lebs_least <= self.layout.max_main_lebs {
            Fit::DependsOnContent
        } else {
            Fit::Never
        }
    }
}

/// Checks options and tree and bounds the size of the image without reading any content. Fails if
/// the options are impossible or contradict each other.
pub fn preflight(tree: &SourceTree, options: &MkfsOptions) -> Result<Preflight, MkfsError> {
    let layout = Layout::for_image(&options.layout)?;
    let plan = Plan::new(tree, options, &layout, &NoProgress)?;
    Ok(estimate(&plan, &layout, options))
}

/// Returns the bounds for a plan.
pub(super) fn estimate(plan: &Plan<'_>, layout: &Layout, options: &MkfsOptions) -> Preflight {
    let least =
        Bytes { data: plan.metadata_bytes, index: index_bytes(plan.leaves(0), layout.fanout).0 };
    let most = Bytes {
        data: plan.metadata_bytes + plan.data_bytes,
        index: index_bytes(plan.leaves(plan.counts.blocks), layout.fanout).0,
    };
    let main_lebs_least = least.lebs(layout.leb_size, 0, 0);
    // Data that does not fit the rest of a LEB leaves less than its own size unused there.
    let main_lebs_most = most.lebs(layout.leb_size, MAX_NODE_SIZE - 8, index_len(layout.fanout));
    let main_first = layout.main_first().get();
    Preflight {
        layout: *layout,
        main_lebs_least,
        main_lebs_most,
        image_lebs_least: main_first.saturating_add(main_lebs_least),
        image_lebs_most: main_first.saturating_add(main_lebs_most),
        volume_lebs_least: finish::needed_lebs(&options.layout, main_lebs_least),
        compresses: plan.files.iter().any(|file| plan.compressor(*file) != Compressor::None),
        nodes: plan.counts,
        content_bytes: plan.content_bytes,
    }
}

struct Bytes {
    data: u64,
    index: u64,
}

impl Bytes {
    /// Returns the number of LEBs for data, index and garbage collection, with this much unused in
    /// each.
    fn lebs(&self, leb_size: u32, unused_data: u32, unused_index: u32) -> u32 {
        let lebs = |bytes: u64, unused: u32| bytes.div_ceil(u64::from((leb_size - unused).max(1)));
        let all = lebs(self.data, unused_data) + lebs(self.index, unused_index) + 1;
        u32::try_from(all).unwrap_or(u32::MAX)
    }
}
