//! What must hold between two operations, checked without writing (spec: ubifs-format 21;
//! ubifs-runtime 28).

use super::core::Core;
use super::error::{Step, at};
use super::flash::align8;
use super::lprops::Stats;
use super::tnc::Zbranch;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Findings, Location};
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, ROOT_INO, inode_flags};
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::{EntryKind, KeyKind};
use std::collections::BTreeMap;

/// What the index says about one inode.
#[derive(Debug, Default)]
struct Seen {
    node: Option<SeenInode>,
    names: u32,
    is_named_as_dir: bool,
    subdirs: u32,
    entry_bytes: u64,
    xattrs: u32,
    xattr_names: u32,
    /// Host of the attribute it holds.
    host: Option<u32>,
    /// Behind the last content byte.
    content_end: u64,
}

#[derive(Clone, Copy, Debug)]
struct SeenInode {
    nlink: u32,
    mode: u32,
    size: u64,
    flags: u32,
    xattr_cnt: u32,
    xattr_names: u32,
}

impl Core {
    /// Findings, one for each thing that does not hold.
    pub(super) fn check(&mut self) -> Step<Findings> {
        let mut findings = Findings::new();
        let mut live: BTreeMap<u32, u32> = BTreeMap::new();
        let branches = self.all_branches(&mut live)?;
        self.check_space(&live, &mut findings)?;
        self.check_contents(&branches, &mut findings)?;
        let is_settled = self.pages.len() == 0 && self.inodes.dirty().is_empty();
        if is_settled && !self.owes_nothing() {
            findings.error(Location::Whole, "promises-left", "space is promised for nothing");
        }
        Ok(findings)
    }

    /// Every leaf of the index; `live` gets the bytes of leaves and clean index nodes by LEB.
    fn all_branches(&mut self, live: &mut BTreeMap<u32, u32>) -> Step<Vec<Zbranch>> {
        let mut leaves = Vec::new();
        let Self { tnc, flash, .. } = self;
        tnc.walk(flash, &mut |level, branch| {
            if branch.leb != 0 {
                *live.entry(branch.leb).or_default() += align8(branch.len);
            }
            if level.is_none() {
                leaves.push(*branch);
            }
        })?;
        Ok(leaves)
    }

    /// Properties of LEBs against what is in them.
    fn check_space(&mut self, live: &BTreeMap<u32, u32>, findings: &mut Findings) -> Step<()> {
        self.lprops.load_all(&self.flash)?;
        let size = self.flash.leb_size;
        let mut bytes = Vec::new();
        for leb in self.flash.main_first..self.flash.leb_cnt {
            let lp = self.lprops.get(&self.flash, leb)?;
            let used = live.get(&leb).copied().unwrap_or(0);
            let stated = size.saturating_sub(lp.free).saturating_sub(lp.dirty);
            if stated != used || lp.free + lp.dirty > size {
                let message = format!(
                    "{used} bytes are in use, but {} are said to be free and {} dirty",
                    lp.free, lp.dirty
                );
                findings.error(at(leb, 0), "lprops-wrong", message);
            }
            if lp.free == 0 || self.gc.queued.iter().any(|(queued, _)| *queued == leb) {
                continue;
            }
            let written = self.heads.iter().find(|head| head.leb == leb);
            let from = written.map_or(size - lp.free, |head| head.offset);
            // A LEB without anything is erased before it is used.
            if from == 0 {
                continue;
            }
            bytes.resize((size - from) as usize, 0);
            self.flash.read(leb, from, &mut bytes)?;
            if !is_erased(&bytes) {
                findings.error(at(leb, from), "free-not-erased", "free space is not erased");
            }
        }
        let recounted: Stats = self.lprops.recount(&self.flash)?;
        if recounted != self.lprops.stats {
            let message = format!("sums are {:?}, expected {recounted:?}", self.lprops.stats);
            findings.error(Location::Whole, "sums-wrong", message);
        }
        Ok(())
    }

