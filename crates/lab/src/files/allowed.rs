//! Decides whether a cut may leave a tree.

use super::history::{History, Version};
use super::stack::{Order, Rules};
use super::tree::{Inode, Tree, read_content};
use super::words;
use crate::powercut::Broken;
use eraseblock_vfs::{Attr, FileKind, FileSystem, Ino};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The states allowed after a cut.
#[derive(Clone, Debug)]
pub(crate) struct Allowed {
    pub(crate) history: History,
}

/// How a tree is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    /// Whether cells may change while they are read: pending data may be unreadable.
    pub(crate) unstable: bool,
    /// Whether the judge itself has changed the times of the root.
    pub(crate) skip_root_times: bool,
}

/// Size of the unit of data that survives or not, in bytes.
const BLOCK: usize = 4096;

impl Allowed {
    /// Refuses a tree that does not result from any permitted selection of the operations.
    pub(crate) fn permits(&self, seen: &Tree, rules: &Rules, look: Look) -> Result<(), Broken> {
        seen.check_links(&rules.model).map_err(|message| ("links", message))?;
        let last = self.history.last();
        let mut nearest: Option<Broken> = None;
        for point in (self.history.names_floor..=last).rev() {
            for (tree, first) in self.trees_at(point, rules) {
                let pairs = match seen.match_names(tree.as_ref()) {
                    Ok(pairs) => pairs,
                    Err(message) => {
                        nearest = nearest.or(Some(("names", message)));
                        continue;
                    }
                };
                let range = match rules.order {
                    Order::Names => 0..=last,
                    Order::Total | Order::Returned => first..=last.min(first + 1),
                };
                match self.inodes(seen, &pairs, &range, rules, look) {
                    Ok(()) => return Ok(()),
                    Err(broken) if nearest.as_ref().is_none_or(|near| near.0 == "names") => {
                        nearest = Some(broken);
                    }
                    Err(_) => {}
                }
            }
        }
        Err(nearest.unwrap_or(("names", "no version to compare with".into())))
    }

    /// Returns the names allowed if the operations up to `point` are done: their result, and, if a
    /// rename consists of two steps, that of the first step; each with the version allowed for the
    /// rest.
    fn trees_at(&self, point: usize, rules: &Rules) -> Vec<(Cow<'_, Tree>, usize)> {
        let version = &self.history.versions[point];
        let mut trees = vec![(Cow::Borrowed(&version.tree), point)];
        if let (true, Some(from), Some(before)) =
            (rules.rename_leaves_both, &version.renamed, point.checked_sub(1))
        {
            let old = &self.history.versions[before].tree;
            trees.push((Cow::Owned(version.tree.with_names_of(old, from)), before));
        }
        trees
    }

    fn inodes(
        &self,
        seen: &Tree,
        pairs: &BTreeMap<Ino, Ino>,
        range: &RangeInclusive<usize>,
        rules: &Rules,
        look: Look,
    ) -> Result<(), Broken> {
        for (ino, model_ino) in pairs {
            let Some(inode) = seen.inodes.get(ino) else { continue };
            let floor = self.history.inode_floors.get(model_ino).copied().unwrap_or(0);
            let first = floor.max(*range.start());
            let versions = &self.history.versions[first..=*range.end()];
            let attr_floor = self.history.attr_floors.get(model_ino).copied().unwrap_or(0);
            let versions = (versions, attr_floor.saturating_sub(first));
            let times = !(look.skip_root_times && *ino == seen.root);
            check_inode(inode, *model_ino, versions, rules, times, look)
                .map_err(|(rule, message)| (rule, format!("inode {ino}: {message}")))?;
        }
        Ok(())
    }
}

type Versions = [std::sync::Arc<Version>];

/// Checks an inode against versions; those before a position no longer count for its attributes.
fn check_inode(
    inode: &Inode,
    ino: Ino,
    (versions, attrs_from): (&Versions, usize),
    rules: &Rules,
    times: bool,
    look: Look,
) -> Result<(), Broken> {
    // Most inodes are as in the newest version, which is always allowed.
    if versions.last().is_some_and(|newest| is_as_in(inode, ino, newest, rules, times)) {
        return Ok(());
    }
    let attrs: Vec<(&Version, Attr)> = versions
        .iter()
        .filter_map(|version| version.model.attr(ino).ok().map(|attr| (version.as_ref(), attr)))
        .collect();
    let is_old = |version: &&std::sync::Arc<Version>| version.model.attr(ino).is_ok();
    let old = versions.iter().take(attrs_from).filter(is_old).count();
    if !attrs[old..].iter().any(|(_, attr)| same_attr(&inode.attr, attr, rules, times)) {
        let newest = attrs.last().map(|(_, attr)| words::attr(attr));
        let newest = newest.unwrap_or_else(|| "no such inode".to_owned());
        let message = format!("{}; in the newest version {newest}", words::attr(&inode.attr));
        return Err(("attributes", message));
    }
    if inode.attr.kind != FileKind::Regular {
        return Ok(());
    }
    check_size(inode.attr.size, &attrs, rules)?;
    let pending = attrs.len() > 1;
    match &inode.content {
        Ok(bytes) => check_content(bytes, ino, &attrs, rules),
        Err(_) if look.unstable && pending => Ok(()),
        Err(message) => Err(("unreadable", message.clone())),
    }
}

