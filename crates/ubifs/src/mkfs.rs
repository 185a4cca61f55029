//! Builds a UBIFS image from a source tree, in process and without privileges (spec: ubifs-format
//! 17).
//!
//! The modules, in the order in which an image is built: `plan` numbers and checks the inodes,
//! `preflight` bounds the size in advance, `pipeline` reads and compresses file contents in worker
//! threads, `content` lays all leaf nodes out in LEBs (`area`), `index` builds the index over them,
//! `finish` adds LPT, master, superblock and log. `sink` receives the LEBs.
//!
//! # Invariants
//! 1. The same tree and options give the same bytes, regardless of the number of threads.
//! 2. Memory does not grow with file contents, except 20 bytes per node of the image: batches in
//!    flight are bounded by the number of threads.
//! 3. LEBs are passed to the sink in the order data, index, LPT, master, superblock, log, and no
//!    superblock is written if anything before it failed or did not fit.

mod area;
mod compress;
mod content;
mod error;
mod finish;
mod index;
mod options;
mod pipeline;
mod plan;
mod preflight;
mod report;
mod sink;

pub use error::{MkfsError, NodeProblem};
pub use options::{CompressionRule, Compressor, FormatVersion, MkfsOptions};
pub use preflight::{Fit, Preflight, preflight};
pub use report::{DataStatistics, MkfsReport, NoProgress, NodeCounts, Phase, Progress};
pub use sink::{DeviceSink, FileSink, LebSink, NoSink};

use area::MainArea;
use eraseblock_ubifs_format::layout::Layout;
use eraseblock_vfs::SourceTree;
use plan::Plan;

/// Builds the image of `tree` into `sink`.
///
/// Fails before anything is written if options or tree cannot be represented or certainly do not
/// fit. Fails after the last data LEB with [`MkfsError::TooFewLebs`] and the exact number needed if
/// the compressed content does not fit.
pub fn build(
    tree: &SourceTree,
    options: &MkfsOptions,
    sink: &mut dyn LebSink,
    progress: &dyn Progress,
) -> Result<MkfsReport, MkfsError> {
    let layout = Layout::for_image(&options.layout)?;
    let plan = Plan::new(tree, options, &layout, progress)?;
    let estimate = preflight::estimate(&plan, &layout, options);
    if estimate.fit() == Fit::Never {
        let (available, needed) = (layout.max_leb_cnt, estimate.volume_lebs_least);
        return Err(MkfsError::TooFewLebs { available, needed });
    }
    let mut area = MainArea::new(sink, &layout, plan.first_sqnum());
    let data = content::write(&plan, options, &mut area, progress)?;
    progress.phase(Phase::Index);
    let index = index::write(&mut area, &layout, data.leaves)?;
    progress.phase(Phase::Finish);
    let image = finish::Image { plan: &plan, options, layout: &layout, index };
    finish::write(&image, area, data.statistics)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod verify;