    /// Inodes, entries and contents against each other.
    fn check_contents(&mut self, branches: &[Zbranch], findings: &mut Findings) -> Step<()> {
        let mut seen: BTreeMap<u32, Seen> = BTreeMap::new();
        let mut buf = Vec::new();
        for pair in branches.windows(2) {
            let [one, two] = pair else { continue };
            if one.key > two.key || (one.key == two.key && !one.key.is_hashed()) {
                findings.error(at(two.leb, two.offset), "keys-disordered", two.key.to_string());
            }
        }
        for branch in branches {
            let node = match self.leaf(branch, &mut buf) {
                Ok(node) => node,
                Err(fault) => {
                    let place = at(branch.leb, branch.offset);
                    findings.error(place, "leaf-lost", fault.describe());
                    continue;
                }
            };
            note(&mut seen, branch, &node)?;
        }
        for (ino, inode) in &seen {
            if let Some(problem) = self.problem(*ino, inode, &seen) {
                findings.error(Location::Inode((*ino).into()), "inode-wrong", problem);
            }
        }
        Ok(())
    }

    /// What is wrong with an inode.
    fn problem(&self, ino: u32, seen: &Seen, all: &BTreeMap<u32, Seen>) -> Option<String> {
        let Some(node) = seen.node else {
            return Some("there are entries or content, but no inode".into());
        };
        if node.flags & inode_flags::XATTR != 0 {
            let host = seen.host.and_then(|host| all.get(&host)).and_then(|host| host.node);
            return host.is_none().then(|| "holds an attribute of nobody".into());
        }
        let is_dir = node.mode & file_type::MASK == file_type::DIRECTORY;
        let names = seen.names + u32::from(ino == ROOT_INO);
        let expected = match (is_dir, names) {
            (_, 0) => 0,
            (true, _) => 2 + seen.subdirs,
            (false, names) => names,
        };
        if node.nlink != expected {
            return Some(format!("link count {}, expected {expected}", node.nlink));
        }
        if names == 0 && !self.orphans.contains(ino) {
            return Some("has no name and is no orphan".into());
        }
        if is_dir && names > 1 {
            return Some("a directory with several names".into());
        }
        if names > 0 && ino != ROOT_INO && seen.is_named_as_dir != is_dir {
            return Some("its entry says another type".into());
        }
        if is_dir && names > 0 && node.size != 160 + seen.entry_bytes {
            return Some(format!("size {}, expected {}", node.size, 160 + seen.entry_bytes));
        }
        if (node.xattr_cnt, node.xattr_names) != (seen.xattrs, seen.xattr_names) {
            return Some(format!(
                "{} attributes with {} name bytes, expected {} with {}",
                node.xattr_cnt, node.xattr_names, seen.xattrs, seen.xattr_names
            ));
        }
        let known = self.inodes.get(ino).map_or(node.size, |inode| inode.size.max(node.size));
        (seen.content_end > known.next_multiple_of(BLOCK_SIZE.into()))
            .then(|| format!("content up to {}, but {known} bytes long", seen.content_end))
    }
}

/// Adds what a leaf says.
fn note(seen: &mut BTreeMap<u32, Seen>, branch: &Zbranch, node: &Node<'_>) -> Step<()> {
    let ino = branch.key.ino();
    match branch.key.kind() {
        Some(KeyKind::Inode) => {
            let inode = node.inode()?;
            seen.entry(ino).or_default().node = Some(SeenInode {
                nlink: inode.nlink,
                mode: inode.mode,
                size: inode.size,
                flags: inode.flags,
                xattr_cnt: inode.xattr_cnt,
                xattr_names: inode.xattr_names,
            });
        }
        Some(KeyKind::Data) => {
            let data = node.data()?;
            let end = u64::from(branch.key.value()) * u64::from(BLOCK_SIZE) + u64::from(data.size);
            let inode = seen.entry(ino).or_default();
            inode.content_end = inode.content_end.max(end);
        }
        Some(KeyKind::Dent) => {
            let dent = node.dent()?;
            let is_dir = dent.kind == EntryKind::Directory;
            let dir = seen.entry(ino).or_default();
            dir.subdirs += u32::from(is_dir);
            dir.entry_bytes += u64::from(super::journal::Group::dent_len(dent.name));
            let target = seen.entry(dent.ino).or_default();
            target.names += 1;
            target.is_named_as_dir |= is_dir;
        }
        Some(KeyKind::Xent) => {
            let dent = node.dent()?;
            let host = seen.entry(ino).or_default();
            host.xattrs += 1;
            host.xattr_names += dent.name.len() as u32;
            seen.entry(dent.ino).or_default().host = Some(ino);
        }
        None => {}
    }
    Ok(())
}
