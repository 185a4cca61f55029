//! Inode numbers, compressors and limits, determined before anything is written (spec: ubifs-format
//! 6, 17.4).
//!
//! # Invariants
//! 1. Inode numbers follow the walk: a directory before its entries, names in the order of their
//!    bytes, the inodes of a host's xattrs directly after its own (the root's from 65).
//! 2. Every node of the tree with a name can be stored.

use super::error::{MkfsError, NodeProblem};
use super::options::{Compressor, MkfsOptions};
use super::report::{NodeCounts, Phase, Progress};
use eraseblock_base::align::align_up_usize;
use eraseblock_ubifs_format::constants::{
    BLOCK_SIZE, FIRST_INO, INO_LIMIT, MAX_FILE_SIZE, MAX_INODE_DATA, MAX_NAME_LEN, ROOT_INO,
    XATTR_LIST_MAX,
};
use eraseblock_ubifs_format::encode::index_len;
use eraseblock_ubifs_format::layout::Layout;
use eraseblock_ubifs_format::raw;
use eraseblock_vfs::source::{NodeId, SourceKind, SourceNode, SourceTree};

/// An xattr that tools set on source trees; it describes an image, not its content.
const IMAGE_INODE_NUMBER: &[u8] = b"user.image-inode-number";

/// Events of a walk over the tree, in the order in which nodes are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'t> {
    /// The first visit of a node; directories before their entries.
    Meet(NodeId),
    /// A node whose content and inode are written now; directories after their entries.
    Inode(NodeId),
    /// A name, after the inode it refers to.
    Entry {
        /// The directory.
        dir: NodeId,
        /// The name in it.
        name: &'t [u8],
        /// The inode it refers to.
        target: NodeId,
    },
}

/// Receives each event of a walk with its path.
pub(super) type Visit<'a, 't, E> = dyn FnMut(Event<'t>, &[u8]) -> Result<(), E> + 'a;

/// Walks the tree without recursion; `visit` gets each event with its path.
pub(super) fn walk<'t, E>(tree: &'t SourceTree, visit: &mut Visit<'_, 't, E>) -> Result<(), E> {
    struct Level<'t> {
        dir: NodeId,
        entries: std::vec::IntoIter<(&'t [u8], NodeId)>,
        path_len: usize,
        name: Option<(NodeId, &'t [u8])>,
    }
    let entries = |dir| tree.entries(dir).collect::<Vec<_>>().into_iter();
    let mut met = vec![false; tree.len()];
    let mut path: Vec<u8> = Vec::new();
    let root = NodeId::ROOT;
    visit(Event::Meet(root), &path)?;
    let mut levels = vec![Level { dir: root, entries: entries(root), path_len: 0, name: None }];
    while let Some(level) = levels.last_mut() {
        path.truncate(level.path_len);
        let dir = level.dir;
        let Some((name, target)) = level.entries.next() else {
            visit(Event::Inode(dir), &path)?;
            if let Some((parent, name)) = level.name {
                visit(Event::Entry { dir: parent, name, target: dir }, &path)?;
            }
            levels.pop();
            continue;
        };
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        let first = !std::mem::replace(&mut met[target.index()], true);
        if first {
            visit(Event::Meet(target), &path)?;
            if matches!(tree.node(target).kind, SourceKind::Directory(_)) {
                let (entries, name) = (entries(target), Some((dir, name)));
                levels.push(Level { dir: target, entries, path_len: path.len(), name });
                continue;
            }
            visit(Event::Inode(target), &path)?;
        }
        visit(Event::Entry { dir, name, target }, &path)?;
    }
    Ok(())
}

/// Returns the xattrs of a node for the image, in the order of their names.
pub(super) fn xattrs(node: &SourceNode) -> Vec<(&[u8], &[u8])> {
    let wanted = node.xattrs.iter().filter(|(name, _)| name != IMAGE_INODE_NUMBER);
    let mut xattrs: Vec<_> = wanted.map(|(name, value)| (&name[..], &value[..])).collect();
    xattrs.sort_unstable();
    xattrs
}

/// A tree ready to be written.
#[derive(Debug)]
pub(super) struct Plan<'t> {
    pub(super) tree: &'t SourceTree,
    /// Names of each node.
    pub(super) names: Vec<u32>,
    /// Regular files with content, in the order in which it is written.
    pub(super) files: Vec<NodeId>,
    /// The highest inode number in use.
    pub(super) highest_inum: u32,
    /// Nodes that will be written; blocks include holes.
    pub(super) counts: NodeCounts,
    /// Bytes of all file contents.
    pub(super) content_bytes: u64,
    /// Bytes of all nodes but data nodes, each rounded up to 8.
    pub(super) metadata_bytes: u64,
    /// Bytes of all data nodes when nothing can be compressed, each rounded up to 8.
    pub(super) data_bytes: u64,
    inos: Vec<u32>,
    compressors: Vec<Compressor>,
}

