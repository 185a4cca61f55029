//! The view of all leaves: the journal's changes on top of the committed index.

use crate::index::{Index, Sink};
use crate::overlay::{Named, Overlay, Slot};
use crate::volume::Volume;
use eraseblock_base::{Leb, Location};
use eraseblock_mtd::MtdError;
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::{Branch, Dent, FormatError, Key, KeyKind, Limits, decode};
use std::error::Error;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A leaf that cannot be read.
#[derive(Debug)]
pub(crate) enum LeafError {
    Format(FormatError),
    Device(MtdError),
}

impl fmt::Display for LeafError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => fmt::Display::fmt(error, f),
            Self::Device(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl Error for LeafError {}

impl From<FormatError> for LeafError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<MtdError> for LeafError {
    fn from(error: MtdError) -> Self {
        Self::Device(error)
    }
}

/// Maps keys to leaves.
#[derive(Debug)]
pub(crate) struct Tnc {
    pub(crate) volume: Arc<Volume>,
    pub(crate) index: Index,
    pub(crate) overlay: Overlay,
}

impl Tnc {
    pub(crate) fn new(volume: Arc<Volume>, root: Option<Branch>) -> Self {
        let index = Index::new(Arc::clone(&volume), root);
        Self { volume, index, overlay: Overlay::default() }
    }

    /// Calls `sink` for the branches of all leaves with keys from `from` to `to`, both included,
    /// in key order, entries of equal keys in name order, until it breaks.
    pub(crate) fn scan(&self, from: Key, to: Key, sink: &mut Sink<'_>) {
        if self.overlay.is_empty() {
            let _ = self.index.scan(from, to, sink);
            return;
        }
        let mut above = self.overlay.range(from..=to).peekable();
        let mut done = false;
        let _ = self.index.scan(from, to, &mut |branch| {
            while let Some((_, slot)) = above.next_if(|(key, _)| **key <= branch.key) {
                for changed in slot.branches() {
                    sink(changed).map_break(|()| done = true)?;
                }
            }
            if !self.overlay.shows_below(branch.key) {
                return ControlFlow::Continue(());
            }
            sink(branch).map_break(|()| done = true)
        });
        if done {
            return;
        }
        for (_, slot) in above {
            for changed in slot.branches() {
                if sink(changed).is_break() {
                    return;
                }
            }
        }
    }

    /// Returns whether leaves with keys from `from` to `to`, both included, may have been lost with
    /// their index node: their absence says nothing.
    pub(crate) fn is_lost(&self, from: Key, to: Key) -> bool {
        self.index.is_lost(from, to)
    }

    /// Returns the branch of a key that occurs once.
    pub(crate) fn find(&self, key: Key) -> Option<Branch> {
        let mut found = None;
        self.scan(key, key, &mut |branch| {
            found = Some(*branch);
            ControlFlow::Break(())
        });
        found
    }

    /// Reads the leaf of a branch into `buf` and checks it against the branch (spec: ubifs-format
    /// 3.7).
    pub(crate) fn leaf<'a>(
        &self,
        branch: &Branch,
        buf: &'a mut Vec<u8>,
    ) -> Result<Node<'a>, LeafError> {
        buf.resize(branch.len as usize, 0);
        self.volume.read(branch.leb, branch.offset, buf)?;
        Ok(self.volume.leaf(branch, buf)?)
    }

    /// Like [`Self::leaf`], for leaves that often lie close together, such as the entries of a
    /// directory: reads the surrounding bytes, too.
    pub(crate) fn leaf_near<'a>(
        &self,
        branch: &Branch,
        window: &'a mut Window,
    ) -> Result<Node<'a>, LeafError> {
        if window.find(branch).is_none() {
            window.fill(&self.volume, branch)?;
        }
        let bytes = window.find(branch).unwrap_or_default();
        Ok(self.volume.leaf(branch, bytes)?)
    }

    /// Returns the list of all entries of a hashed key, for modification.
    fn names(&mut self, key: Key) -> &mut Vec<Named> {
        if !matches!(self.overlay.slot(key), Some(Slot::Names(_))) {
            let names = self.load_names(key);
            self.overlay.set(key, Slot::Names(names));
        }
        self.overlay.names_mut(key).expect("the slot was just made")
    }

    fn load_names(&self, key: Key) -> Vec<Named> {
        let mut names = Vec::new();
        let mut buf = Vec::new();
        self.scan(key, key, &mut |branch| {
            let node = self.leaf(branch, &mut buf);
            let name = node.ok().and_then(|node| node.dent().ok().map(|dent| dent.name.into()));
            names.push(Named { name, branch: *branch });
            ControlFlow::Continue(())
        });
        names.sort_by(|one, other| one.name.cmp(&other.name));
        names
    }

    /// Adds or replaces the leaf of a key that occurs once.
    pub(crate) fn add(&mut self, branch: Branch) {
        self.overlay.set(branch.key, Slot::One(Some(branch)));
    }

    /// Adds an entry, replacing the one of its name.
    pub(crate) fn add_name(&mut self, branch: Branch, name: &[u8]) {
        Overlay::add_name(self.names(branch.key), name, branch);
    }

    /// Removes the entry of a name, if there is one.
    pub(crate) fn remove_name(&mut self, key: Key, name: &[u8]) {
        Overlay::remove_name(self.names(key), name);
    }

    /// Removes an inode with its content, entries and xattrs; returns the inodes that held these
    /// (spec: ubifs-runtime 10.15).
    pub(crate) fn remove_inode(&mut self, ino: u32) -> Vec<u32> {
        let mut values = Vec::new();
        let mut buf = Vec::new();
        self.scan(Key::xent(ino, 0), Key::last_of(ino), &mut |branch| {
            let target = self.leaf(branch, &mut buf).ok().and_then(|node| {
                let xent = node.dent().ok()?;
                (xent.ino != 0 && xent.ino != ino).then_some(xent.ino)
            });
            values.extend(target);
            ControlFlow::Continue(())
        });
        for value in &values {
            self.overlay.hide(Key::first_of(*value)..=Key::last_of(*value));
        }
        self.overlay.hide(Key::first_of(ino)..=Key::last_of(ino));
        values
    }

    /// Removes the blocks of a file that a truncation removes (spec: ubifs-format 4.5).
    pub(crate) fn truncate(&mut self, ino: u32, old_size: u64, new_size: u64) {
        let (first, behind) = (new_size.div_ceil(4096), old_size.div_ceil(4096));
        if first < behind {
            // Sizes are at most 2^41, so blocks have 29 bits.
            let [first, last] = [first, behind - 1].map(|block| block as u32);
            self.overlay.hide(Key::data(ino, first)..=Key::data(ino, last));
        }
    }
}

