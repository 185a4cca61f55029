//! Commits of the past, versions of files, deleted names.

use super::listing::Moment;
use crate::text;
use eraseblock_history::{CommitState, Deleted, Seen, Version};
use eraseblock_ubifs_format::Time;
use serde::Serialize;

/// A commit, and how much of it is left.
#[derive(Debug, Serialize)]
pub struct CommitReport {
    /// Its number.
    pub number: u64,
    /// Sequence number of its master node.
    pub sqnum: u64,
    /// Leaves that its index refers to.
    pub leaves: u64,
    /// Those of them that are gone.
    pub gone: u64,
    /// Index nodes that are gone.
    pub index_nodes_gone: u64,
    /// Whether nothing of it is left.
    pub root_gone: bool,
    /// Files, as far as their inodes are there.
    pub files: u64,
    /// The earliest time in inodes written since the commit before.
    pub earliest: Option<Moment>,
    /// The latest.
    pub latest: Option<Moment>,
}

impl From<Time> for Moment {
    fn from(time: Time) -> Self {
        Self { seconds: time.seconds, nanoseconds: time.nanoseconds }
    }
}

impl CommitReport {
    /// Describes a commit.
    pub fn of(state: &CommitState) -> Self {
        Self {
            number: state.commit.number,
            sqnum: state.commit.sqnum,
            leaves: state.leaves,
            gone: state.gone,
            index_nodes_gone: state.index_gone,
            root_gone: state.commit.root_sqnum.is_none(),
            files: state.files,
            earliest: state.times.map(|(first, _)| first.into()),
            latest: state.times.map(|(_, last)| last.into()),
        }
    }
}

/// A version of a file.
#[derive(Debug, Serialize)]
pub struct VersionReport {
    /// Inode number.
    pub ino: u32,
    /// How sure it is.
    pub class: &'static str,
    /// Sequence number of its inode node.
    pub inode_sqnum: Option<u64>,
    /// The highest sequence number of its nodes.
    pub newest_sqnum: u64,
    /// The first commit that has it.
    pub first_commit: Option<u64>,
    /// The last commit that has it.
    pub last_commit: Option<u64>,
    /// Whether a mount sees it.
    pub is_present: bool,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Type and permissions in octal.
    pub mode: Option<String>,
    /// Names that refer to the inode.
    pub nlink: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last access.
    pub atime: Option<Moment>,
    /// Last change of content.
    pub mtime: Option<Moment>,
    /// Last change of the inode.
    pub ctime: Option<Moment>,
    /// Blocks that belong to it.
    pub blocks: u64,
    /// Those of them that are gone.
    pub blocks_missing: u64,
    /// Its paths, with bytes that are not text as escapes.
    pub paths: Vec<String>,
    /// Whether the paths are those of another version.
    pub is_named_by_another: bool,
}

impl VersionReport {
    /// Describes a version.
    pub fn of(version: &Version) -> Self {
        let (first, last) = match version.seen {
            Seen::Now { since } => (since, None),
            Seen::Commits { first, last } => (Some(first), Some(last)),
            Seen::Nodes => (None, None),
        };
        let known = version.attributes;
        Self {
            ino: version.ino,
            class: version.class.name(),
            inode_sqnum: version.inode_sqnum,
            newest_sqnum: version.newest,
            first_commit: first,
            last_commit: last,
            is_present: matches!(version.seen, Seen::Now { .. }),
            size: known.map(|known| known.size),
            mode: known.map(|known| format!("{:06o}", known.mode)),
            nlink: known.map(|known| known.nlink),
            uid: known.map(|known| known.uid),
            gid: known.map(|known| known.gid),
            atime: known.map(|known| known.atime.into()),
            mtime: known.map(|known| known.mtime.into()),
            ctime: known.map(|known| known.ctime.into()),
            blocks: version.blocks,
            blocks_missing: version.missing,
            paths: version.paths.iter().map(|path| text::name(path)).collect(),
            is_named_by_another: version.is_named_by_another,
        }
    }
}

/// A name that a mount does not see any more.
#[derive(Debug, Serialize)]
pub struct DeletedReport {
    /// The path, with bytes that are not text as escapes.
    pub path: String,
    /// Inode number.
    pub ino: u32,
    /// How sure it is.
    pub class: &'static str,
    /// The last commit that has it.
    pub last_commit: Option<u64>,
    /// Sequence number of the node that removed it.
    pub removed_by_sqnum: Option<u64>,
    /// Whether the inode has other names now.
    pub has_other_names: bool,
}

impl DeletedReport {
    /// Describes a name.
    pub fn of(it: &Deleted) -> Self {
        Self {
            path: text::name(&it.path),
            ino: it.ino,
            class: it.class.name(),
            last_commit: it.last_commit,
            removed_by_sqnum: it.removed_by,
            has_other_names: it.is_elsewhere,
        }
    }
}
