//! One inode: reads its nodes, selects the newest attributes, maps its content (spec: jffs2 8).

use crate::codes;
use crate::damage::{Broken, DamagedPart, Placed, Range, gaps, is_torn, judge, unread};
use crate::mount::Jffs2;
use eraseblock_base::{Location, Peb};
use eraseblock_codec::{Codec, CodecError, lzma, rtime, rubin, zlib};
use eraseblock_jffs2_format::constants::{INODE_LEN, ROOT_INO, compression};
use eraseblock_jffs2_format::{Inode, decode, device};
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{Attr, FileKind, FsError, FsErrorKind, Ino, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of fragments in the cache.
const CACHE_FRAGMENTS: usize = 1 << 16;
/// Maximum number of inodes in the cache.
const CACHE_INODES: usize = 1024;

/// A range of a file and the node it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fragment {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The place of the node; `None` for a hole.
    pub(crate) place: Option<u32>,
}

/// The current state of an inode.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) attr: Attr,
    /// In ascending order without overlap; gaps are holes.
    pub(crate) fragments: Vec<Fragment>,
}

/// The place of a range that no known node held, although broken nodes may have held it.
const UNKNOWN: u32 = u32::MAX;

/// The nodes of an inode, oldest version first.
#[derive(Debug, Default)]
struct Nodes {
    data: Vec<Placed>,
    metadata: Option<Inode>,
    broken: Vec<Broken>,
}

/// Recently used inodes.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<(HashMap<u32, Arc<Loaded>>, usize)>);

impl Cache {
    fn get(&self, ino: u32) -> Option<Arc<Loaded>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.get(&ino).cloned()
    }

    fn put(&self, ino: u32, loaded: &Arc<Loaded>) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.1 += loaded.fragments.len();
        if cache.1 > CACHE_FRAGMENTS || cache.0.len() >= CACHE_INODES {
            cache.0.clear();
            cache.1 = loaded.fragments.len();
        }
        cache.0.insert(ino, Arc::clone(loaded));
    }
}

fn damaged(ino: u32, message: &str) -> FsError {
    FsError::new(FsErrorKind::Corrupted, format!("inode {ino}: {message}"))
}

/// The map of a file while nodes are added to it.
#[derive(Default)]
pub(crate) struct Map(BTreeMap<u32, Stretch>);

/// The rest of a range that starts at a key of the map.
#[derive(Clone, Copy)]
struct Stretch {
    end: u32,
    place: Option<u32>,
}

impl Map {
    /// Overwrites a range of the map.
    pub(crate) fn lay(&mut self, range: Range, place: Option<u32>) {
        let Range { start, end } = range;
        if start >= end {
            return;
        }
        let before = self.0.range(..start).next_back().map(|(at, part)| (*at, *part));
        if let Some((at, old)) = before.filter(|(_, old)| old.end > start) {
            self.0.insert(at, Stretch { end: start, ..old });
            if old.end > end {
                self.0.insert(end, old);
            }
        }
        while let Some((at, old)) = self.0.range(start..end).next().map(|(at, old)| (*at, *old)) {
            self.0.remove(&at);
            if old.end > end {
                self.0.insert(end, old);
            }
        }
        self.0.insert(start, Stretch { end, place });
    }

    /// Returns ranges in ascending order, with their places.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (Range, Option<u32>)> {
        self.0.iter().map(|(start, part)| (Range { start: *start, end: part.end }, part.place))
    }

    fn end(&self) -> u32 {
        self.0.last_key_value().map_or(0, |(_, part)| part.end)
    }
}

impl Jffs2 {
    /// Returns the place of a node for findings and errors.
    pub(crate) fn location(&self, place: u32) -> Location {
        let size = self.info.shape.erase_size;
        Location::Peb(Peb::new(place / size), place % size)
    }

    /// Reads `buf` from an offset from the first block.
    pub(crate) fn read_place(&self, place: u32, buf: &mut [u8]) -> Result<(), FsError> {
        let addr = self.info.shape.start + u64::from(place);
        self.source.read(addr, buf).map_err(|error| {
            FsError::new(FsErrorKind::Io, format!("{}: {error}", self.location(place)))
        })
    }