/// Returns whether nothing that is checked differs from a version.
fn is_as_in(inode: &Inode, ino: Ino, version: &Version, rules: &Rules, times: bool) -> bool {
    let Ok(attr) = version.model.attr(ino) else { return false };
    let has_content = |content: &[u8]| inode.content.as_deref().is_ok_and(|own| own == content);
    same_attr(&inode.attr, &attr, rules, times)
        && (inode.attr.kind != FileKind::Regular
            || inode.attr.size == attr.size
                && read_content(&version.model, ino, attr.size)
                    .is_ok_and(|content| has_content(&content)))
}

fn same_attr(seen: &Attr, model: &Attr, rules: &Rules, times: bool) -> bool {
    let compare = rules.compare;
    let owner = |attr: &Attr| (attr.permissions, attr.uid, attr.gid);
    owner(seen) == owner(model)
        && (!compare.flags || seen.flags == model.flags)
        && (!times || !compare.times || (seen.mtime, seen.atime) == (model.mtime, model.atime))
        && (!times || !compare.ctime || seen.ctime == model.ctime)
}

/// Checks that a size is that of some version, or the end of a piece of data between two of them.
fn check_size(size: u64, attrs: &[(&Version, Attr)], rules: &Rules) -> Result<(), Broken> {
    let sizes = || attrs.iter().map(|(_, attr)| attr.size);
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    let end_of_piece = match rules.order {
        Order::Names => size.is_multiple_of(BLOCK as u64),
        Order::Total | Order::Returned => true,
    };
    if sizes().any(|other| other == size) || (end_of_piece && least < size && size < most) {
        return Ok(());
    }
    let sizes: Vec<String> = sizes().map(|size| size.to_string()).collect();
    Err(("size", format!("{size} bytes; it has had {}", sizes.join(", "))))
}

fn check_content(
    bytes: &[u8],
    ino: Ino,
    attrs: &[(&Version, Attr)],
    rules: &Rules,
) -> Result<(), Broken> {
    let mut open: Vec<usize> = (0..bytes.len().div_ceil(BLOCK)).collect();
    let mut contents = Vec::new();
    for (version, attr) in attrs.iter().rev() {
        if open.is_empty() {
            return Ok(());
        }
        let Ok(content) = read_content(&version.model, ino, attr.size) else { continue };
        open.retain(|number| !is_block_of(bytes, *number, &content, rules));
        contents.push(content);
    }
    let broken = open.into_iter().find(|number| {
        rules.order == Order::Names
            || !is_mixed(block(bytes, *number), number * BLOCK, &contents, rules)
    });
    let Some(number) = broken else { return Ok(()) };
    let block = block(bytes, number);
    let first: Vec<String> = block.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let message = format!(
        "block {number} is of no version that may be seen: it begins with {}",
        first.join(" ")
    );
    Err(("content", message))
}

fn block(bytes: &[u8], number: usize) -> &[u8] {
    let start = (number * BLOCK).min(bytes.len());
    &bytes[start..bytes.len().min(start + BLOCK)]
}

/// Returns whether a byte after the end of a version may be seen as 0: where a size can be durable
/// before the data is.
fn reads_on(rules: &Rules) -> bool {
    rules.order != Order::Returned
}

/// Returns whether a block is that of a version, which may end inside it.
fn is_block_of(bytes: &[u8], number: usize, content: &[u8], rules: &Rules) -> bool {
    let (block, old) = (block(bytes, number), block(content, number));
    let (have, beyond) = block.split_at(block.len().min(old.len()));
    let may_end = beyond.is_empty() || reads_on(rules);
    *have == old[..have.len()] && may_end && beyond.iter().all(|byte| *byte == 0)
}

/// Returns whether every byte of a block belongs to one version or another: a write that was cut
/// between the nodes of one block.
fn is_mixed(block: &[u8], start: usize, contents: &[Vec<u8>], rules: &Rules) -> bool {
    let after_end = reads_on(rules).then_some(0);
    block.iter().enumerate().all(|(index, byte)| {
        let of = |content: &Vec<u8>| content.get(start + index).copied().or(after_end);
        contents.iter().any(|content| of(content) == Some(*byte))
    })
}
