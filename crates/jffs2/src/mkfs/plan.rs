//! Inode numbers and limits, determined before anything is written.
//!
//! # Invariants
//! 1. Inode numbers follow the order of names: all of a directory, then each of its sub-directories
//!    in turn.
//! 2. Everything with a name can be stored.

use super::blocks::{BlockShape, Blocks};
use super::error::{MkfsError, NodeProblem};
use super::options::MkfsOptions;
use eraseblock_jffs2_format::constants::{MAX_NAME_LEN, MAX_TARGET_LEN, ROOT_INO};
use eraseblock_jffs2_format::node::{PREFIX_ACL_ACCESS, PREFIX_ACL_DEFAULT, split_name};
use eraseblock_jffs2_format::{ByteOrder, acl, device_bytes, encode};
use eraseblock_vfs::source::{NodeId, SourceKind, SourceNode, SourceTree};

/// Bytes of the summary record of an XATTR node.
const XATTR_RECORD: u32 = 18;

/// A name, and whether this is the first name of its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'t> {
    pub(super) dir: NodeId,
    pub(super) name: &'t [u8],
    pub(super) target: NodeId,
    pub(super) is_first: bool,
}

/// An xattr as stored: name space, name in it, value.
pub(super) type StoredXattr = (u8, Vec<u8>, Vec<u8>);

/// A tree ready to be written.
#[derive(Debug)]
pub(super) struct Plan<'t> {
    pub(super) tree: &'t SourceTree,
    /// All names in the order in which they are written.
    pub(super) steps: Vec<Step<'t>>,
    /// Regular files with content, in that order.
    pub(super) files: Vec<NodeId>,
    /// Bytes of all file contents.
    pub(super) content_bytes: u64,
    /// The highest inode number in use.
    pub(super) highest_ino: u32,
    pub(super) inodes: u64,
    inos: Vec<u32>,
}

impl<'t> Plan<'t> {
    /// Numbers and checks everything.
    pub(super) fn new(tree: &'t SourceTree, options: &MkfsOptions) -> Result<Self, MkfsError> {
        options.check()?;
        let mut plan = Self {
            tree,
            steps: Vec::new(),
            files: Vec::new(),
            content_bytes: 0,
            highest_ino: options.base.map_or(ROOT_INO, |base| base.ino.max(ROOT_INO)),
            inodes: 1,
            inos: vec![0; tree.len()],
        };
        plan.inos[NodeId::ROOT.index()] = ROOT_INO;
        let shape = shape(options);
        let refuse = |id, problem| MkfsError::Node { path: path_of(tree, id), problem };
        check(tree.node(NodeId::ROOT), &shape).map_err(|why| refuse(NodeId::ROOT, why))?;
        let mut directories = vec![NodeId::ROOT];
        while let Some(dir) = directories.pop() {
            let mut below = Vec::new();
            for (name, target) in tree.entries(dir) {
                let is_first = plan.inos[target.index()] == 0;
                plan.steps.push(Step { dir, name, target, is_first });
                if name.len() > MAX_NAME_LEN {
                    return Err(refuse(target, NodeProblem::Name(name.len())));
                }
                if !is_first {
                    continue;
                }
                let node = tree.node(target);
                check(node, &shape).map_err(|why| refuse(target, why))?;
                plan.number(target)?;
                match &node.kind {
                    SourceKind::Directory(_) => below.push(target),
                    SourceKind::Regular(content) if content.size() > 0 => {
                        plan.content_bytes += content.size();
                        plan.files.push(target);
                    }
                    _ => {}
                }
            }
            directories.extend(below.into_iter().rev());
        }
        Ok(plan)
    }

    fn number(&mut self, id: NodeId) -> Result<(), MkfsError> {
        let next = self.highest_ino.checked_add(1).filter(|ino| *ino < u32::MAX);
        self.highest_ino = next.ok_or(MkfsError::TooManyInodes)?;
        self.inos[id.index()] = self.highest_ino;
        self.inodes += 1;
        Ok(())
    }

    /// Returns the inode number of a node with a name.
    pub(super) fn ino(&self, id: NodeId) -> u32 {
        self.inos[id.index()]
    }
}

/// Returns the form of the blocks of an image.
pub(super) fn shape(options: &MkfsOptions) -> BlockShape {
    BlockShape {
        order: options.order,
        size: options.block_size,
        cleanmarker: options.cleanmarker,
        summary: options.summary,
        limit: options.limit,
    }
}

/// Returns the first path of a node, for error messages only.
pub(super) fn path_of(tree: &SourceTree, wanted: NodeId) -> Vec<u8> {
    let mut levels = vec![(NodeId::ROOT, Vec::new())];
    while let Some((dir, path)) = levels.pop() {
        for (name, target) in tree.entries(dir) {
            let mut below: Vec<u8> = path.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(name);
            if target == wanted {
                return below;
            }
            if matches!(tree.node(target).kind, SourceKind::Directory(_)) {
                levels.push((target, below));
            }
        }
    }
    Vec::new()
}

/// Returns the xattrs of a node as stored, in the order of their names. An ACL that is equivalent
/// to the mode is left out.
pub(super) fn xattrs(node: &SourceNode, order: ByteOrder) -> Result<Vec<StoredXattr>, NodeProblem> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let mut stored = Vec::new();
    for (name, value) in &node.xattrs {
        let (prefix, rest) =
            split_name(name).ok_or_else(|| NodeProblem::AttributeName(text(name)))?;
        let value = match prefix {
            PREFIX_ACL_ACCESS | PREFIX_ACL_DEFAULT => {
                acl::from_wire(order, value).ok_or_else(|| NodeProblem::Acl(text(name)))?
            }
            _ => value.clone(),
        };
        if prefix == PREFIX_ACL_ACCESS && value.len() <= MINIMAL_ACL {
            continue;
        }
        stored.push((prefix, rest.to_vec(), value));
    }
    stored.sort();
    Ok(stored)
}

/// Size of an ACL with the three entries that are equivalent to a mode.
const MINIMAL_ACL: usize = 4 + 3 * 4;

/// Checks whether JFFS2 can store the node.
fn check(node: &SourceNode, shape: &BlockShape) -> Result<(), NodeProblem> {
    match &node.kind {
        SourceKind::Regular(content) if content.size() > u64::from(u32::MAX) => {
            return Err(NodeProblem::FileSize(content.size()));
        }
        SourceKind::Symlink(target)
            if target.is_empty() || target.len() > MAX_TARGET_LEN as usize =>
        {
            return Err(NodeProblem::Target(target.len()));
        }
        SourceKind::BlockDevice(major, minor) | SourceKind::CharDevice(major, minor)
            if device_bytes(shape.order, *major, *minor).is_none() =>
        {
            return Err(NodeProblem::Device(*major, *minor));
        }
        _ => {}
    }
    if node.uid > 0xFFFF || node.gid > 0xFFFF {
        return Err(NodeProblem::Owner(node.uid, node.gid));
    }
    for (_, name, value) in xattrs(node, shape.order)? {
        let text = String::from_utf8_lossy(&name).into_owned();
        if name.len() > 0xFF {
            return Err(NodeProblem::AttributeName(text));
        }
        let room = Blocks::fresh_room(shape, XATTR_RECORD);
        if value.len() > 0xFFFF || encode::xattr_len(name.len(), value.len()) > room {
            return Err(NodeProblem::AttributeValue(text, value.len()));
        }
    }
    Ok(())
}
