//! Repair of JFFS2: damaged nodes become padding, and nodes with higher versions say what follows from
//! that. There is no index.
//!
//! [`examine`] reads a file system and returns a [`FlashRepair`]. The modules, in the order of the work:
//! `model` (every node), `names` and `content` (what they say, put right), `blocks` (damaged places, and
//! the new nodes).
//!
//! # Invariants
//! 1. Versions go up only.
//! 2. A valid node is never changed, but for summaries of blocks that change.

mod blocks;
mod content;
mod model;
mod names;

use crate::compare::{self, Named};
use crate::error::RepairError;
use crate::flash::{Blocks, PatchedSource};
use crate::plan::{Plan, shown};
use crate::rules::Quarantined;
use crate::ubi::FlashRepair;
use eraseblock_base::{Finding, Findings, Location, Severity};
use eraseblock_jffs2::{Jffs2, OpenOptions, Source};
use eraseblock_vfs::{FileKind, FileSystem, Ino};
use model::Model;
use std::collections::{BTreeMap, BTreeSet};

/// What nothing here repairs.
const NOT_REPAIRED: [&str; 4] = ["data-corrupt", "acl-damaged", "unreadable", "program-failed"];

/// How often a file system is looked at again: what got its name back can be read only then.
const MOST_ROUNDS: u32 = 4;

/// For these, the medium is no JFFS2 that Linux would mount.
const REFUSED: [&str; 3] = ["mixed-byte-order", "unknown-node", "too-large"];

/// A JFFS2 as it is read, and what is planned.
pub(crate) struct Work<'a> {
    pub(crate) fs: &'a Jffs2,
    model: Model,
    /// The first path of each inode.
    pub(crate) paths: BTreeMap<Ino, Vec<u8>>,
    pub(crate) plan: Plan,
    pub(crate) quarantine: Vec<Quarantined>,
    /// New nodes in the order in which they are written.
    pub(crate) nodes: Vec<Vec<u8>>,
}

/// Reads a JFFS2, plans its repair, and verifies the result in memory. A consistent one gives an empty
/// plan.
///
/// # Errors
///
/// Fails if there is none, if it cannot be repaired, or if the repaired one would not be consistent or
/// would lose what the plan does not name.
pub fn examine(source: &Source, options: &OpenOptions) -> Result<FlashRepair, RepairError> {
    let (fs, findings) = Jffs2::open(source.clone(), options)?;
    let shape = fs.info().shape;
    let options = OpenOptions {
        start: Some(shape.start),
        erase_size: Some(shape.erase_size),
        order: Some(shape.order),
        empty: true,
    };
    let found = problems(&fs, findings);
    refuse(&found)?;
    let mut repair = make(source, &fs, &found)?;
    let mut round = 1;
    while !repair.plan.is_empty() {
        let patched = PatchedSource::of(source, shape.start, shape.erase_size, &repair.blocks)?;
        let (after, findings) = Jffs2::open(patched.clone(), &options)?;
        let found = problems(&after, findings);
        let more = make(&patched, &after, &found)?;
        if more.plan.is_empty() || round == MOST_ROUNDS {
            verify(found, &more.plan)?;
            let unnamed = compare::unnamed(&fs, &after, &Named::new(repair.plan.losses()));
            return if unnamed.is_empty() {
                Ok(repair)
            } else {
                Err(RepairError::UnnamedLoss(unnamed))
            };
        }
        repair.append(more);
        round += 1;
    }
    Ok(repair)
}

fn refuse(found: &[Finding]) -> Result<(), RepairError> {
    let is_refused = |one: &&Finding| REFUSED.contains(&one.code.name());
    match found.iter().find(is_refused) {
        Some(one) => Err(RepairError::Unsupported { at: one.at, what: one.message.clone() }),
        None => Ok(()),
    }
}

fn make(source: &Source, fs: &Jffs2, found: &[Finding]) -> Result<FlashRepair, RepairError> {
    let model = Model::read(source, &fs.info().shape)?;
    let is_whole = found.is_empty() && model.summaries.is_empty();
    if is_whole {
        let (plan, blocks, quarantine) = Default::default();
        return Ok(FlashRepair { plan, blocks, quarantine, left: Vec::new() });
    }
    let paths = paths(fs);
    let (plan, quarantine, nodes) = Default::default();
    let mut work = Work { fs, model, paths, plan, quarantine, nodes };
    let mut blocks = Blocks::new();
    // Names first: a reader cannot look at what has none, and what is damaged there is lost, too.
    names::restore(&mut work);
    if work.plan.is_empty() {
        blocks = blocks::without_damage(&mut work, source)?;
        content::repair(&mut work);
        names::repair(&mut work);
    }
    blocks::place(&work, source, &mut blocks)?;
    let left = found.iter().filter(|one| NOT_REPAIRED.contains(&one.code.name()));
    let left = left.cloned().collect();
    Ok(FlashRepair { plan: work.plan, blocks, quarantine: work.quarantine, left })
}

/// Nothing is wrong with the repaired file system but for what is not repaired, and nothing is left to do.
fn verify(found: Vec<Finding>, again: &Plan) -> Result<(), RepairError> {
    let mut left = Findings::new();
    for one in found.into_iter().filter(|one| !NOT_REPAIRED.contains(&one.code.name())) {
        left.push(one);
    }
    for action in again.actions() {
        left.error(action.at, "still-planned", action.why.clone());
    }
    if left.has_problems() { Err(RepairError::StillWrong(left)) } else { Ok(()) }
}

/// Reads everything; returns the problems.
fn problems(fs: &Jffs2, mut findings: Findings) -> Vec<Finding> {
    let mut buf = vec![0; 1 << 16];
    for (ino, path) in paths(fs) {
        match fs.attr(ino) {
            Err(error) => {
                let message = format!("{}: {error}", shown(&path));
                findings.error(Location::Inode(ino), "data-lost", message);
            }
            Ok(attr) => {
                let _ = fs.list_xattrs(ino);
                if attr.kind == FileKind::Regular {
                    read(fs, ino, attr.size, &mut buf, &mut findings);
                }
            }
        }
    }
    findings.append(fs.late_findings());
    let problems = findings.iter().filter(|one| one.severity > Severity::Note);
    problems.cloned().collect()
}

fn read(fs: &Jffs2, ino: Ino, size: u64, buf: &mut [u8], findings: &mut Findings) {
    let mut at = 0;
    while at < size {
        let len = usize::try_from(size - at).unwrap_or(usize::MAX).min(buf.len());
        if let Err(error) = fs.read(ino, at, &mut buf[..len]) {
            findings.error(Location::Inode(ino), "data-lost", error.to_string());
        }
        at += len as u64;
    }
}

/// Returns the first path of each inode that can be reached.
fn paths(fs: &Jffs2) -> BTreeMap<Ino, Vec<u8>> {
    let mut paths = BTreeMap::from([(fs.root(), Vec::new())]);
    let mut open = vec![fs.root()];
    let mut seen = BTreeSet::new();
    while let Some(dir) = open.pop() {
        if !seen.insert(dir) {
            continue;
        }
        let start = paths.get(&dir).cloned().unwrap_or_default();
        for entry in fs.entries(dir).unwrap_or_default() {
            if paths.contains_key(&entry.ino) {
                continue;
            }
            paths.insert(entry.ino, joined(&start, &entry.name));
            open.push(entry.ino);
        }
    }
    paths
}

/// Returns the path of a name in a directory.
fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
