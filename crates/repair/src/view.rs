//! Which leaves the file system consists of: as a mount sees it or, where the index is lost, by what
//! a scan finds and older indexes confirm.
//!
//! A scan alone cannot know what was deleted: once a deletion is committed, garbage collection may
//! drop its node while the deleted nodes are still there. So a leaf that a scan finds needs a witness:
//! an index that is at least as new as the leaf and has its key. An index that lacks the key proves that
//! the leaf was deleted. What no index covers is left to the rules, which ask the directories.

use crate::model::Leaf;
use crate::plan::{Action, Level};
use crate::scan::{Found, Scan, What};
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs::Ubifs;
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::{Branch, IndexNode, Key, KeyKind, Master};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The leaves, and what led to them.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) leaves: Vec<Leaf>,
    /// Leaves that were in use, but whose newest version is damaged.
    pub(crate) damaged: Vec<Leaf>,
    /// What a reader without an index would show, although it was deleted, or although its newest
    /// version is damaged: key, name, target.
    pub(crate) outdated: Vec<(Key, Vec<u8>, u32)>,
    pub(crate) actions: Vec<Action>,
}

/// Returns the leaves that a mount would see; `None` if a part of the index is lost.
pub(crate) fn of_mount(fs: &Ubifs) -> Option<View> {
    if fs.info().is_rescued {
        return None;
    }
    let mut view = View::default();
    fs.visit_leaves(&mut |live| {
        view.leaves.push(Leaf {
            key: live.key,
            leb: live.leb.get(),
            offset: live.offset,
            len: live.len,
            is_vouched: true,
        });
    });
    let is_lost = |code: &str| code == "index-node-lost" || code == "index-cyclic";
    let late = fs.late_findings();
    let is_whole = !late.iter().any(|finding| is_lost(finding.code.name()));
    is_whole.then_some(view)
}

/// An index on flash, as far as it can be followed.
struct Base {
    /// Nodes up to this sequence number were committed with it.
    threshold: u64,
    root: Location,
    leaves: BTreeMap<Key, Vec<Branch>>,
    /// Ranges of keys, both ends included, whose index nodes are lost.
    holes: Vec<(Key, Key)>,
}

impl Base {
    fn covers(&self, key: Key) -> bool {
        !self.holes.iter().any(|(from, to)| (*from..=*to).contains(&key))
    }
}

/// Indexes that are asked.
const MOST_BASES: usize = 8;

/// The newest node of each key, and of each name for entries.
type Newest<'s> = BTreeMap<(Key, &'s [u8]), &'s Found>;

/// Returns the leaves that a scan shows to be in use.
pub(crate) fn of_scan(scan: &Scan) -> View {
    let bases = bases(scan);
    let mut view = View::default();
    let newest = newest(scan);
    let torn = torn_keys(scan);
    let by_place: HashMap<(u32, u32), &Found> =
        scan.nodes.iter().map(|node| ((node.leb, node.offset), node)).collect();
    for ((key, name), found) in &newest {
        let lost = torn.get(key).filter(|torn| torn.0 > found.sqnum);
        let target = match found.what {
            What::Entry { ino, .. } => u32::try_from(ino).unwrap_or(0),
            _ => 0,
        };
        let outdated = (*key, name.to_vec(), target);
        if let Some((_, torn)) = lost {
            view.damaged.push(*torn);
            view.outdated.push(outdated);
            continue;
        }
        match witness(&bases, *key, name, found, &by_place) {
            Witness::Live => view.leaves.push(Leaf { is_vouched: true, ..found_at(found, *key) }),
            Witness::None => view.leaves.push(found_at(found, *key)),
            Witness::Deleted => view.outdated.push(outdated),
            Witness::Damaged(branch) => {
                view.damaged.push(leaf_at(&branch));
                view.outdated.push(outdated);
            }
        }
    }
    view.add_missing(&bases, &newest, &torn);
    view.say_what_happened(&bases, scan);
    view
}

