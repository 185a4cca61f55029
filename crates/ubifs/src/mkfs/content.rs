//! Leaf nodes: contents, inodes, entries and xattrs (spec: ubifs-format 6, 17.4).

use super::area::MainArea;
use super::error::MkfsError;
use super::options::{FormatVersion, MkfsOptions};
use super::pipeline::{Pipeline, Receiver};
use super::plan::{Event, Plan, entry_bytes, walk, xattrs};
use super::report::{DataStatistics, Phase, Progress};
use crate::fs::entry_kind;
use eraseblock_base::{align, crc};
use eraseblock_ubifs_format::constants::{NODE_ALIGN, inode_flags};
use eraseblock_ubifs_format::encode::{self, Seal};
use eraseblock_ubifs_format::node::encode_device;
use eraseblock_ubifs_format::{Branch, Compression, Dent, EntryKind, Inode, Key, Time, raw};
use eraseblock_vfs::source::{NodeId, SourceKind, SourceNode};
use eraseblock_vfs::{FileKind, Timestamp};
use std::thread;

/// The finished leaf nodes.
pub(super) struct Written {
    /// One branch per leaf, in writing order: equal keys in the order of their names.
    pub(super) leaves: Vec<Branch>,
    pub(super) statistics: DataStatistics,
}

/// Writes everything that is not index.
pub(super) fn write(
    plan: &Plan<'_>,
    options: &MkfsOptions,
    area: &mut MainArea<'_>,
    progress: &dyn Progress,
) -> Result<Written, MkfsError> {
    progress.phase(Phase::Content);
    let threads = options.threads().max(1);
    let pipeline = Pipeline::new(plan, threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| pipeline.work());
        }
        let mut writer = Writer {
            plan,
            options,
            area,
            receiver: Receiver::new(&pipeline),
            progress,
            leaves: Vec::new(),
            statistics: DataStatistics {
                content_bytes: plan.content_bytes,
                ..DataStatistics::default()
            },
            scratch: Vec::new(),
        };
        walk(plan.tree, &mut |event, _| match event {
            Event::Meet(_) => Ok(()),
            Event::Inode(id) => writer.node(id),
            Event::Entry { dir, name, target } => writer.entry(dir, name, target),
        })?;
        let mut statistics = writer.statistics;
        statistics.holes = plan.counts.blocks - statistics.blocks.iter().sum::<u64>();
        Ok(Written { leaves: writer.leaves, statistics })
    })
}

struct Writer<'a, 't, 'p, 's> {
    plan: &'t Plan<'t>,
    options: &'a MkfsOptions,
    area: &'a mut MainArea<'s>,
    receiver: Receiver<'p, 't>,
    progress: &'a dyn Progress,
    leaves: Vec<Branch>,
    statistics: DataStatistics,
    scratch: Vec<u8>,
}

impl Writer<'_, '_, '_, '_> {
    /// Writes content, xattrs and inode of a node.
    fn node(&mut self, id: NodeId) -> Result<(), MkfsError> {
        let node = self.plan.tree.node(id);
        let mut size = 0;
        if let SourceKind::Regular(content) = &node.kind {
            size = content.size();
            if size > 0 {
                self.content(id)?;
                self.progress.advance(size);
            }
        }
        let hosted = self.attributes(id, node)?;
        self.inode(id, node, size, hosted)
    }

    fn content(&mut self, id: NodeId) -> Result<(), MkfsError> {
        let Self { area, receiver, leaves, statistics, .. } = self;
        receiver.file(id, &mut |block, node| {
            let place = area.place(node)?;
            let (key, len) = (block.key, block.len as u32);
            leaves.push(Branch { key, leb: place.leb, offset: place.offset, len });
            let index = usize::from(block.compression.number());
            statistics.blocks[index] += 1;
            statistics.stored_bytes[index] += (block.len - raw::DataNode::SIZE) as u64;
            Ok(())
        })
    }

    /// Writes entry and inode of each xattr; returns the sums for the host's inode.
    fn attributes(&mut self, id: NodeId, node: &SourceNode) -> Result<Hosted, MkfsError> {
        let mut hosted = Hosted::default();
        let host = self.plan.ino(id);
        for (ino, (name, value)) in (self.plan.first_xattr_ino(id)..).zip(xattrs(node)) {
            hosted.add(name, value);
            let hash = self.options.key_hash.hash(name);
            let (key, kind) = (Key::xent(host, hash), EntryKind::Regular);
            self.dent(&Dent { key, ino, kind, cookie: self.cookie(host, name), name })?;
            let inode = Inode {
                size: value.len() as u64,
                nlink: 1,
                mode: FileKind::Regular.mode_bits() | 0o777,
                flags: inode_flags::XATTR,
                compr_type: self.options.compressor.on_flash(),
                data_len: value.len() as u32,
                data: value,
                ..common(ino, node)
            };
            self.append_inode(&inode)?;
        }
        Ok(hosted)
    }