    /// Returns the INODE node at `place`, its checksum verified.
    fn node(&self, place: u32) -> Result<Inode, FsError> {
        let mut head = [0; INODE_LEN as usize];
        self.read_place(place, &mut head)?;
        decode::inode(self.info.shape.order, &head, self.location(place))
            .map_err(|error| FsError::from_source(FsErrorKind::Corrupted, error))
    }

    /// Returns the stored bytes of the node at `place`, all checksums verified.
    pub(crate) fn payload(&self, place: u32) -> Result<(Inode, Vec<u8>), FsError> {
        let inode = self.node(place)?;
        let at = self.location(place);
        let corrupted = |error| FsError::from_source(FsErrorKind::Corrupted, error);
        decode::inode_lengths(&inode, at).map_err(corrupted)?;
        if inode.csize > self.info.shape.erase_size {
            return Err(damaged(inode.ino, "a node is longer than a block"));
        }
        let mut bytes = vec![0; (INODE_LEN + inode.csize) as usize];
        self.read_place(place, &mut bytes)?;
        decode::inode_data(&inode, &bytes, at).map_err(corrupted)?;
        bytes.drain(..INODE_LEN as usize);
        Ok((inode, bytes))
    }

    /// Returns the data of the node that holds a range of a file, like [`Self::data`]; the error
    /// names the range.
    pub(crate) fn part(
        &self,
        ino: Ino,
        part: Range,
        place: u32,
    ) -> Result<(u32, Vec<u8>), FsError> {
        if place == UNKNOWN {
            return Err(unread(ino, part, &self.unassigned));
        }
        self.data(place).map_err(|error| match error.kind() {
            FsErrorKind::Corrupted => unread(ino, part, &error),
            _ => error,
        })
    }

    /// Returns the data of the node at `place`, decompressed, and its offset in the file.
    fn data(&self, place: u32) -> Result<(u32, Vec<u8>), FsError> {
        let (inode, stored) = self.payload(place)?;
        let mut out = vec![0; inode.dsize as usize];
        decompress(inode.compression, &stored, &mut out).map_err(|error| {
            let text = format!("{}: {error}", self.location(place));
            FsError::new(FsErrorKind::Corrupted, text)
        })?;
        Ok((inode.offset, out))
    }

    /// Returns the current state of the inode with this number.
    pub(crate) fn load(&self, ino: u64) -> Result<Arc<Loaded>, FsError> {
        let missing = || FsError::new(FsErrorKind::NotFound, format!("no inode {ino}"));
        let ino = u32::try_from(ino).map_err(|_| missing())?;
        if let Some(loaded) = self.cache.get(ino) {
            return Ok(loaded);
        }
        self.tables.inode(ino).ok_or_else(missing)?;
        let loaded = Arc::new(self.resolve(ino, &self.collect(ino)?)?);
        self.cache.put(ino, &loaded);
        Ok(loaded)
    }

    /// Returns the parts of a file whose newest nodes are damaged; of a file of `size` bytes, if that is
    /// known from elsewhere. Parts that damage without an owner may have held are lost as well.
    ///
    /// # Errors
    ///
    /// Fails if there is no such inode, or if it cannot be read.
    pub fn damaged_parts(&self, ino: Ino, size: u32) -> Result<Vec<DamagedPart>, FsError> {
        let missing = || FsError::new(FsErrorKind::NotFound, format!("no inode {ino}"));
        let ino = u32::try_from(ino).map_err(|_| missing())?;
        let nodes = self.collect(ino)?;
        let verdict = judge(&nodes.data, &nodes.broken, size);
        let mut parts = verdict.parts();
        let mut held = Map::default();
        for Placed { node, place } in &nodes.data {
            let range = Range { start: node.offset, end: node.offset.saturating_add(node.dsize) };
            held.lay(range, Some(*place));
        }
        for part in &parts {
            held.lay(Range { start: part.start, end: part.end }, Some(UNKNOWN));
        }
        let end = held.end();
        for Range { start, end: last } in gaps(held.ranges().map(|part| part.0), size) {
            if start >= end || !self.unassigned.is_empty() {
                parts.push(DamagedPart { start, end: last, is_lost: true, is_torn: false });
            }
        }
        Ok(parts)
    }