impl View {
    /// Adds what the newest index refers to and no scan finds.
    fn add_missing(
        &mut self,
        bases: &[Base],
        newest: &Newest<'_>,
        torn: &BTreeMap<Key, (u64, Leaf)>,
    ) {
        let Some(base) = bases.first() else { return };
        let known: BTreeSet<Key> = newest.keys().map(|(key, _)| *key).collect();
        for (key, branches) in &base.leaves {
            if !known.contains(key) && !torn.contains_key(key) {
                self.damaged.extend(branches.iter().map(leaf_at));
            }
        }
        let keys: BTreeSet<Key> = newest.keys().map(|(key, _)| *key).collect();
        let covered = |key: &Key| base.covers(*key) && base.leaves.contains_key(key);
        let only_torn = torn.iter().filter(|(key, _)| !keys.contains(key) && covered(key));
        self.damaged.extend(only_torn.map(|(_, (_, leaf))| *leaf));
        self.damaged.sort_by_key(|leaf| (leaf.key, leaf.leb, leaf.offset));
        self.damaged.dedup();
    }

    fn say_what_happened(&mut self, bases: &[Base], scan: &Scan) {
        let nodes = scan.nodes.len();
        let why = match bases.first() {
            None => format!("no index is left: made from {nodes} nodes found by a scan"),
            Some(base) if base.holes.is_empty() => format!(
                "made from {nodes} nodes found by a scan, with the index of {} as witness",
                base.root
            ),
            Some(_) => format!(
                "made from {nodes} nodes found by a scan, with what is left of {} older and current \
                 indexes as witnesses",
                bases.len()
            ),
        };
        let mut action =
            Action::new(Level::Rebuild, "index-lost", "I1, M4", Location::Whole, "remake", why);
        for base in bases {
            action = action.shown_by(base.root);
        }
        self.actions.push(action);
    }
}

/// Returns a leaf that no index vouches for.
fn found_at(found: &Found, key: Key) -> Leaf {
    let Found { leb, offset, len, .. } = *found;
    Leaf { key, leb, offset, len, is_vouched: false }
}

fn leaf_at(branch: &Branch) -> Leaf {
    let Branch { key, leb, offset, len } = *branch;
    Leaf { key, leb: leb.get(), offset, len, is_vouched: true }
}

/// Damaged leaves that were written before the end of their LEB, newest by key.
fn torn_keys(scan: &Scan) -> BTreeMap<Key, (u64, Leaf)> {
    let mut torn: BTreeMap<Key, (u64, Leaf)> = BTreeMap::new();
    for one in scan.torn.iter().filter(|torn| !torn.is_tail && torn.sqnum <= scan.max_sqnum) {
        let leaf =
            Leaf { key: one.key, leb: one.leb, offset: one.offset, len: 24, is_vouched: true };
        let known = torn.get(&one.key).is_some_and(|(sqnum, _)| *sqnum >= one.sqnum);
        if !known {
            torn.insert(one.key, (one.sqnum, leaf));
        }
    }
    torn
}

/// Applies all nodes in the order in which they were written.
fn newest(scan: &Scan) -> Newest<'_> {
    let mut newest: Newest<'_> = BTreeMap::new();
    let mut inodes: HashMap<u32, &Found> = HashMap::new();
    for node in &scan.nodes {
        match &node.what {
            What::Inode { .. } => {
                inodes.insert(node.key.ino(), node);
                newest.insert((node.key, &[]), node);
            }
            What::Data => drop(newest.insert((node.key, &[]), node)),
            What::Entry { name, .. } => drop(newest.insert((node.key, name), node)),
            What::Truncation { ino, new_size } => {
                let first = new_size.div_ceil(BLOCK_SIZE.into());
                let first =
                    Key::data(*ino, u32::try_from(first).unwrap_or(u32::MAX) & (u32::MAX >> 3));
                let last = Key::data(*ino, u32::MAX >> 3);
                let keys: Vec<_> =
                    newest.range((first, &[][..])..=(last, &[][..])).map(|(key, _)| *key).collect();
                for key in keys {
                    newest.remove(&key);
                }
            }
            What::Index(_) => {}
        }
    }
    let dead_values = dead_values(&newest, &inodes);
    newest.retain(|(key, _), node| {
        !dead_values.contains(&key.ino()) && is_alive(*key, node, inodes.get(&key.ino()).copied())
    });
    newest
}

