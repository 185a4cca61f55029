//! The findings of a check (layer 15).

use crate::report::{Report, leb_start};
use crate::rw::error::{self, Fault};
use crate::rw::tnc::Zbranch;
use crate::volume::Volume;
use eraseblock_base::{Code, Findings, Leb, Location, Severity};
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::{Key, KeyKind};
use eraseblock_vfs::Ino;
use std::collections::BTreeMap;

/// The collected breaches.
#[derive(Debug, Default)]
pub(super) struct Breaches {
    pub(super) findings: Findings,
    /// The inodes of findings, by position.
    pub(super) about: BTreeMap<usize, Ino>,
    /// Whether the volume was unmounted and is checked in that state.
    pub(super) is_clean: bool,
}

impl Breaches {
    /// Adds a breach of row `id` of the specification's section 21.
    pub(super) fn add(
        &mut self,
        at: Location,
        code: impl Into<Code>,
        id: &str,
        message: impl std::fmt::Display,
    ) {
        self.findings.error(at, code, format!("{message} ({id})"));
    }

    /// Adds a note about harmless remains of an earlier power cut.
    pub(super) fn note(
        &mut self,
        at: Location,
        code: impl Into<Code>,
        id: &str,
        message: impl std::fmt::Display,
    ) {
        self.findings.note(at, code, format!("{message} ({id})"));
    }

    /// Assigns the next finding to this inode.
    pub(super) fn next_is_about(&mut self, ino: u32) {
        self.about.insert(self.findings.iter().len(), ino.into());
    }

    /// Adds a breach of a leaf.
    pub(super) fn leaf(
        &mut self,
        branch: &Zbranch,
        code: impl Into<Code>,
        id: &str,
        message: impl std::fmt::Display,
    ) {
        self.next_is_about(branch.key.ino());
        let place = error::at(branch.leb, branch.offset);
        let message = message.to_string();
        let message = message.strip_prefix(&format!("{place}: ")).unwrap_or(&message);
        self.add(place, code, id, format!("{}: {message}", part_of_inode(branch.key)));
    }

    /// Adds something unreadable or invalid.
    pub(super) fn fault(&mut self, at: Location, code: impl Into<Code>, id: &str, fault: &Fault) {
        self.add(at, code, id, fault.describe());
    }

    /// Adds the problems found by a reader of an area, which break row `id` unless the reader says
    /// which; returns whether there were any.
    pub(super) fn take(&mut self, report: &Report, id: &str) -> bool {
        for (index, finding) in report.findings.iter().enumerate() {
            if finding.severity > Severity::Note {
                let id = report.rows.get(&index).copied().unwrap_or(id);
                self.add(finding.at, finding.code, id, &finding.message);
            }
        }
        report.findings.has_problems()
    }
}

/// Describes the part of its inode that a leaf holds.
fn part_of_inode(key: Key) -> String {
    let number = u64::from(key.value());
    match key.kind() {
        Some(KeyKind::Data) => {
            let start = number * u64::from(BLOCK_SIZE);
            format!("bytes {start} to {}", start + u64::from(BLOCK_SIZE))
        }
        Some(KeyKind::Inode) => "attributes".to_owned(),
        Some(KeyKind::Dent) => format!("an entry with hash {number:#x}"),
        Some(KeyKind::Xent) => format!("an extended attribute with hash {number:#x}"),
        None => key.to_string(),
    }
}

/// Reads a whole LEB; an unmapped one is empty.
pub(super) fn read_leb(
    volume: &Volume,
    leb: u32,
    bytes: &mut Vec<u8>,
    id: &str,
    breaches: &mut Breaches,
) -> bool {
    let number = Leb::new(leb);
    let read = match volume.is_mapped(number) {
        Ok(true) => volume.read_leb(number, bytes),
        Ok(false) => {
            bytes.clear();
            Ok(())
        }
        Err(error) => Err(error),
    };
    if let Err(error) = read {
        breaches.add(leb_start(leb), "leb-unreadable", id, error);
        return false;
    }
    true
}
