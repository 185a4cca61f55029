//! Inodes and directories (spec: readonly-formats B.4).
//!
//! # Invariants
//! 1. The entries of a directory come after it, and an inode belongs to one directory at most; what
//!    an image says otherwise is hidden with a finding.

use crate::codes;
use crate::error::AxfsError;
use crate::superblock::{RegionId, Superblock};
use crate::table::{Loader, Table};
use eraseblock_base::{Findings, Location};
use eraseblock_vfs::FileKind;
use std::collections::BTreeSet;
use std::ops::Range;

/// Most bytes of a name.
pub(crate) const NAME_MAX: usize = 255;

/// The tables of inodes.
#[derive(Debug)]
pub(crate) struct Inodes {
    count: u32,
    strings: Vec<u8>,
    sizes: Table,
    names: Table,
    entries: Table,
    mode_indexes: Table,
    arrays: Table,
    modes: Table,
    uids: Table,
    gids: Table,
    /// Directories without readable entries.
    broken: BTreeSet<u32>,
    /// Directories whose names are not in order.
    unsorted: BTreeSet<u32>,
    /// Entries whose names no file can have.
    hidden: BTreeSet<u32>,
}

/// A directory has no entries that can be shown, as a finding says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Damaged;

/// Owner and mode of an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) kind: FileKind,
    pub(crate) permissions: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Inodes {
    /// Reads all tables and checks every directory.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        superblock: &Superblock,
        findings: &mut Findings,
    ) -> Result<Self, AxfsError> {
        let (count, least) = (superblock.inodes, u64::from(superblock.inodes));
        let mut inodes = Self {
            count,
            strings: loader.bytes(RegionId::Strings)?.1,
            sizes: loader.table(RegionId::FileSize, least)?,
            names: loader.table(RegionId::NameOffset, least)?,
            entries: loader.table(RegionId::NumEntries, least)?,
            mode_indexes: loader.table(RegionId::ModeIndex, least)?,
            arrays: loader.table(RegionId::ArrayIndex, least)?,
            modes: loader.table(RegionId::Modes, 1)?,
            uids: loader.table(RegionId::Uids, 1)?,
            gids: loader.table(RegionId::Gids, 1)?,
            broken: BTreeSet::new(),
            unsorted: BTreeSet::new(),
            hidden: BTreeSet::new(),
        };
        inodes.check(findings);
        Ok(inodes)
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Returns mode and owner, or `None` if the tables have none or the mode has no type.
    pub(crate) fn mode(&self, inode: u32) -> Option<Mode> {
        let index = self.mode_indexes.get(inode.into())?;
        let mode = u32::try_from(self.modes.get(index)?).ok()?;
        Some(Mode {
            kind: FileKind::from_mode(mode)?,
            permissions: mode & 0o7777,
            uid: u32::try_from(self.uids.get(index)?).ok()?,
            gid: u32::try_from(self.gids.get(index)?).ok()?,
        })
    }

    pub(crate) fn size(&self, inode: u32) -> u64 {
        self.sizes.get(inode.into()).unwrap_or(0)
    }

    /// Returns the number of the first page of a file.
    pub(crate) fn first_page(&self, inode: u32) -> u64 {
        self.arrays.get(inode.into()).unwrap_or(0)
    }

    /// Returns the name, or `None` if there is none of 1 to 255 bytes that a file can have.
    fn name(&self, inode: u32) -> Option<&[u8]> {
        let start = usize::try_from(self.names.get(inode.into())?).ok()?;
        let bytes = self.strings.get(start..)?;
        let len = bytes.iter().take(NAME_MAX + 1).position(|byte| *byte == 0)?;
        let name = &bytes[..len];
        let is_name = !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/');
        is_name.then_some(name)
    }

    fn is_directory(&self, inode: u32) -> bool {
        self.mode(inode).is_some_and(|mode| mode.kind == FileKind::Directory)
    }

    /// Returns the inodes that a directory says are its entries, if they come after it.
    fn stated(&self, dir: u32) -> Option<Range<u32>> {
        let count = self.entries.get(dir.into())?;
        if count == 0 {
            return Some(0..0);
        }
        let start = self.arrays.get(dir.into())?;
        let end = start.checked_add(count)?;
        let range = u32::try_from(start).ok()?..u32::try_from(end).ok()?;
        (range.start > dir && range.end <= self.count).then_some(range)
    }

    /// Returns the entries of a directory that files can have, in the order of the image; `None` if
    /// the directory is damaged.
    pub(crate) fn list(&self, dir: u32) -> Option<impl Iterator<Item = (u32, &[u8])>> {
        let range = self.stated(dir).filter(|_| !self.broken.contains(&dir))?;
        let seen = range.filter(|inode| !self.hidden.contains(inode));
        Some(seen.filter_map(|inode| Some((inode, self.name(inode)?))))
    }

    /// Returns the inode of a name in a directory.
    pub(crate) fn find(&self, dir: u32, name: &[u8]) -> Result<Option<u32>, Damaged> {
        let mut range = self.stated(dir).filter(|_| !self.broken.contains(&dir)).ok_or(Damaged)?;
        if self.unsorted.contains(&dir) {
            let mut entries = self.list(dir).ok_or(Damaged)?;
            return Ok(entries.find(|entry| entry.1 == name).map(|entry| entry.0));
        }
        while !range.is_empty() {
            let middle = range.start + (range.end - range.start) / 2;
            match self.name(middle).ok_or(Damaged)?.cmp(name) {
                std::cmp::Ordering::Equal => return Ok(Some(middle)),
                std::cmp::Ordering::Less => range.start = middle + 1,
                std::cmp::Ordering::Greater => range.end = middle,
            }
        }
        Ok(None)
    }

    fn check(&mut self, findings: &mut Findings) {
        let mut named = vec![false; self.count as usize];
        named[0] = true;
        for dir in 0..self.count {
            if !self.is_directory(dir) {
                continue;
            }
            let at = Location::Inode(u64::from(dir) + 1);
            let range = self.stated(dir).filter(|range| {
                !named[range.start as usize..range.end as usize].iter().any(|is| *is)
            });
            let Some(range) = range else {
                self.broken.insert(dir);
                let (start, count) = (self.first_page(dir), self.entries.get(dir.into()));
                let message = format!(
                    "{} entries from inode {}, expected some that come after the directory and \
                     are in no other",
                    count.unwrap_or(0),
                    start.saturating_add(1)
                );
                findings.error(at, codes::DIRECTORY, message);
                continue;
            };
            named[range.start as usize..range.end as usize].fill(true);
            self.check_names(dir, range, findings);
        }
        let lost = named.iter().filter(|is_named| !**is_named).count();
        if lost > 0 {
            let message = format!("{lost} of {} inodes are in no directory", self.count);
            findings.error(Location::Whole, codes::UNREACHABLE, message);
        }
    }

    /// Hides names that cannot be, and all but the first of equal ones.
    fn check_names(&mut self, dir: u32, range: Range<u32>, findings: &mut Findings) {
        let all = || range.clone().map(|inode| (inode, self.name(inode)));
        if all().is_sorted_by(|one, two| one.1.is_some() && one.1 < two.1)
            && all().all(|entry| entry.1.is_some())
        {
            return;
        }
        let mut names = BTreeSet::new();
        let mut is_bad = |name: Option<_>| name.is_none_or(|name| !names.insert(name));
        let bad: Vec<u32> = all().filter(|entry| is_bad(entry.1)).map(|entry| entry.0).collect();
        let at = Location::Inode(u64::from(dir) + 1);
        for inode in &bad {
            let message = format!(
                "inode {} has a name that is twice in the directory, empty, too long, `.`, `..` \
                 or contains `/`; it is left out",
                u64::from(*inode) + 1
            );
            findings.error(at, codes::NAME, message);
        }
        if bad.is_empty() {
            findings.warn(at, codes::ORDER, "the names are not in the order of their bytes");
        }
        self.unsorted.insert(dir);
        self.hidden.extend(bad);
    }
}
