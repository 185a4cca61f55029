//! Every node of a JFFS2, and the places that should be one.

use crate::error::RepairError;
use crate::flash::read_block;
use crate::plan::without_place;
use eraseblock_base::{Location, Peb};
use eraseblock_jffs2::{Shape, Source};
use eraseblock_jffs2_format::constants::pad;
use eraseblock_jffs2_format::scan::{Item, ScanRules, Scanner};
use eraseblock_jffs2_format::summary::{Record, RecordNode};
use eraseblock_jffs2_format::{FormatError, Inode, NodeKind, decode, summary};
use std::collections::BTreeMap;

/// A directory entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) version: u32,
    /// 0 for a deletion.
    pub(super) ino: u32,
    pub(super) mctime: u32,
    pub(super) file_type: u8,
}

/// An inode number.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    /// The newest node whose checksums hold.
    pub(super) newest: Option<Inode>,
    /// The newest node of which only the data is damaged.
    pub(super) broken: Option<Inode>,
    /// The highest version of its nodes and of its entries.
    pub(super) version: u32,
    pub(super) has_nodes: bool,
}

/// A place that is no usable node.
#[derive(Clone, Debug)]
pub(super) struct Bad {
    pub(super) peb: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) code: &'static str,
    pub(super) why: String,
    /// Whether its header can be read.
    pub(super) is_node: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) kind: Option<NodeKind>,
}

/// What a scan finds.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) shape: Shape,
    pub(super) blocks: u32,
    pub(super) objects: BTreeMap<u32, Object>,
    /// The newest entry of each name, by directory and name.
    pub(super) entries: BTreeMap<(u32, Vec<u8>), Entry>,
    /// References to xattrs: inode, pair.
    pub(super) xrefs: Vec<(u32, u32)>,
    pub(super) bad: Vec<Bad>,
    /// Blocks whose summary is damaged or lists a node that is not there, and why.
    pub(super) summaries: BTreeMap<u32, String>,
    /// Names and deletions of which only a summary is left, by directory and name: the newest of each,
    /// if no entry is newer. A deletion is there only if it deletes something.
    pub(super) listed: BTreeMap<(u32, Vec<u8>), Entry>,
    /// Blocks that hold nothing, before the first of something else.
    pub(super) free: Vec<u32>,
    /// Whether there is a block with something else: what follows may be none of the file system's.
    pub(super) is_followed: bool,
}

impl Model {
    pub(super) fn read(source: &Source, shape: &Shape) -> Result<Self, RepairError> {
        let size = match source {
            Source::Image(image) => image.size()?,
            Source::Device(device) => device.geometry().size(),
        };
        let blocks = size.saturating_sub(shape.start).div_ceil(shape.erase_size.into()) as u32;
        let mut model = Self {
            shape: *shape,
            blocks,
            objects: BTreeMap::new(),
            entries: BTreeMap::new(),
            xrefs: Vec::new(),
            bad: Vec::new(),
            summaries: BTreeMap::new(),
            listed: BTreeMap::new(),
            free: Vec::new(),
            is_followed: false,
        };
        for peb in 0..blocks {
            if let Some(block) = read_block(source, shape.start, shape.erase_size, peb)? {
                model.block(peb, &block);
            }
        }
        let entries = &model.entries;
        model.listed.retain(|name, listed| {
            entries.get(name).map_or(listed.ino != 0, |entry| entry.version < listed.version)
        });
        Ok(model)
    }