impl<'t> Plan<'t> {
    /// Numbers and checks everything.
    pub(super) fn new(
        tree: &'t SourceTree,
        options: &MkfsOptions,
        layout: &Layout,
        progress: &dyn Progress,
    ) -> Result<Self, MkfsError> {
        options.check()?;
        progress.phase(Phase::Plan);
        let mut plan = Self {
            tree,
            names: tree.name_counts(),
            files: Vec::new(),
            highest_inum: FIRST_INO,
            counts: NodeCounts::default(),
            content_bytes: 0,
            metadata_bytes: 0,
            data_bytes: 0,
            inos: vec![0; tree.len()],
            compressors: vec![options.compressor; tree.len()],
        };
        let most_xattrs = layout.leb_size / 2 / raw::InodeNode::SIZE as u32;
        walk(tree, &mut |event, path| {
            match event {
                Event::Meet(id) => {
                    let node = tree.node(id);
                    check(node, most_xattrs)
                        .map_err(|problem| MkfsError::Node { path: path.to_vec(), problem })?;
                    let asked = node.flags.compress;
                    plan.compressors[id.index()] = options.compressor_for(path, asked);
                    plan.number(id)?;
                    progress.inode(path, plan.ino(id));
                }
                Event::Inode(id) => plan.count(id),
                Event::Entry { name, .. } => {
                    plan.counts.entries += 1;
                    plan.metadata_bytes += entry_bytes(name.len());
                }
            }
            Ok::<_, MkfsError>(())
        })?;
        progress.total(plan.content_bytes);
        Ok(plan)
    }

    /// Returns the inode number of a node with a name.
    pub(super) fn ino(&self, id: NodeId) -> u32 {
        self.inos[id.index()]
    }

    /// Returns the inode number of a node's first xattr; the others follow.
    pub(super) fn first_xattr_ino(&self, id: NodeId) -> u32 {
        if id == NodeId::ROOT { FIRST_INO + 1 } else { self.ino(id) + 1 }
    }

    /// Returns the compressor of a regular file's content.
    pub(super) fn compressor(&self, id: NodeId) -> Compressor {
        self.compressors[id.index()]
    }

    /// Returns the sequence number that an inode's creation took: they come before those of all
    /// nodes, in the order of inode numbers.
    pub(super) fn creat_sqnum(ino: u32) -> u64 {
        if ino == ROOT_INO { 1 } else { u64::from(ino - FIRST_INO) + 1 }
    }

    /// Returns the sequence number of the first node.
    pub(super) fn first_sqnum(&self) -> u64 {
        Self::creat_sqnum(self.highest_inum) + 1
    }

    fn number(&mut self, id: NodeId) -> Result<(), MkfsError> {
        let own = u32::from(id != NodeId::ROOT);
        let xattrs = xattrs(self.tree.node(id)).len() as u32;
        self.inos[id.index()] =
            if id == NodeId::ROOT { ROOT_INO } else { self.highest_inum.saturating_add(1) };
        let highest = self.highest_inum.checked_add(own + xattrs);
        self.highest_inum =
            highest.filter(|ino| *ino < INO_LIMIT).ok_or(MkfsError::TooManyInodes)?;
        Ok(())
    }