/// A part of a LEB that was read. The first leaf is read alone: it may be the only one.
#[derive(Debug, Default)]
pub(crate) struct Window {
    leb: Option<Leb>,
    start: u32,
    bytes: Vec<u8>,
}

impl Window {
    /// Bytes read at once, from a multiple of this size.
    const SIZE: u32 = 8192;

    /// Returns the bytes of a leaf, if they are here.
    fn find(&self, branch: &Branch) -> Option<&[u8]> {
        if self.leb != Some(branch.leb) {
            return None;
        }
        let start = branch.offset.checked_sub(self.start)?;
        let bytes = self.bytes.get(start as usize..)?;
        bytes.get(..branch.len as usize)
    }

    /// Reads the bytes around a leaf or, if that fails or is not enough, only the leaf.
    fn fill(&mut self, volume: &Volume, branch: &Branch) -> Result<(), MtdError> {
        let start = branch.offset / Self::SIZE * Self::SIZE;
        let end = start.saturating_add(Self::SIZE).min(volume.leb_size());
        let is_inside = branch.offset.checked_add(branch.len).is_some_and(|behind| behind <= end);
        let is_first = self.leb.replace(branch.leb).is_none();
        if is_inside && !is_first {
            self.start = start;
            self.bytes.resize((end - start) as usize, 0);
            if volume.read(branch.leb, start, &mut self.bytes).is_ok() {
                return Ok(());
            }
        }
        self.start = branch.offset;
        self.bytes.clear();
        self.bytes.resize(branch.len as usize, 0);
        let read = volume.read(branch.leb, branch.offset, &mut self.bytes);
        if read.is_err() {
            self.bytes.clear();
        }
        read
    }
}

/// Checks the bytes of a leaf against the branch that led to it.
pub(crate) fn check_leaf<'a>(
    limits: &Limits,
    branch: &Branch,
    bytes: &'a [u8],
) -> Result<Node<'a>, FormatError> {
    let at = Location::Leb(branch.leb, branch.offset);
    let node_type = match branch.key.kind() {
        Some(KeyKind::Data) => NodeType::Data,
        Some(KeyKind::Dent) => NodeType::Dent,
        Some(KeyKind::Xent) => NodeType::Xent,
        Some(KeyKind::Inode) | None => NodeType::Inode,
    };
    let node = decode::expect(bytes, node_type, limits, at)?;
    match node.key() {
        Some(key) if key == branch.key => Ok(node),
        key => Err(FormatError::Field {
            at,
            what: node_type,
            field: "key",
            found: u64::from_be_bytes(key.unwrap_or(Key::MIN).to_bytes()),
            expected: eraseblock_ubifs_format::Expected::Words("the key of its branch"),
        }),
    }
}

/// The target of an entry and its name, owned.
#[derive(Clone, Debug)]
pub(crate) struct OwnedDent {
    pub(crate) key: Key,
    pub(crate) ino: u32,
    pub(crate) kind: eraseblock_ubifs_format::EntryKind,
    pub(crate) cookie: u32,
    pub(crate) name: Vec<u8>,
}

impl From<Dent<'_>> for OwnedDent {
    fn from(dent: Dent<'_>) -> Self {
        let Dent { key, ino, kind, cookie, name } = dent;
        Self { key, ino, kind, cookie, name: name.to_vec() }
    }
}