    fn block(&mut self, peb: u32, block: &[u8]) {
        let order = self.shape.order;
        let rules = ScanRules {
            order,
            cleanmarker: self.shape.is_certain.then_some(self.shape.cleanmarker),
            trust_empty_start: self.shape.is_certain,
        };
        let mut listed = self.summary(peb, block);
        let (mut is_free, mut has_node, first) = (true, false, self.bad.len());
        for item in Scanner::new(Peb::new(peb), block, rules) {
            match item {
                Item::Node { offset, header, bytes } => {
                    is_free &= header.kind() == NodeKind::Cleanmarker;
                    has_node = true;
                    let at = Location::Peb(Peb::new(peb), offset);
                    let record = Record::of(order, header.kind(), bytes, offset).ok().flatten();
                    let known = listed.remove(&offset);
                    let is_other = known.as_ref().zip(record.as_ref());
                    if is_other.is_some_and(|(listed, record)| *listed != record.node) {
                        let why = format!("it lists another node at {offset} than is there");
                        self.summaries.insert(peb, why);
                    }
                    if let Err(error) = self.node(header.kind(), bytes, at) {
                        self.listed(known);
                        let len = pad(header.totlen).unwrap_or(header.totlen);
                        let (code, why) = ("node-damaged", without_place(at, error));
                        let (kind, bytes) = (Some(header.kind()), bytes.to_vec());
                        let is_node = true;
                        self.bad.push(Bad { peb, offset, len, code, why, is_node, bytes, kind });
                    }
                }
                Item::Dirt { offset, len, expected: false } => {
                    is_free = false;
                    let bytes = block[offset as usize..][..len as usize].to_vec();
                    let (code, why) = ("no-node", format!("{len} bytes are no node"));
                    let (is_node, kind) = (false, None);
                    self.bad.push(Bad { peb, offset, len, code, why, is_node, bytes, kind });
                }
                Item::Obsolete { offset, .. } => {
                    listed.remove(&offset);
                    is_free = false;
                }
                Item::Dirt { .. } => is_free = false,
                Item::Free { .. } => {}
            }
        }
        if let Some(offset) = listed.keys().next() {
            let why = format!("it lists a node at {offset}, where none is");
            self.summaries.entry(peb).or_insert(why);
        }
        for node in listed.into_values() {
            self.listed(Some(node));
        }
        let is_foreign = !has_node && self.bad.len() > first;
        if is_foreign {
            // Linux leaves such a block alone, and it may hold something else.
            self.bad.truncate(first);
            self.is_followed = true;
        } else if is_free && !self.is_followed {
            self.free.push(peb);
        }
    }

    /// Returns the nodes that the summary of a block lists, by offset. Linux believes it unseen.
    fn summary(&mut self, peb: u32, block: &[u8]) -> BTreeMap<u32, RecordNode> {
        let order = self.shape.order;
        if summary::marked_offset(order, block).is_none() {
            return BTreeMap::new();
        }
        match summary::decode(order, block, Peb::new(peb)) {
            Ok(found) => {
                found.records.into_iter().map(|record| (record.offset, record.node)).collect()
            }
            Err(error) => {
                self.summaries.insert(peb, error.to_string());
                BTreeMap::new()
            }
        }
    }

    /// Keeps a name whose node is damaged or gone.
    fn listed(&mut self, node: Option<RecordNode>) {
        let Some(RecordNode::Dirent { pino, version, ino, file_type, name }) = node else { return };
        let entry = Entry { version, ino, mctime: 0, file_type };
        let known = self.listed.entry((pino, name)).or_insert_with(|| entry.clone());
        if known.version < version {
            *known = entry;
        }
    }

    fn node(&mut self, kind: NodeKind, bytes: &[u8], at: Location) -> Result<(), FormatError> {
        let order = self.shape.order;
        match kind {
            NodeKind::Inode => {
                let inode = decode::inode(order, bytes, at)?;
                let usable = decode::inode_lengths(&inode, at)
                    .and_then(|()| decode::inode_data(&inode, bytes, at).map(drop));
                let object = self.objects.entry(inode.ino).or_default();
                object.version = object.version.max(inode.version);
                object.has_nodes = true;
                let slot = if usable.is_ok() { &mut object.newest } else { &mut object.broken };
                if slot.is_none_or(|known| known.version <= inode.version) {
                    *slot = Some(inode);
                }
                usable
            }
            NodeKind::Dirent => {
                let found = decode::dirent(order, bytes, at)?;
                let dir = self.objects.entry(found.pino).or_default();
                dir.version = dir.version.max(found.version);
                let entry = Entry {
                    version: found.version,
                    ino: found.ino,
                    mctime: found.mctime,
                    file_type: found.file_type,
                };
                let known = self.entries.entry((found.pino, found.name.to_vec()));
                // Of equal versions the last one counts.
                known
                    .and_modify(|known| {
                        if known.version <= entry.version {
                            *known = entry.clone();
                        }
                    })
                    .or_insert(entry);
                Ok(())
            }
            NodeKind::Xattr => decode::xattr(order, bytes, at).map(drop),
            NodeKind::Xref => {
                let xref = decode::xref(order, bytes, at)?;
                self.xrefs.push((xref.ino, xref.xid));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns the next version of an inode or directory.
    pub(super) fn next_version(&mut self, ino: u32) -> u32 {
        let object = self.objects.entry(ino).or_default();
        object.version = object.version.saturating_add(1);
        object.version
    }

    /// Returns whether a reader knows the inode: it has a node, or entries.
    pub(super) fn exists(&self, ino: u32) -> bool {
        self.objects.contains_key(&ino)
    }
}
