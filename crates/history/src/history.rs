//! All that is known of the past of a volume.

use crate::evidence::Evidence;
use crate::nodes::{Name, Nodes};
use crate::tree::Tree;
use crate::versions::{self, Class, Seen, Version};
use eraseblock_base::Findings;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs::{Commit, OpenOptions, Ubifs, UbifsError};
use eraseblock_ubifs_format::Time;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// A commit, and how much of it is left.
#[derive(Clone, Debug)]
pub struct CommitState {
    /// The commit.
    pub commit: Commit,
    /// Leaves that its index refers to, as far as its index nodes are there.
    pub leaves: u64,
    /// Those of them that are gone.
    pub gone: u64,
    /// Index nodes that are gone, with all that they referred to.
    pub index_gone: u64,
    /// Files, as far as their inodes are there.
    pub files: u64,
    /// The earliest and latest time in inodes that were written since the commit before.
    pub times: Option<(Time, Time)>,
}

impl CommitState {
    /// Returns whether all of it is there.
    pub fn is_whole(&self) -> bool {
        self.commit.root_sqnum.is_some() && self.gone == 0 && self.index_gone == 0
    }
}

/// A name that a mount does not see any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deleted {
    /// Its path, without a slash at the start; what is not known of it is `?`.
    pub path: Vec<u8>,
    /// The inode that it named.
    pub ino: u32,
    /// The last commit that is left and has it.
    pub last_commit: Option<u64>,
    /// Sequence number of the node that removed it or gave it to another inode, if that is there.
    pub removed_by: Option<u64>,
    /// Whether the inode has other names now: the name was removed or changed, not the file.
    pub is_elsewhere: bool,
    /// The surest version of its inode.
    pub class: Class,
}

/// What LEBs of a volume held before, in blocks that are not erased yet.
#[derive(Clone, Debug)]
pub struct OldBlocks {
    /// The volume, with further LEBs.
    pub device: Arc<dyn LebDevice>,
    /// The further LEBs.
    pub lebs: Range<u32>,
}

/// What is known of the past of a volume.
#[derive(Debug)]
pub struct History {
    commits: Vec<CommitState>,
    files: BTreeMap<u32, Vec<Version>>,
    deleted: Vec<Deleted>,
    /// Inodes that a mount sees.
    live: BTreeSet<u32>,
    findings: Findings,
}

impl History {
    /// Reads everything. `step` is called before each commit with the number of those that are left.
    ///
    /// # Errors
    ///
    /// Fails if the device fails, or if there is no UBIFS on it.
    pub fn read(
        device: &Arc<dyn LebDevice>,
        step: &mut dyn FnMut(u64),
    ) -> Result<Self, UbifsError> {
        Self::read_with(device, None, step)
    }

    /// Reads everything, and versions of files in old blocks.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::read`] does.
    pub fn read_with(
        device: &Arc<dyn LebDevice>,
        old: Option<&OldBlocks>,
        step: &mut dyn FnMut(u64),
    ) -> Result<Self, UbifsError> {
        let (fs, findings) = Ubifs::open(Arc::clone(device), &OpenOptions::default())?;
        let nodes = Nodes::read(&fs, old);
        let now = Tree::now(&fs, &nodes);
        let mut reader = Reader::new(&nodes, &now);
        let mut all = Ubifs::commits(Arc::clone(device))?;
        let mut later = None;
        let mut evidence = Evidence::default();
        evidence.see_now(&now);
        step(all.len() as u64);
        while let Some(commit) = all.pop() {
            let since = all.last().map_or(0, |before| before.sqnum);
            let above = later.as_ref().unwrap_or(&now);
            if let Some(tree) = reader.commit(device, commit, since, above)? {
                evidence.see_commit(&tree, &nodes);
                later = Some(tree);
            }
            step(all.len() as u64);
        }
        drop(later);
        let Reader { mut commits, mut files, names, .. } = reader;
        commits.reverse();
        for version in versions::by_nodes(&nodes, &files, &evidence) {
            files.entry(version.ino).or_default().push(version);
        }
        for list in files.values_mut() {
            list.sort_by_key(|version| std::cmp::Reverse((version.newest, version.seen)));
        }
        let deleted = deleted(&nodes, &now, &names, &files);
        name_the_rest(&mut files, &deleted);
        let live = now.files.keys().copied().collect();
        Ok(Self { commits, files, deleted, live, findings })
    }

    /// Returns the past of what has no commits.
    pub(crate) fn of_parts(
        files: BTreeMap<u32, Vec<Version>>,
        deleted: Vec<Deleted>,
        live: BTreeSet<u32>,
        findings: Findings,
    ) -> Self {
        Self { commits: Vec::new(), files, deleted, live, findings }
    }

