//! Removes orphans after an unclean stop (spec: ubifs-runtime 18.6, 18.8; ubifs-format 15).

use crate::error::UbifsError;
use crate::recovery;
use crate::report::{Report, leb_start};
use crate::tnc::Tnc;
use crate::volume::Volume;
use eraseblock_base::Leb;
use eraseblock_ubifs_format::Key;

/// The result of removing orphans.
#[derive(Debug, Default)]
pub(crate) struct Killed {
    pub(crate) inodes: u64,
    /// Their xattrs.
    pub(crate) attributes: u64,
}

/// Removes the listed inodes whose link count is 0.
pub(crate) fn kill(tnc: &mut Tnc, report: &mut Report) -> Result<Killed, UbifsError> {
    let volume = std::sync::Arc::clone(&tnc.volume);
    let mut killed = Killed::default();
    for ino in read(&volume, report)?.inos {
        if is_unlinked(tnc, ino) {
            killed.attributes += tnc.remove_inode(ino).len() as u64;
            killed.inodes += 1;
        }
    }
    Ok(killed)
}

/// Reads the orphan area.
pub(crate) fn read(volume: &Volume, report: &mut Report) -> Result<Listed, UbifsError> {
    let mut reader = Listed::default();
    let mut bytes = Vec::new();
    for number in volume.sb.orph_first()..volume.sb.main_first().min(volume.main_end()) {
        if let Err(error) = volume.read_leb(Leb::new(number), &mut bytes) {
            report.refuse_read(leb_start(number), "orphans-unreadable", error)?;
            continue;
        }
        if !reader.leb(volume, Leb::new(number), &bytes, report)? {
            break;
        }
    }
    Ok(reader)
}

/// The content of the orphan area.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// Commit of the last node.
    pub(crate) cmt_no: u64,
    /// Whether the last node was the last of its commit.
    last_flagged: bool,
    /// The inodes.
    pub(crate) inos: Vec<u32>,
}

impl Listed {
    /// Processes one LEB; returns whether the next one may count, too.
    fn leb(
        &mut self,
        volume: &Volume,
        leb: Leb,
        bytes: &[u8],
        report: &mut Report,
    ) -> Result<bool, UbifsError> {
        let nodes = recovery::recover(volume, leb, bytes, 0, None, report)?;
        for (index, (_, node)) in nodes.iter().enumerate() {
            let orphan = match node.orphan() {
                Ok(orphan) => orphan,
                Err(error) => {
                    report.refuse_node("orphans-corrupt", error)?;
                    continue;
                }
            };
            if orphan.cmt_no < self.cmt_no && self.last_flagged {
                if index != 0 {
                    let message = "an orphan node of an older commit after a newer one";
                    report.refuse(node.at, "orphans-corrupt", message)?;
                }
                return Ok(false);
            }
            self.cmt_no = orphan.cmt_no;
            self.last_flagged = orphan.is_last;
            self.inos.extend(orphan.inos.iter().filter_map(|ino| u32::try_from(*ino).ok()));
        }
        Ok(true)
    }
}

/// Returns whether an inode has no names, or was erased by a mount that was cut before its commit.
fn is_unlinked(tnc: &Tnc, ino: u32) -> bool {
    let Some(branch) = tnc.find(Key::inode(ino)) else { return false };
    if matches!(tnc.volume.is_mapped(branch.leb), Ok(false)) {
        return true;
    }
    let mut buf = Vec::new();
    let node = tnc.leaf(&branch, &mut buf);
    node.ok().and_then(|node| node.inode().ok().map(|inode| inode.nlink)) == Some(0)
}
