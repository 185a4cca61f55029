//! The rules: what is put right in the model, in an order in which each rule relies only on what
//! earlier ones vouch for: leaves by themselves (`leaves`), inodes (`inodes`), xattrs (`xattrs`), names
//! (`names`), the tree (`reach`), counts and sizes (`counts`).

mod counts;
mod inodes;
mod leaves;
mod names;
mod reach;
mod witness;
mod xattrs;

use crate::model::{Entry, InodeLeaf, Leaf, Model};
use crate::plan::{Action, Loss, Part, shown};
use crate::scan::Scan;
use eraseblock_base::Location;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::Superblock;
use eraseblock_ubifs_format::constants::ROOT_INO;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that a repair removes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quarantined {
    /// Where they were.
    pub at: Location,
    /// Why they are removed.
    pub why: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What the rules know and change.
pub(crate) struct Rules<'a> {
    pub(crate) model: Model,
    pub(crate) scan: &'a Scan,
    pub(crate) sb: &'a Superblock,
    pub(crate) device: &'a dyn LebDevice,
    /// The size of a file as a mount would see it.
    pub(crate) size_of: &'a dyn Fn(u32) -> Option<u64>,
    pub(crate) is_scanned: bool,
    pub(crate) actions: Vec<Action>,
    pub(crate) quarantine: Vec<Quarantined>,
    /// The highest inode number.
    pub(crate) highest: u32,
    /// The first path of each inode before anything was changed.
    paths: BTreeMap<u32, Vec<u8>>,
    /// Inodes with a name that was deleted.
    dead: BTreeSet<u32>,
    /// Inodes with a name that may have been deleted.
    doubtful: BTreeSet<u32>,
}

impl Quarantined {
    /// Returns the same bytes under their place in a whole.
    #[must_use]
    pub fn placed(&self, place: impl Fn(Location) -> Location) -> Self {
        Self { at: place(self.at), ..self.clone() }
    }
}

impl<'a> Rules<'a> {
    pub(crate) fn new(
        model: Model,
        scan: &'a Scan,
        sb: &'a Superblock,
        device: &'a dyn LebDevice,
        size_of: &'a dyn Fn(u32) -> Option<u64>,
    ) -> Self {
        let highest = model.objects.last_key_value().map_or(0, |(ino, _)| *ino);
        let paths = paths(&model);
        Self {
            model,
            scan,
            sb,
            device,
            size_of,
            is_scanned: false,
            actions: Vec::new(),
            quarantine: Vec::new(),
            highest: highest.max(scan.highest_inum),
            paths,
            dead: BTreeSet::new(),
            doubtful: BTreeSet::new(),
        }
    }

    /// Applies all rules.
    pub(crate) fn run(&mut self) {
        self.lost_leaves();
        self.twins();
        self.entries();
        self.inodes();
        self.missing_inodes();
        self.doubtful_names();
        self.xattrs();
        self.targets();
        self.stray_leaves();
        self.reachability();
        self.counts();
        self.sequence_numbers();
    }

    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn loss(&self, ino: u32, part: Part) -> Loss {
        Loss { path: self.paths.get(&ino).cloned(), ino, part }
    }

    /// Returns the path of an entry.
    fn path_in(&self, dir: u32, name: &[u8]) -> Option<Vec<u8>> {
        let mut path = self.paths.get(&dir)?.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Some(path)
    }

    /// Returns a name for an inode in messages.
    fn name_of(&self, ino: u32) -> String {
        match self.paths.get(&ino) {
            Some(path) if path.is_empty() => "the root directory".to_owned(),
            Some(path) => shown(path),
            None => format!("inode {ino}"),
        }
    }

    /// The loss of a name, as a reader shows it.
    fn lost_name(&self, dir: u32, entry: &Entry) -> Loss {
        let is_encrypted = self.model.inode(dir).is_some_and(InodeLeaf::is_encrypted);
        let id = (entry.key().value(), entry.raw.cookie.get());
        let name = eraseblock_ubifs::shown_name(&entry.name, id, is_encrypted);
        Loss { path: self.path_in(dir, &name), ino: entry.target(), part: Part::Name }
    }

    /// Keeps the bytes of a leaf that will no longer be referred to.
    fn keep(&mut self, leaf: &Leaf, why: &str) {
        let mut bytes = vec![0; leaf.len as usize];
        let leb = eraseblock_base::Leb::new(leaf.leb);
        if self.device.read(leb, leaf.offset, &mut bytes).is_ok() {
            self.quarantine.push(Quarantined { at: leaf.at(), why: why.to_owned(), bytes });
        }
    }

    fn keep_origin(&mut self, origin: &crate::model::Origin, why: &str) {
        if let crate::model::Origin::Flash(leaf) | crate::model::Origin::Renewed(leaf) = origin {
            self.keep(&leaf.clone(), why);
        }
    }

    /// Keeps and removes everything of an inode number; returns whether there was anything.
    fn remove_object(&mut self, ino: u32, why: &str) {
        let Some(object) = self.model.objects.remove(&ino) else { return };
        let entries = object.entries.iter().chain(&object.xattrs).map(|entry| entry.origin);
        let blocks = object.blocks.values().map(|block| block.origin);
        let inode = object.inode.iter().map(|inode| inode.origin);
        let origins: Vec<_> = inode.chain(blocks).chain(entries).collect();
        for origin in origins {
            self.keep_origin(&origin, why);
        }
        for xattr in object.xattrs {
            let is_value = |inode: &crate::model::InodeLeaf| inode.is_xattr();
            if self.model.inode(xattr.target()).is_some_and(is_value) {
                self.remove_object(xattr.target(), why);
            }
        }
    }
}

/// Returns the first path of each inode that can be reached.
fn paths(model: &Model) -> BTreeMap<u32, Vec<u8>> {
    let mut paths = BTreeMap::from([(ROOT_INO, Vec::new())]);
    let mut open = vec![ROOT_INO];
    while let Some(dir) = open.pop() {
        let Some(object) = model.objects.get(&dir) else { continue };
        let start = paths.get(&dir).cloned().unwrap_or_default();
        for entry in &object.entries {
            let ino = entry.target();
            if ino == 0 || paths.contains_key(&ino) {
                continue;
            }
            let mut path = start.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            paths.insert(ino, path);
            open.push(ino);
        }
    }
    paths
}
