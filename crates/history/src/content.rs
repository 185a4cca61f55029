//! The content of a version, and where each byte of it is.

use crate::flash::{FlashNodes, Piece};
use crate::versions::{Seen, Version};
use eraseblock_base::Leb;
use eraseblock_jffs2::compressor_name;
use eraseblock_jffs2_format::constants::INODE_LEN;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs::{Live, OpenOptions, Ubifs, UbifsError};
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::{Compression, Key, KeyKind};
use eraseblock_vfs::{FileSystem, FsError, FsErrorKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a block.
const BLOCK: u64 = BLOCK_SIZE as u64;
/// Bytes of a symbolic link at most.
const LONGEST_LINK: u64 = 4096;

/// A part of a file that one node holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes of the file.
    pub len: u64,
    /// The LEB of its node, or the eraseblock of a JFFS2.
    pub leb: Leb,
    /// Where the node begins there.
    pub node: u32,
    /// Bytes of the node.
    pub node_len: u32,
    /// How many bytes of what the node holds come before the part.
    pub skip: u32,
    /// How the node stores them, or `None` if it cannot be read. If it holds fewer bytes than the part, zeros
    /// follow them.
    pub stored: Option<Stored>,
}

/// How a node stores a part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Sequence number of the node; its version in a JFFS2.
    pub sqnum: u64,
    /// How its bytes are compressed, or `none`. `zlib` is deflate without a header in UBIFS, and a zlib stream
    /// in JFFS2.
    pub codec: &'static str,
    /// Where these bytes begin in the LEB or eraseblock.
    pub offset: u32,
    /// How many they are.
    pub len: u32,
    /// How many bytes they decompress to.
    pub size: u32,
}

/// A version whose content can be read.
#[derive(Debug)]
pub struct Content {
    ino: u32,
    size: u64,
    medium: Medium,
}

#[derive(Debug)]
enum Medium {
    Ubifs { fs: Box<Ubifs>, blocks: Vec<Live> },
    Jffs2 { nodes: Arc<FlashNodes>, pieces: Vec<Piece> },
}

/// Opens versions. Those of one state are opened fastest one after another.
#[derive(Debug)]
pub struct Contents(Kind);

#[derive(Debug)]
enum Kind {
    Ubifs {
        device: Arc<dyn LebDevice>,
        /// The same, with old blocks.
        leaves: Arc<dyn LebDevice>,
        /// The state that was used last: a commit, or the present one.
        state: Option<(Option<u64>, Box<Ubifs>)>,
    },
    Jffs2(Arc<FlashNodes>),
}

impl Contents {
    /// Reads from this volume.
    pub fn new(device: Arc<dyn LebDevice>) -> Self {
        Self(Kind::Ubifs { leaves: Arc::clone(&device), device, state: None })
    }

    /// Reads from this volume, of which `leaves` has further LEBs.
    pub fn with_old(device: Arc<dyn LebDevice>, leaves: Arc<dyn LebDevice>) -> Self {
        Self(Kind::Ubifs { device, leaves, state: None })
    }

    /// Reads from this JFFS2.
    pub fn of_flash(nodes: Arc<FlashNodes>) -> Self {
        Self(Kind::Jffs2(nodes))
    }

    /// Opens a version of a file.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    pub fn open(&mut self, version: &Version) -> Result<Content, UbifsError> {
        let (device, all, state) = match &mut self.0 {
            Kind::Ubifs { device, leaves, state } => (device, leaves, state),
            Kind::Jffs2(nodes) => {
                let pieces = nodes.pieces(version);
                let size = version.attributes.map_or(0, |known| known.size);
                let medium = Medium::Jffs2 { nodes: Arc::clone(nodes), pieces };
                return Ok(Content { ino: version.ino, size, medium });
            }
        };
        let mut leaves: BTreeMap<Key, Live> = BTreeMap::new();
        let of_state = match version.seen {
            Seen::Now { .. } => in_state(device, state, None)?.leaves_of(version.ino),
            Seen::Commits { last, .. } => {
                in_state(device, state, Some(last))?.leaves_of(version.ino)
            }
            Seen::Nodes => Vec::new(),
        };
        let own = of_state.into_iter().filter(|leaf| !leaf.key.is_hashed());
        leaves.extend(own.map(|leaf| (leaf.key, leaf)));
        leaves.extend(version.nodes.iter().map(|leaf| (leaf.key, leaf.live())));
        leaves.retain(|key, _| !version.is_missing(*key));
        let leaves: Vec<Live> = leaves.into_values().collect();
        let fs = Ubifs::open_leaves(Arc::clone(all), &leaves)?;
        Ok(Content::new(fs, version, leaves))
    }
}

