//! What is in an image, and how each page is stored.

use super::{MkfsError, MkfsOptions, NodeProblem, PAGE};
use crate::pages::PageKind;
use eraseblock_codec::zlib::Encoder;
use eraseblock_vfs::source::{Content, NodeId, SourceKind, SourceTree, read_part};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How hard pages are compressed.
const LEVEL: u8 = 9;

/// An inode: a name of a node.
#[derive(Debug)]
pub(super) struct Inode<'a> {
    pub(super) node: NodeId,
    pub(super) name: &'a [u8],
    parent: usize,
    /// Bytes of the content; of a device, its number.
    pub(super) size: u32,
    /// The first entry, or the first page.
    pub(super) array: u32,
    /// Number of entries.
    pub(super) entries: u32,
    is_xip: bool,
}

/// A page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) kind: PageKind,
    /// Stored bytes.
    pub(super) len: u32,
}

/// What takes the pages of a file: their numbers in the file, and their bytes.
type Sink<'a> = dyn FnMut(usize, &[u8]) -> Result<(), MkfsError> + 'a;

/// All inodes, those of a directory one after the other, and the pages of each.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) tree: &'a SourceTree,
    pub(super) inodes: Vec<Inode<'a>>,
    pub(super) pages: Vec<Page>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        tree: &'a SourceTree,
        options: &MkfsOptions,
        advance: &dyn Fn(u64),
    ) -> Result<Self, MkfsError> {
        let chosen = chosen(tree, options)?;
        let mut plan = Self { tree, inodes: Vec::new(), pages: Vec::new() };
        plan.add(NodeId::ROOT, b"./", 0, chosen.contains(&NodeId::ROOT));
        // Directories come before their entries, which are counted while the list grows.
        let mut next = 0;
        while next < plan.inodes.len() {
            let dir = plan.inodes[next].node;
            let (start, entries) = (plan.inodes.len(), tree.entries(dir));
            plan.inodes[next].entries = entries.len() as u32;
            if entries.len() > 0 {
                plan.inodes[next].array = start as u32;
            }
            for (name, node) in entries {
                plan.add(node, name, next, chosen.contains(&node));
            }
            next += 1;
        }
        for index in 0..plan.inodes.len() {
            plan.inodes[index].size = plan.size(index)?;
            plan.measure(index, advance)?;
        }
        Ok(plan)
    }

    fn add(&mut self, node: NodeId, name: &'a [u8], parent: usize, is_xip: bool) {
        let inode = Inode { node, name, parent, size: 0, array: 0, entries: 0, is_xip };
        self.inodes.push(inode);
    }

    /// Returns the path of an inode, for messages.
    pub(super) fn path(&self, mut index: usize) -> Vec<u8> {
        let mut names = Vec::new();
        while index != 0 {
            names.push(self.inodes[index].name);
            index = self.inodes[index].parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    fn size(&self, index: usize) -> Result<u32, MkfsError> {
        let inode = &self.inodes[index];
        let fail = |problem| MkfsError::Node { path: self.path(index), problem };
        let size = match &self.tree.node(inode.node).kind {
            SourceKind::Directory(names) => names.keys().map(|name| name.len() as u64 + 1).sum(),
            SourceKind::Regular(content) => content.size(),
            SourceKind::Symlink(target) => target.len() as u64,
            SourceKind::BlockDevice(major, minor) | SourceKind::CharDevice(major, minor) => {
                if *major > 255 || *minor > 255 {
                    return Err(fail(NodeProblem::Device(*major, *minor)));
                }
                u64::from(major << 8 | minor)
            }
            SourceKind::Fifo | SourceKind::Socket => 0,
        };
        u32::try_from(size).map_err(|_| fail(NodeProblem::FileSize(size)))
    }

    /// Decides how each page of a file is stored.
    fn measure(&mut self, index: usize, advance: &dyn Fn(u64)) -> Result<(), MkfsError> {
        let Some(content) = self.content(index) else { return Ok(()) };
        if content.size() == 0 {
            return Ok(());
        }
        let (is_xip, first) = (self.inodes[index].is_xip, self.pages.len());
        let (mut pages, mut packer) = (Vec::new(), Packer::new());
        self.each_page(index, &mut |_, bytes| {
            let page = if is_xip && bytes.len() == PAGE {
                Page { kind: PageKind::Xip, len: PAGE as u32 }
            } else if !is_xip && packer.pack(bytes) {
                Page { kind: PageKind::Compressed, len: packer.out.len() as u32 }
            } else {
                Page { kind: PageKind::ByteAligned, len: bytes.len() as u32 }
            };
            pages.push(page);
            advance(bytes.len() as u64);
            Ok(())
        })?;
        self.inodes[index].array = u32::try_from(first).unwrap_or(u32::MAX);
        self.pages.extend(pages);
        Ok(())
    }

    /// Returns the pages of an inode, by number.
    pub(super) fn pages_of(&self, index: usize) -> std::ops::Range<usize> {
        let inode = &self.inodes[index];
        let count = match self.content(index) {
            Some(_) => (inode.size as usize).div_ceil(PAGE),
            None => 0,
        };
        inode.array as usize..inode.array as usize + count
    }

    /// Returns what an inode contains, if it has pages.
    fn content(&self, index: usize) -> Option<Arc<dyn Content>> {
        match &self.tree.node(self.inodes[index].node).kind {
            SourceKind::Regular(content) => Some(Arc::clone(content)),
            SourceKind::Symlink(target) => Some(Arc::new(target.clone())),
            _ => None,
        }
    }

    /// Calls `sink` with the number and the bytes of each page of a file.
    pub(super) fn each_page(&self, index: usize, sink: &mut Sink<'_>) -> Result<(), MkfsError> {
        let Some(content) = self.content(index) else { return Ok(()) };
        let failed = |error| MkfsError::Read { path: self.path(index), error };
        let mut reader = content.open().map_err(failed)?;
        let (mut buffer, mut left) = (vec![0; PAGE], content.size());
        for page in 0.. {
            let len = left.min(PAGE as u64) as usize;
            left -= len as u64;
            if !read_part(&mut *reader, &mut buffer[..len], left == 0).map_err(failed)? {
                return Err(MkfsError::Changed { path: self.path(index) });
            }
            if len > 0 {
                sink(page, &buffer[..len])?;
            }
            if left == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// Compresses pages.
pub(super) struct Packer {
    encoder: Encoder,
    pub(super) out: Vec<u8>,
}

impl Packer {
    pub(super) fn new() -> Self {
        let encoder = Encoder::new(LEVEL).expect("the level exists");
        Self { encoder, out: Vec::new() }
    }

    /// Compresses a page; returns false if it does not get smaller.
    pub(super) fn pack(&mut self, page: &[u8]) -> bool {
        self.encoder.compress(page, page.len() - 1, &mut self.out)
    }
}

/// Returns the files for execution in place.
fn chosen(tree: &SourceTree, options: &MkfsOptions) -> Result<BTreeSet<NodeId>, MkfsError> {
    let find = |path: &Vec<u8>| {
        let mut parts =
            path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
        let node = parts.try_fold(NodeId::ROOT, |dir, name| tree.lookup(dir, name));
        let is_file = |node: &NodeId| matches!(tree.node(*node).kind, SourceKind::Regular(_));
        node.filter(is_file).ok_or_else(|| {
            let start = path.iter().take_while(|byte| **byte == b'/').count();
            MkfsError::NotAFile { path: path[start..].to_vec() }
        })
    };
    options.xip.iter().map(find).collect()
}
