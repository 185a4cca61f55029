//! Commits of the past. Each commit writes a master node, which stays in its LEB until that is full, and
//! names the root of an index, whose nodes stay until their LEBs are used again.
//!
//! # Invariants
//! 1. An index node refers to what was there before it was written. So a node below the root of a past
//!    commit with a higher sequence number than the root's was written later, and counts as lost.
//! 2. Nothing is searched for in place of what is lost: a newer version would be found.

use crate::codes;
use crate::error::UbifsError;
use crate::index::Index;
use crate::live::Live;
use crate::master;
use crate::mount::Ubifs;
use crate::report::Report;
use crate::sb;
use crate::tnc::Tnc;
use crate::volume::Volume;
use eraseblock_base::{Findings, Leb, Location};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::key::VALUE_MASK;
use eraseblock_ubifs_format::{Branch, Key, Master};
use eraseblock_vfs::FsError;
use std::sync::Arc;

/// A commit whose master node is still there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Its number.
    pub number: u64,
    /// Sequence number of its newest master node: all of the commit is older.
    pub sqnum: u64,
    /// Where that master node is.
    pub at: Location,
    /// The highest inode number that was ever used.
    pub highest_ino: u64,
    /// Where the root of its index is.
    pub root: (Leb, u32),
    /// Sequence number of the root, or `None` if it is gone: then nothing of the commit can be read.
    pub root_sqnum: Option<u64>,
}

impl Ubifs {
    /// Returns the commits whose master nodes are there, the oldest first. The last one is what a mount
    /// begins with, before it applies the journal.
    ///
    /// # Errors
    ///
    /// Fails if the device fails, or if there is no superblock.
    pub fn commits(device: Arc<dyn LebDevice>) -> Result<Vec<Commit>, UbifsError> {
        let volume = volume(device)?;
        Ok(masters(&volume).into_iter().map(|(at, master)| commit(&volume, at, &master)).collect())
    }

    /// Opens the file system as the commit `number` left it. What is lost of it is an error of the reads
    /// that need it, and a finding.
    ///
    /// # Errors
    ///
    /// Fails if there is no master node of the commit, or if the root of its index is gone.
    pub fn open_commit(
        device: Arc<dyn LebDevice>,
        number: u64,
    ) -> Result<(Self, Findings), UbifsError> {
        let now = volume(device)?;
        let masters = masters(&now);
        let Some((at, master)) = masters.iter().find(|(_, master)| master.cmt_no == number) else {
            let known = match (masters.first(), masters.last()) {
                (Some((_, first)), Some((_, last))) => {
                    format!("those of commits {} to {}", first.cmt_no, last.cmt_no)
                }
                _ => "none".to_owned(),
            };
            let message = format!("no master node of commit {number}, found {known}");
            let (at, code) = (Location::Whole, codes::COMMIT_GONE);
            return Err(UbifsError::Refused { at, code, message });
        };
        let Some(root_sqnum) = commit(&now, *at, master).root_sqnum else {
            let message = format!("the index of commit {number} is gone");
            return Err(UbifsError::Refused { at: *at, code: codes::COMMIT_GONE, message });
        };
        let volume = Arc::new(now.before(root_sqnum + 1));
        let mut tnc = Tnc::new(Arc::clone(&volume), Some(master.root()));
        tnc.index.survey();
        let gone = tnc.index.gone();
        let mut report = Report::salvaging();
        if gone > 0 {
            let message = format!("{gone} index nodes of commit {number} are gone");
            report.findings.error(*at, codes::COMMIT_IN_PARTS, message);
        }
        let fs = Self::new(tnc, Some(master.clone()));
        fs.check_root_directory(&mut report)?;
        report.findings.append(volume.late.snapshot());
        Ok((fs, report.findings))
    }

    /// Fills `buf` with content of an inode from `offset` on, even if the inode is missing or says
    /// otherwise: blocks that are not there are zeros.
    ///
    /// # Errors
    ///
    /// Fails if a block that is there cannot be read.
    pub fn read_range(&self, ino: u32, offset: u64, buf: &mut [u8]) -> Result<(), FsError> {
        self.read_content(ino, offset, buf)
    }

    /// Returns how many index nodes of a past commit are gone, with all below them.
    pub fn index_nodes_gone(&self) -> u64 {
        self.tnc.index.gone()
    }

    /// Returns whether no index node is gone that may have referred to an inode or to its content.
    pub fn knows_all_of(&self, ino: u32) -> bool {
        !self.tnc.is_lost(Key::inode(ino), Key::data(ino, VALUE_MASK))
    }

    /// Opens what these leaves are, inodes and their content, and nothing else: a version of a file that
    /// no commit holds, or whose nodes were moved since.
    ///
    /// # Errors
    ///
    /// Fails if the device fails, or if there is no superblock.
    pub fn open_leaves(device: Arc<dyn LebDevice>, leaves: &[Live]) -> Result<Self, UbifsError> {
        let mut tnc = Tnc::new(Arc::new(volume(device)?), None);
        for leaf in leaves.iter().filter(|leaf| !leaf.key.is_hashed()) {
            let Live { key, leb, offset, len, .. } = *leaf;
            tnc.add(Branch { key, leb, offset, len });
        }
        Ok(Self::new(tnc, None))
    }
}

fn volume(device: Arc<dyn LebDevice>) -> Result<Volume, UbifsError> {
    let mut report = Report::salvaging();
    let found = sb::load(device, &mut report)?;
    Ok(Volume::new(found.device, found.sb))
}

/// Returns the newest master node of each commit, the oldest commit first.
fn masters(volume: &Volume) -> Vec<(Location, Master)> {
    let mut all = master::all(volume);
    all.sort_by_key(|(_, master)| (master.cmt_no, std::cmp::Reverse(master.sqnum)));
    all.dedup_by_key(|(_, master)| master.cmt_no);
    all
}

fn commit(volume: &Volume, at: Location, master: &Master) -> Commit {
    let before = Arc::new(volume.before(master.sqnum));
    let root = Index::new(before, Some(master.root())).check_root();
    Commit {
        number: master.cmt_no,
        sqnum: master.sqnum,
        at,
        highest_ino: master.highest_inum,
        root: (Leb::new(master.root_lnum), master.root_offs),
        root_sqnum: root.ok(),
    }
}