    /// Returns the commits that are left, the oldest first.
    pub fn commits(&self) -> &[CommitState] {
        &self.commits
    }

    /// Returns the versions of an inode, the newest first.
    pub fn versions(&self, ino: u32) -> &[Version] {
        self.files.get(&ino).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns all versions of all inodes, in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = &Version> {
        self.files.values().flatten()
    }

    /// Returns the inodes that a path named at any time, the present one first.
    pub fn inodes_of(&self, path: &[u8]) -> Vec<u32> {
        let is_it = |version: &&Version| version.paths.iter().any(|known| known == path);
        let mut found: Vec<&Version> = self.all().filter(is_it).collect();
        found.sort_by_key(|version| std::cmp::Reverse(version.newest));
        let mut seen = BTreeSet::new();
        found.into_iter().map(|version| version.ino).filter(|ino| seen.insert(*ino)).collect()
    }

    /// Returns the names that are gone, the latest first.
    pub fn deleted(&self) -> &[Deleted] {
        &self.deleted
    }

    /// Returns whether a mount sees an inode.
    pub fn is_live(&self, ino: u32) -> bool {
        self.live.contains(&ino)
    }

    /// Returns what opening the present state found.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }
}

/// Where a name was seen: its directory, the name, and its inode.
type Named = (u32, Box<[u8]>, u32);

/// Goes from the newest state to the oldest.
struct Reader<'a> {
    nodes: &'a Nodes,
    commits: Vec<CommitState>,
    files: BTreeMap<u32, Vec<Version>>,
    /// The states of the files in the tree after this one.
    states: BTreeMap<u32, crate::tree::FileState>,
    /// Names, with the last commit that has them and their path then.
    names: BTreeMap<Named, (u64, Option<Vec<u8>>)>,
}

impl<'a> Reader<'a> {
    fn new(nodes: &'a Nodes, now: &Tree) -> Self {
        let mut files: BTreeMap<u32, Vec<Version>> = BTreeMap::new();
        for (ino, state) in &now.files {
            if is_value(nodes, state) {
                continue;
            }
            let seen = Seen::Now { since: None };
            let version = Version::of_state(*ino, state, seen, nodes, now.paths_of(*ino));
            files.insert(*ino, vec![version]);
        }
        let states = now.files.clone();
        Self { nodes, commits: Vec::new(), files, states, names: BTreeMap::new() }
    }

    /// Takes a commit; returns its tree unless nothing of it is left.
    fn commit(
        &mut self,
        device: &Arc<dyn LebDevice>,
        commit: Commit,
        since: u64,
        later: &Tree,
    ) -> Result<Option<Tree>, UbifsError> {
        let times = times(self.nodes, since, commit.sqnum);
        let gone = CommitState { commit, leaves: 0, gone: 0, index_gone: 0, files: 0, times };
        let Some(root_sqnum) = gone.commit.root_sqnum else {
            self.commits.push(gone);
            return Ok(None);
        };
        let number = gone.commit.number;
        let (fs, _) = Ubifs::open_commit(Arc::clone(device), number)?;
        let tree = Tree::of_commit(&fs, self.nodes, root_sqnum, later);
        let files = tree.files.values();
        let files = files.filter(|state| state.inode.is_some() && !is_value(self.nodes, state));
        self.commits.push(CommitState {
            leaves: tree.leaves,
            gone: tree.gone,
            index_gone: fs.index_nodes_gone(),
            files: files.count() as u64,
            ..gone
        });
        self.versions(number, &tree);
        for (target, places) in &tree.names {
            for (parent, name) in places {
                let named = (*parent, name.clone(), *target);
                self.names.entry(named).or_insert_with(|| (number, tree.path_in(*parent, name)));
            }
        }
        Ok(Some(tree))
    }

    /// Adds the versions that the commit alone has, and notes it at those that it shares.
    fn versions(&mut self, number: u64, tree: &Tree) {
        for (ino, state) in &tree.files {
            if is_value(self.nodes, state) {
                continue;
            }
            let is_known = self.states.get(ino).is_some_and(|later| later.is_same(state));
            let list = self.files.entry(*ino).or_default();
            if let Some(version) = list.last_mut().filter(|_| is_known) {
                match &mut version.seen {
                    Seen::Now { since } => *since = Some(number),
                    Seen::Commits { first, .. } => *first = number,
                    Seen::Nodes => {}
                }
                continue;
            }
            let seen = Seen::Commits { first: number, last: number };
            let paths = tree.paths_of(*ino);
            list.push(Version::of_state(*ino, state, seen, self.nodes, paths));
        }
        self.states.clone_from(&tree.files);
    }
}