    fn inode(
        &mut self,
        id: NodeId,
        node: &SourceNode,
        content_size: u64,
        hosted: Hosted,
    ) -> Result<(), MkfsError> {
        let device;
        let (mut size, mut data) = (content_size, &[][..]);
        let mut nlink = self.plan.names[id.index()];
        match &node.kind {
            SourceKind::Directory(_) => (size, nlink) = self.directory(id),
            SourceKind::Symlink(target) => (size, data) = (target.len() as u64, target),
            SourceKind::BlockDevice(major, minor) | SourceKind::CharDevice(major, minor) => {
                device = encode_device(*major, *minor).to_le_bytes();
                // A whiteout has no size.
                let is_whiteout =
                    node.file_kind() == FileKind::CharDevice && (*major, *minor) == (0, 0);
                (size, data) = (if is_whiteout { 0 } else { 4 }, &device);
            }
            SourceKind::Regular(_) | SourceKind::Fifo | SourceKind::Socket => {}
        }
        let compr_type = self.plan.compressor(id).on_flash();
        self.append_inode(&Inode {
            size,
            nlink,
            mode: node.file_kind().mode_bits() | (node.permissions & 0o7777),
            flags: flags(node, compr_type),
            xattr_cnt: hosted.count,
            xattr_size: hosted.size,
            xattr_names: hosted.names,
            compr_type,
            data_len: data.len() as u32,
            data,
            ..common(self.plan.ino(id), node)
        })
    }

    /// Returns the size and link count of a directory (spec: ubifs-format 6.1, 6.2).
    fn directory(&self, id: NodeId) -> (u64, u32) {
        let (mut size, mut nlink) = (raw::InodeNode::SIZE as u64, 2);
        for (name, target) in self.plan.tree.entries(id) {
            size += entry_bytes(name.len());
            let is_dir = matches!(self.plan.tree.node(target).kind, SourceKind::Directory(_));
            nlink += u32::from(is_dir);
        }
        (size, nlink)
    }

    fn entry(&mut self, dir: NodeId, name: &[u8], target: NodeId) -> Result<(), MkfsError> {
        let kind = entry_kind(self.plan.tree.node(target).file_kind());
        let parent = self.plan.ino(dir);
        let key = Key::dent(parent, self.options.key_hash.hash(name));
        let ino = self.plan.ino(target);
        self.dent(&Dent { key, ino, kind, cookie: self.cookie(parent, name), name })
    }

    /// Returns a number that distinguishes names of equal hash: any number would do, but this one
    /// is always the same.
    fn cookie(&self, parent: u32, name: &[u8]) -> u32 {
        match self.options.version {
            FormatVersion::V4 => 0,
            FormatVersion::V5 => crc::crc32_continue(crc::crc32(&parent.to_le_bytes()), name),
        }
    }

    fn dent(&mut self, node: &Dent<'_>) -> Result<(), MkfsError> {
        self.scratch.clear();
        encode::dent(&mut self.scratch, node, Seal::single(0));
        self.leaf(node.key)
    }

    fn append_inode(&mut self, node: &Inode<'_>) -> Result<(), MkfsError> {
        self.scratch.clear();
        encode::inode(&mut self.scratch, node, Seal::single(0));
        self.leaf(Key::inode(node.ino))
    }

    fn leaf(&mut self, key: Key) -> Result<(), MkfsError> {
        let place = self.area.place(&self.scratch)?;
        let len = self.scratch.len() as u32;
        self.leaves.push(Branch { key, leb: place.leb, offset: place.offset, len });
        Ok(())
    }
}

/// The sums about xattrs in a host's inode (spec: ubifs-format 6.6).
#[derive(Clone, Copy, Default)]
struct Hosted {
    count: u32,
    size: u32,
    names: u32,
}

impl Hosted {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        self.count += 1;
        self.names += name.len() as u32;
        // One byte more than the value: part of the format.
        let inode = (raw::InodeNode::SIZE + value.len() + 1) as u32;
        self.size += entry_bytes(name.len()) as u32 + align::align_up(inode, NODE_ALIGN);
    }
}

/// Returns the fields common to all inodes; the rest is as for an empty one.
fn common<'a>(ino: u32, node: &SourceNode) -> Inode<'a> {
    // Times are whole seconds: that is the granularity the superblock states.
    let time = |time: Timestamp| Time { seconds: time.seconds, nanoseconds: 0 };
    Inode {
        ino,
        creat_sqnum: Plan::creat_sqnum(ino),
        size: 0,
        atime: time(node.atime),
        ctime: time(node.ctime),
        mtime: time(node.mtime),
        nlink: 1,
        uid: node.uid,
        gid: node.gid,
        mode: 0,
        flags: 0,
        xattr_cnt: 0,
        xattr_size: 0,
        xattr_names: 0,
        compr_type: Compression::None,
        data_len: 0,
        data: &[],
    }
}

fn flags(node: &SourceNode, compr_type: Compression) -> u32 {
    let is_dir = matches!(node.kind, SourceKind::Directory(_));
    let takes_flags = is_dir || matches!(node.kind, SourceKind::Regular(_));
    let set = [
        (compr_type != Compression::None, inode_flags::COMPRESS),
        (takes_flags && node.flags.sync, inode_flags::SYNC),
        (takes_flags && node.flags.immutable, inode_flags::IMMUTABLE),
        (takes_flags && node.flags.append, inode_flags::APPEND),
        (is_dir && node.flags.dirsync, inode_flags::DIRSYNC),
    ];
    set.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum()
}