    /// Reads the nodes of an inode.
    fn collect(&self, ino: u32) -> Result<Nodes, FsError> {
        let (mut nodes, mut lost) = (Nodes::default(), None);
        for entry in self.tables.nodes(ino) {
            let place = entry & !1;
            let node = match self.node(place) {
                Ok(node) => node,
                Err(error) => {
                    lost = Some(error);
                    continue;
                }
            };
            if entry & 1 != 0 {
                nodes.broken.push(Broken {
                    place,
                    node: Some(node),
                    is_torn: self.is_torn(&node, place)?,
                });
            } else if node.dsize > 0 {
                nodes.data.push(Placed { node, place });
            } else if nodes.metadata.is_none_or(|kept| kept.version < node.version) {
                // The first one of a version is kept (spec: jffs2 8.1).
                nodes.metadata = Some(node);
            }
        }
        lost.map_or(Ok(nodes), Err)
    }

    /// Returns whether a broken node looks torn.
    fn is_torn(&self, node: &Inode, place: u32) -> Result<bool, FsError> {
        let block = self.info.shape.erase_size;
        let len = node.csize.min(block - place % block - INODE_LEN.min(block - place % block));
        let mut bytes = vec![0; (INODE_LEN + len) as usize];
        self.read_place(place, &mut bytes)?;
        Ok(is_torn(&bytes))
    }

    /// Computes the inode from its nodes.
    fn resolve(&self, ino: u32, nodes: &Nodes) -> Result<Loaded, FsError> {
        let newest = nodes.data.last().map(|it| it.node);
        let metadata =
            nodes.metadata.filter(|node| newest.is_none_or(|data| data.version <= node.version));
        // The fields of a node with damaged data are right: better than nothing.
        let broken = || nodes.broken.last().and_then(|broken| broken.node);
        if let Some(winner) = metadata.or(newest).or_else(broken) {
            return self.finish(ino, &winner, metadata.is_some(), nodes);
        }
        let is_directory =
            self.tables.mctime(ino) != (0, 0) || !self.tables.entries(ino).is_empty();
        if ino != ROOT_INO && !is_directory {
            return Err(damaged(ino, "no usable node"));
        }
        if ino != ROOT_INO {
            let message = "a directory without a node: mode 0755 and owner 0 are made up";
            self.warn(Location::Inode(ino.into()), codes::ATTRIBUTES_LOST, message.to_owned());
        }
        // Linux creates one, whose times are 0 regardless of the names (spec: jffs2 6).
        let made_up = Inode { mode: 0o040_755, version: u32::MAX, ..Inode::default() };
        Ok(Loaded { attr: self.attributes(ino, &made_up)?, fragments: Vec::new() })
    }

    /// Returns the ranges of a file and their nodes. Lost ranges are assigned to a node that cannot
    /// be read. `size` is that of a regular file.
    fn map(&self, ino: u32, nodes: &Nodes, size: Option<u32>) -> Map {
        let mut map = Map::default();
        for Placed { node, place } in &nodes.data {
            let is_hole = node.compression == compression::ZERO;
            let end = node.offset.saturating_add(node.dsize);
            map.lay(Range { start: node.offset, end }, (!is_hole).then_some(*place));
        }
        // Only a regular file has content that could show as a hole.
        let verdict = size.map(|size| judge(&nodes.data, &nodes.broken, size)).unwrap_or_default();
        for part in &verdict.lost {
            map.lay(Range { start: part.start, end: part.end }, Some(part.place));
        }
        if let Some((severity, message)) = verdict.doubt(|place| self.location(place)) {
            self.say(severity, Location::Inode(ino.into()), codes::OLDER_CONTENT, message);
        }
        if let Some(size) = size
            && !self.unassigned.is_empty()
        {
            for gap in gaps(map.ranges().map(|part| part.0), size) {
                map.lay(gap, Some(UNKNOWN));
            }
        }
        map
    }

