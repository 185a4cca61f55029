//! Works without an index: scans every node of the volume and uses the newest of each key.
//!
//! Deleted data reappears if neither a deletion node nor a truncation node is left.

use crate::overlay::Overlay;
use crate::recovery;
use crate::replay::Journal;
use crate::report::Report;
use crate::report::leb_start;
use crate::tnc::Tnc;
use crate::volume::Volume;
use eraseblock_base::{Leb, Severity};
use eraseblock_ubifs_format::constants::SQNUM_LIMIT;
use std::collections::HashMap;
use std::sync::Arc;

/// The result of scanning.
#[derive(Debug, Default)]
pub(crate) struct Rescued {
    pub(crate) overlay: Overlay,
    pub(crate) nodes: u64,
    pub(crate) sizes: HashMap<u32, u64>,
}

/// Scans the main area.
pub(crate) fn collect(volume: &Arc<Volume>) -> Rescued {
    let mut journal = Journal::default();
    let mut bytes = Vec::new();
    for number in volume.sb.main_first()..volume.main_end() {
        let leb = Leb::new(number);
        if let Err(error) = volume.read_leb(leb, &mut bytes) {
            let at = leb_start(number);
            volume.late.push(Severity::Error, at, "leb-unreadable", error.to_string());
            continue;
        }
        for (offset, node) in recovery::all_nodes(leb, &bytes, 0, volume.limits) {
            if node.header.sqnum < SQNUM_LIMIT {
                journal.take_any(leb, offset, &node);
            }
        }
    }
    let mut tnc = Tnc::new(Arc::clone(volume), None);
    let mut report = Report::salvaging();
    let outcome = journal.apply_and_fix(&mut tnc, &mut report);
    let message = format!(
        "{} nodes of {} LEBs looked at in place of the index: deleted files may be back",
        outcome.nodes,
        volume.main_end().saturating_sub(volume.sb.main_first())
    );
    let at = leb_start(volume.sb.main_first());
    volume.late.push(Severity::Warning, at, "main-area-scanned", message);
    Rescued { overlay: tnc.overlay, nodes: outcome.nodes, sizes: outcome.sizes }
}