/// The inodes that hold xattrs of deleted inodes.
fn dead_values(newest: &Newest<'_>, inodes: &HashMap<u32, &Found>) -> BTreeSet<u32> {
    let is_dead = |ino: u32| {
        inodes.get(&ino).is_some_and(|node| matches!(node.what, What::Inode { nlink: 0, .. }))
    };
    let values = newest
        .iter()
        .filter(|((key, _), _)| key.kind() == Some(KeyKind::Xent) && is_dead(key.ino()));
    let target = |node: &Found| match node.what {
        What::Entry { ino, .. } => u32::try_from(ino).ok().filter(|ino| *ino != 0),
        _ => None,
    };
    values.filter_map(|(_, node)| target(node)).collect()
}

/// Returns whether a leaf is in use as far as its inode and it tell.
fn is_alive(key: Key, node: &Found, inode: Option<&Found>) -> bool {
    if matches!(node.what, What::Entry { ino: 0, .. }) {
        return false;
    }
    let Some(inode) = inode else { return true };
    let What::Inode { nlink, creat_sqnum, size } = inode.what else { return true };
    if nlink == 0 || node.sqnum < creat_sqnum && inode.sqnum > creat_sqnum {
        return false;
    }
    // A truncation writes the inode; the node about it may be gone.
    let start = u64::from(key.value()) * u64::from(BLOCK_SIZE);
    let is_behind = key.kind() == Some(KeyKind::Data) && start >= size;
    !(is_behind && node.sqnum < inode.sqnum)
}

/// What an index says about a leaf.
enum Witness {
    Live,
    Deleted,
    /// The version in use is damaged; this one is older.
    Damaged(Branch),
    None,
}

fn witness(
    bases: &[Base],
    key: Key,
    name: &[u8],
    found: &Found,
    by_place: &HashMap<(u32, u32), &Found>,
) -> Witness {
    let Some(base) = bases.iter().find(|base| base.covers(key)) else { return Witness::None };
    if found.sqnum > base.threshold {
        return Witness::Live;
    }
    let Some(branches) = base.leaves.get(&key) else { return Witness::Deleted };
    let mut damaged = None;
    for branch in branches {
        let place = (branch.leb.get(), branch.offset);
        let Some(there) = by_place.get(&place).filter(|node| node.key == key) else {
            damaged = Some(*branch);
            continue;
        };
        let is_it = match &there.what {
            What::Entry { name: other, .. } => **other == *name,
            _ => true,
        };
        if is_it {
            return Witness::Live;
        }
    }
    match damaged {
        // Every entry of this key has another name.
        None => Witness::Deleted,
        // Garbage collection copies nodes as they are.
        Some(branch) if branch.len == found.len => Witness::Live,
        Some(branch) => Witness::Damaged(branch),
    }
}

/// Returns the indexes on flash, newest first, up to the first that is whole.
fn bases(scan: &Scan) -> Vec<Base> {
    let nodes: BTreeMap<(u32, u32), &IndexNode> = scan
        .nodes
        .iter()
        .filter_map(|node| match &node.what {
            What::Index(index) => Some(((node.leb, node.offset), &**index)),
            _ => None,
        })
        .collect();
    let mut bases: Vec<Base> = Vec::new();
    let mut seen = BTreeSet::new();
    let of_masters = scan.masters.iter().rev().map(|master| (master.root(), Some(master)));
    for (root, master) in of_masters.chain(roots(scan, &nodes)) {
        if bases.len() == MOST_BASES || bases.last().is_some_and(|base| base.holes.is_empty()) {
            break;
        }
        if !seen.insert((root.leb, root.offset)) {
            continue;
        }
        let Some(top) = nodes.get(&(root.leb.get(), root.offset)) else { continue };
        let threshold = threshold(scan, &nodes, top.sqnum, master);
        if bases.last().is_some_and(|base| base.threshold <= threshold) {
            continue;
        }
        let mut base = Base {
            threshold,
            root: Location::Leb(root.leb, root.offset),
            leaves: BTreeMap::new(),
            holes: Vec::new(),
        };
        let whole = (Key::MIN, Key::last_of(u32::MAX));
        let mut left = nodes.len() + 1;
        let about = Child { branch: root, level: top.level, below: u64::MAX };
        follow(&nodes, &about, whole, &mut base, &mut left);
        bases.push(base);
    }
    bases
}