/// Returns whether a state is that of the value of an extended attribute.
fn is_value(nodes: &Nodes, state: &crate::tree::FileState) -> bool {
    let inode = state.inode.and_then(|inode| nodes.inodes.get(&inode.place));
    inode.is_some_and(|inode| inode.is_xattr)
}

/// Returns the earliest and latest time of inode changes in inode nodes of these sequence numbers.
fn times(nodes: &Nodes, after: u64, before: u64) -> Option<(Time, Time)> {
    let written = nodes.inodes.iter().filter(|(place, _)| {
        let sqnum = nodes.leaves[*place].sqnum;
        sqnum > after && sqnum < before
    });
    let times = written.map(|(_, inode)| inode.times[2]);
    let key = |time: &Time| (time.seconds, time.nanoseconds);
    times.fold(None, |range, time| match range {
        None => Some((time, time)),
        Some((first, last)) => {
            let first = if key(&time) < key(&first) { time } else { first };
            let last = if key(&time) > key(&last) { time } else { last };
            Some((first, last))
        }
    })
}

/// Returns the names that are not there now: of commits, and of nodes that no commit has.
fn deleted(
    nodes: &Nodes,
    now: &Tree,
    names: &BTreeMap<Named, (u64, Option<Vec<u8>>)>,
    files: &BTreeMap<u32, Vec<Version>>,
) -> Vec<Deleted> {
    let present: HashSet<(u32, &[u8], u32)> = now
        .names
        .iter()
        .flat_map(|(target, places)| {
            places.iter().map(|(parent, name)| (*parent, &name[..], *target))
        })
        .collect();
    // What happened to a name: it was given to an inode, or removed.
    let mut events: BTreeMap<(u32, &[u8]), Vec<u64>> = BTreeMap::new();
    let mut of_nodes: BTreeMap<Named, u64> = BTreeMap::new();
    for (place, Name { parent, target, text: name }) in &nodes.names {
        let sqnum = nodes.leaves[place].sqnum;
        events.entry((*parent, name)).or_default().push(sqnum);
        if *target == 0 {
            continue;
        }
        let newest = of_nodes.entry((*parent, name.clone(), *target)).or_default();
        *newest = sqnum.max(*newest);
    }
    let all: BTreeSet<&Named> = of_nodes.keys().chain(names.keys()).collect();
    let mut found = Vec::new();
    for named in all {
        let (parent, name, target) = named;
        if present.contains(&(*parent, name, *target)) {
            continue;
        }
        let written = of_nodes.get(named).copied().unwrap_or(0);
        let (last_commit, path) = match names.get(named) {
            Some((commit, path)) => (Some(*commit), path.clone()),
            None => (None, now.path_in(*parent, name)),
        };
        let path = path.unwrap_or_else(|| {
            let above = names.iter().find(|((_, _, ino), _)| ino == parent);
            let above = above.and_then(|(_, (_, path))| path.clone());
            [&above.unwrap_or_else(|| b"?".to_vec()), &b"/"[..], name].concat()
        });
        let later = events.get(&(*parent, name)).into_iter().flatten();
        let removed_by = later.copied().filter(|by| *by > written).min();
        let best = files.get(target).and_then(|list| list.iter().map(|it| it.class).min());
        let order = removed_by.unwrap_or(written);
        let deleted = Deleted {
            path,
            ino: *target,
            last_commit,
            removed_by,
            is_elsewhere: now.names.contains_key(target),
            class: best.unwrap_or(Class::NameOnly),
        };
        found.push((std::cmp::Reverse(order), deleted));
    }
    found.sort_by(|one, other| (one.0, &one.1.path).cmp(&(other.0, &other.1.path)));
    found.into_iter().map(|(_, deleted)| deleted).collect()
}

/// Gives versions without a path those of deleted names.
fn name_the_rest(files: &mut BTreeMap<u32, Vec<Version>>, deleted: &[Deleted]) {
    for name in deleted {
        let versions = files.get_mut(&name.ino).into_iter().flatten();
        for version in versions.filter(|version| version.seen == Seen::Nodes) {
            version.paths.push(name.path.clone());
        }
    }
    for list in files.values_mut() {
        let known = list.iter().find(|version| !version.paths.is_empty());
        let Some(paths) = known.map(|version| version.paths.clone()) else { continue };
        for version in list.iter_mut().filter(|version| version.paths.is_empty()) {
            version.paths.clone_from(&paths);
            version.is_named_by_another = true;
        }
    }
}