    fn attributes(&self, ino: u32, winner: &Inode) -> Result<Attr, FsError> {
        let kind = FileKind::from_mode(winner.mode)
            .ok_or_else(|| damaged(ino, &format!("mode {:o} names no file type", winner.mode)))?;
        let info = self.tables.inode(ino).unwrap_or_default();
        let second = |seconds: u32| Timestamp::from_seconds(seconds.into());
        let mut attr = Attr {
            ino: ino.into(),
            kind,
            permissions: winner.mode & 0o7777,
            nlink: info.links,
            uid: winner.uid.into(),
            gid: winner.gid.into(),
            size: winner.isize.into(),
            rdev: (0, 0),
            atime: second(winner.atime),
            mtime: second(winner.mtime),
            ctime: second(winner.ctime),
            flags: InodeFlags::default(),
        };
        if kind == FileKind::Directory {
            attr.size = 0;
            attr.nlink = 2 + self.tables.subdirectories(ino) + u32::from(ino == ROOT_INO);
            let (version, time) = self.tables.mctime(ino);
            if time != 0 && version > winner.version {
                attr.mtime = second(time);
                attr.ctime = second(time);
            }
        }
        Ok(attr)
    }

    /// Sets attributes and content by file type (spec: jffs2 6, 8.2).
    fn finish(
        &self,
        ino: u32,
        winner: &Inode,
        by_metadata: bool,
        nodes: &Nodes,
    ) -> Result<Loaded, FsError> {
        let mut attr = self.attributes(ino, winner)?;
        let size = (attr.kind == FileKind::Regular).then_some(winner.isize);
        let map = self.map(ino, nodes, size);
        let end = map.end();
        let mut fragments: Vec<Fragment> = map
            .ranges()
            .map(|(Range { start, end }, place)| Fragment { start, end, place })
            .collect();
        match attr.kind {
            FileKind::Regular => {
                if u64::from(end) < attr.size {
                    let message = format!("file size {} reduced to {end}", attr.size);
                    self.warn(Location::Inode(ino.into()), codes::SIZE_REDUCED, message);
                    attr.size = end.into();
                }
                let size = attr.size as u32;
                fragments.retain(|fragment| fragment.start < size);
                if let Some(last) = fragments.last_mut() {
                    last.end = last.end.min(size);
                }
            }
            FileKind::Symlink | FileKind::BlockDevice | FileKind::CharDevice => {
                let [Fragment { place: Some(place), .. }] = fragments[..] else {
                    return Err(damaged(ino, "link or device without exactly one node of data"));
                };
                if by_metadata {
                    return Err(damaged(ino, "link or device with a node of attributes only"));
                }
                if attr.kind == FileKind::Symlink {
                    attr.size = if winner.isize == 0 { winner.dsize } else { winner.isize }.into();
                } else {
                    let (_, payload) = self.payload(place)?;
                    attr.rdev = device(self.info.shape.order, &payload)
                        .ok_or_else(|| damaged(ino, "device number of neither 2 nor 4 bytes"))?;
                    attr.size = 0;
                }
            }
            FileKind::Directory | FileKind::Fifo | FileKind::Socket => fragments.clear(),
        }
        Ok(Loaded { attr, fragments })
    }
}

/// Decodes the payload of a node by the number of its compressor.
pub(crate) fn decompress(number: u8, stored: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    match number {
        compression::NONE => eraseblock_codec::decompress(Codec::None, stored, out),
        compression::ZERO => {
            out.fill(0);
            Ok(())
        }
        compression::RTIME => rtime::decompress(stored, out),
        compression::RUBIN_DYNAMIC => rubin::decompress(rubin::Table::Dynamic, stored, out),
        compression::RUBIN_FIXED => rubin::decompress(rubin::Table::Fixed, stored, out),
        compression::ZLIB => zlib::decompress(stored, out),
        compression::LZO => eraseblock_codec::decompress(Codec::Lzo, stored, out),
        compression::LZMA => lzma::decompress(stored, out),
        _ => Err(CodecError::Stream { codec: "jffs2", problem: "unknown compressor" }),
    }
}