/// Returns the sequence number up to which a commit is complete: that of the last start of a commit before its
/// root or, if that is lost, of the first index node that it wrote. Operations go on while the index is
/// written.
fn threshold(
    scan: &Scan,
    nodes: &BTreeMap<(u32, u32), &IndexNode>,
    root: u64,
    master: Option<&Master>,
) -> u64 {
    let start = master.and_then(|master| scan.commits.get(&master.cmt_no).copied());
    let starts = start.into_iter().chain(scan.commits.values().copied());
    if let Some(start) = starts.filter(|start| *start < root).max() {
        return start;
    }
    let masters = scan.masters.iter().map(|master| master.sqnum);
    let before = masters.filter(|sqnum| *sqnum < root).max().unwrap_or(0);
    let written = nodes.values().map(|node| node.sqnum);
    written.filter(|sqnum| (before..=root).contains(sqnum)).min().unwrap_or(root)
}

/// Returns the index nodes that no other refers to, newest first: without a master, one of them is the
/// root.
fn roots<'s>(
    scan: &'s Scan,
    nodes: &BTreeMap<(u32, u32), &'s IndexNode>,
) -> impl Iterator<Item = (Branch, Option<&'s Master>)> {
    let children: BTreeSet<(u32, u32)> = nodes
        .values()
        .filter(|node| node.level > 0)
        .flat_map(|node| node.branches.iter().map(|child| (child.leb.get(), child.offset)))
        .collect();
    let top = nodes.values().map(|node| node.level).max();
    let mut roots: Vec<_> = scan
        .nodes
        .iter()
        .filter_map(|node| match &node.what {
            What::Index(index) if Some(index.level) == top => Some((node, &**index)),
            _ => None,
        })
        .filter(|(node, _)| !children.contains(&(node.leb, node.offset)))
        .map(|(node, index)| {
            let (leb, offset, len) = (Leb::new(node.leb), node.offset, node.len);
            let key = index.branches.first().map_or(Key::MIN, |branch| branch.key);
            (Branch { key, leb, offset, len }, node.sqnum)
        })
        .collect();
    roots.sort_by_key(|(_, sqnum)| std::cmp::Reverse(*sqnum));
    roots.into_iter().map(|(root, _)| (root, None))
}

/// A child to be followed.
struct Child {
    branch: Branch,
    level: u32,
    /// Its sequence number is below this.
    below: u64,
}

fn follow(
    nodes: &BTreeMap<(u32, u32), &IndexNode>,
    child: &Child,
    bounds: (Key, Key),
    base: &mut Base,
    left: &mut usize,
) {
    *left = left.saturating_sub(1);
    let node = nodes.get(&(child.branch.leb.get(), child.branch.offset)).filter(|node| {
        let starts = node.branches.first().is_some_and(|first| first.key >= bounds.0);
        node.level == child.level && node.sqnum < child.below && starts && *left > 0
    });
    let Some(node) = node else {
        // The key of the next branch belongs to the next child, unless entries share it.
        let is_next = bounds.1 != Key::last_of(u32::MAX) && !bounds.1.is_hashed();
        let last = bounds.1.predecessor().filter(|_| is_next).unwrap_or(bounds.1);
        return base.holes.push((bounds.0, last));
    };
    for (index, branch) in node.branches.iter().enumerate() {
        if node.level == 0 {
            base.leaves.entry(branch.key).or_default().push(*branch);
            continue;
        }
        let next = node.branches.get(index + 1).map_or(bounds.1, |next| next.key);
        let child = Child { branch: *branch, level: node.level - 1, below: node.sqnum };
        follow(nodes, &child, (branch.key, next), base, left);
    }
}