fn in_state<'a>(
    device: &Arc<dyn LebDevice>,
    state: &'a mut Option<(Option<u64>, Box<Ubifs>)>,
    commit: Option<u64>,
) -> Result<&'a Ubifs, UbifsError> {
    let is_known = state.as_ref().is_some_and(|(known, _)| *known == commit);
    if !is_known {
        let device = Arc::clone(device);
        let (fs, _) = match commit {
            None => Ubifs::open(device, &OpenOptions::default())?,
            Some(number) => Ubifs::open_commit(device, number)?,
        };
        return Ok(&state.insert((commit, Box::new(fs))).1);
    }
    Ok(&state.as_ref().expect("it is known").1)
}

impl Content {
    fn new(fs: Ubifs, version: &Version, mut leaves: Vec<Live>) -> Self {
        leaves.retain(|leaf| leaf.key.kind() == Some(KeyKind::Data));
        let ends = leaves.iter().map(|leaf| (u64::from(leaf.key.value()) + 1) * BLOCK);
        let known = version.attributes.map(|attributes| attributes.size);
        // Without an inode, the last block may be shorter than it looks.
        let size = known.or(ends.max()).unwrap_or(0);
        let medium = Medium::Ubifs { fs: Box::new(fs), blocks: leaves };
        Self { ino: version.ino, size, medium }
    }

    /// Returns the length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads where each part is, in the order of the file. What is in none of them is a hole or missing,
    /// and read as zeros.
    pub fn runs(&self) -> Vec<Run> {
        match &self.medium {
            Medium::Ubifs { fs, blocks } => {
                blocks.iter().filter_map(|leaf| self.block(fs, leaf)).collect()
            }
            Medium::Jffs2 { nodes, pieces } => {
                let block = nodes.fs.info().shape.erase_size;
                let stored = pieces.iter().filter(|piece| !piece.is_hole());
                stored.map(|piece| run(piece, block)).collect()
            }
        }
    }

    fn block(&self, fs: &Ubifs, leaf: &Live) -> Option<Run> {
        let offset = u64::from(leaf.key.value()) * BLOCK;
        let len = self.size.checked_sub(offset)?.min(BLOCK);
        let Live { leb, offset: node, len: node_len, .. } = *leaf;
        let stored = || {
            let stored = fs.stored(leaf).ok()?;
            let codec = match stored.compression {
                Compression::None => "none",
                other => other.name(),
            };
            let eraseblock_ubifs::Stored { sqnum, offset, len, size, .. } = stored;
            Some(Stored { sqnum, codec, offset, len, size })
        };
        let run = || Run { offset, len, leb, node, node_len, skip: 0, stored: stored() };
        (len > 0).then(run)
    }

    /// Fills `buf` from `offset` on, which must not lead past the end.
    ///
    /// # Errors
    ///
    /// Fails if a node of this range cannot be read.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), FsError> {
        let (nodes, pieces) = match &self.medium {
            Medium::Ubifs { fs, .. } => return fs.read_range(self.ino, offset, buf),
            Medium::Jffs2 { nodes, pieces } => (nodes, pieces),
        };
        buf.fill(0);
        let end = offset + buf.len() as u64;
        let first = pieces.partition_point(|piece| u64::from(piece.end) <= offset);
        let inside = pieces.get(first..).unwrap_or_default().iter();
        for piece in inside.take_while(|piece| u64::from(piece.start) < end) {
            if piece.is_hole() {
                continue;
            }
            let data = nodes.fs.past_data(&piece.part.inode, piece.part.place)?;
            let from = u64::from(piece.start).max(offset);
            let to = u64::from(piece.end).min(end);
            let own = from - u64::from(piece.part.inode.offset);
            let source = data.get(own as usize..(own + to - from) as usize);
            let target = buf.get_mut((from - offset) as usize..(to - offset) as usize);
            if let (Some(target), Some(source)) = (target, source) {
                target.copy_from_slice(source);
            }
        }
        Ok(())
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    ///
    /// Fails if it is none, or if it cannot be read.
    pub fn link(&self) -> Result<Vec<u8>, FsError> {
        match &self.medium {
            Medium::Ubifs { fs, .. } => fs.read_link(self.ino.into()),
            Medium::Jffs2 { .. } => {
                if self.size > LONGEST_LINK {
                    let message = format!("inode {}: a link of {} bytes", self.ino, self.size);
                    return Err(FsError::new(FsErrorKind::Corrupted, message));
                }
                let mut target = vec![0; self.size as usize];
                self.read(0, &mut target)?;
                Ok(target)
            }
        }
    }
}

/// Returns where a part of a file is in a JFFS2 with eraseblocks of `block` bytes.
fn run(piece: &Piece, block: u32) -> Run {
    let (inode, place) = (&piece.part.inode, piece.part.place);
    let node = place % block;
    let stored = Stored {
        sqnum: inode.version.into(),
        codec: compressor_name(inode.compression),
        offset: node + INODE_LEN,
        len: inode.csize,
        size: inode.dsize,
    };
    Run {
        offset: piece.start.into(),
        len: u64::from(piece.end - piece.start),
        leb: Leb::new(place / block),
        node,
        node_len: piece.part.len,
        skip: piece.start - inode.offset,
        stored: Some(stored),
    }
}