    fn count(&mut self, id: NodeId) {
        let node = self.tree.node(id);
        self.counts.inodes += 1;
        self.metadata_bytes += inode_bytes(inline_len(node));
        for (name, value) in xattrs(node) {
            self.counts.xattrs += 1;
            self.metadata_bytes += entry_bytes(name.len()) + inode_bytes(value.len());
        }
        let SourceKind::Regular(content) = &node.kind else { return };
        let size = content.size();
        if size > 0 {
            self.files.push(id);
        }
        let (whole, rest) = (size / u64::from(BLOCK_SIZE), size % u64::from(BLOCK_SIZE));
        self.content_bytes += size;
        self.counts.blocks += size.div_ceil(u64::from(BLOCK_SIZE));
        self.data_bytes += whole * data_bytes(BLOCK_SIZE as usize);
        if rest > 0 {
            self.data_bytes += data_bytes(rest as usize);
        }
    }

    /// Returns the number of leaves of the index if `blocks` blocks are stored.
    pub(super) fn leaves(&self, blocks: u64) -> u64 {
        self.counts.inodes + self.counts.entries + 2 * self.counts.xattrs + blocks
    }
}

/// Returns the number of bytes of a node with this length on flash.
fn aligned(len: usize) -> u64 {
    align_up_usize(len, 8) as u64
}

fn inode_bytes(data_len: usize) -> u64 {
    aligned(raw::InodeNode::SIZE + data_len)
}

fn data_bytes(payload: usize) -> u64 {
    aligned(raw::DataNode::SIZE + payload)
}

/// Returns the number of bytes of an entry with a name of this length on flash.
pub(super) fn entry_bytes(name_len: usize) -> u64 {
    aligned(raw::DentNode::SIZE + name_len + 1)
}

/// Returns the size of an index with this many leaves: (all nodes, nodes), each rounded up to 8.
pub(super) fn index_bytes(leaves: u64, fanout: u32) -> (u64, u64) {
    let (mut below, mut bytes, mut nodes) = (leaves, 0, 0);
    loop {
        let full = below / u64::from(fanout);
        let rest = (below % u64::from(fanout)) as u32;
        bytes += full * aligned(index_len(fanout) as usize);
        below = full + u64::from(rest > 0);
        bytes += if rest > 0 { aligned(index_len(rest) as usize) } else { 0 };
        nodes += below;
        if below <= 1 {
            return (bytes, nodes);
        }
    }
}

/// Returns the number of bytes a node carries inside its inode.
fn inline_len(node: &SourceNode) -> usize {
    match &node.kind {
        SourceKind::Symlink(target) => target.len(),
        SourceKind::BlockDevice(..) | SourceKind::CharDevice(..) => 4,
        _ => 0,
    }
}

/// Checks whether UBIFS can store the node.
fn check(node: &SourceNode, most_xattrs: u32) -> Result<(), NodeProblem> {
    match &node.kind {
        SourceKind::Regular(content) if content.size() > MAX_FILE_SIZE => {
            return Err(NodeProblem::FileSize(content.size()));
        }
        SourceKind::Symlink(target) if target.is_empty() || target.len() > MAX_INODE_DATA => {
            return Err(NodeProblem::Target(target.len()));
        }
        SourceKind::BlockDevice(major, minor) | SourceKind::CharDevice(major, minor)
            if *major >= 1 << 12 || *minor >= 1 << 20 =>
        {
            return Err(NodeProblem::Device(*major, *minor));
        }
        _ => {}
    }
    let xattrs = xattrs(node);
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    for (name, value) in &xattrs {
        if name.is_empty() || name.len() > MAX_NAME_LEN || name.contains(&0) {
            return Err(NodeProblem::AttributeName(text(name)));
        }
        if value.len() > MAX_INODE_DATA {
            return Err(NodeProblem::AttributeValue(text(name), value.len()));
        }
    }
    if let Some(pair) = xattrs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(NodeProblem::AttributeTwice(text(pair[0].0)));
    }
    let names: u64 = xattrs.iter().map(|(name, _)| name.len() as u64 + 1).sum();
    if names > u64::from(XATTR_LIST_MAX) {
        return Err(NodeProblem::AttributeNames(names));
    }
    if xattrs.len() > most_xattrs as usize {
        return Err(NodeProblem::AttributeCount(xattrs.len(), most_xattrs));
    }
    Ok(())
}
