//! A look at the beginning of a volume: what is in it, without opening it.

use super::{Format, formats, magic};
use eraseblock_base::align::is_erased;
use eraseblock_base::{Leb, Location};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::FormatError;
use eraseblock_ubifs_format::constants::{MASTER_LEB, NODE_MAGIC, NodeType};
use eraseblock_ubifs_format::decode::{self, Limits};
use eraseblock_ubifs_format::node::Superblock;

/// What a volume begins with.
#[derive(Debug)]
pub enum Content {
    /// A UBIFS superblock node that can be read.
    Ubifs(Box<Superblock>),
    /// A UBIFS superblock node that is damaged.
    DamagedUbifs,
    /// Nodes of a JFFS2.
    Jffs2,
    /// The pages of a YAFFS, with their spare bytes.
    Yaffs,
    /// A file system that is only read.
    Read(Format),
    /// Another format that is known by its magic.
    Known(&'static str),
    /// Nothing: LEB 0 is erased or not mapped.
    Empty,
    /// Anything else.
    Unknown,
}

impl Content {
    /// Returns whether it is a UBIFS, damaged or not.
    pub fn is_ubifs(&self) -> bool {
        matches!(self, Self::Ubifs(_) | Self::DamagedUbifs)
    }

    /// Returns whether it is a JFFS2.
    pub fn is_jffs2(&self) -> bool {
        matches!(self, Self::Jffs2)
    }

    /// Returns whether it is a file system that can be opened.
    pub fn is_file_system(&self) -> bool {
        self.is_ubifs() || self.is_jffs2() || self.is_read_only()
    }

    /// Returns whether it is a file system that is only read in a volume.
    pub fn is_read_only(&self) -> bool {
        self.read_only().is_some()
    }

    /// Returns the format of a file system that is only read in a volume.
    pub fn read_only(&self) -> Option<Format> {
        match self {
            Self::Read(format) => Some(*format),
            Self::Yaffs => Some(Format::Yaffs),
            _ => None,
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Self::Ubifs(sb) => format!("UBIFS ({})", sb.default_compr.name()),
            Self::DamagedUbifs => "UBIFS (superblock damaged)".to_owned(),
            Self::Jffs2 => "JFFS2".to_owned(),
            Self::Yaffs => "YAFFS".to_owned(),
            Self::Read(format) => format.name().to_owned(),
            Self::Known(name) => {
                let bare = name.strip_prefix("a ").or(name.strip_prefix("an "));
                bare.unwrap_or(name).to_owned()
            }
            Self::Empty => "empty".to_owned(),
            Self::Unknown => "data".to_owned(),
        }
    }
}

/// Examines the start of LEB 0. If that is inconclusive, searches for a JFFS2, whose nodes may be
/// anywhere.
pub fn content(device: &dyn LebDevice) -> Content {
    let content = first(device);
    if !content.is_ubifs()
        && let Some(reader) = formats::reader_of_volume(device)
    {
        return Content::Read(reader.format());
    }
    match content {
        Content::Empty | Content::Unknown | Content::Known(_) if holds_masters(device) => {
            Content::DamagedUbifs
        }
        Content::Empty | Content::Unknown | Content::Known(_) if holds_jffs2(device) => {
            Content::Jffs2
        }
        Content::Unknown if formats::is_yaffs_volume(device) => Content::Yaffs,
        content => content,
    }
}

/// Returns whether there are the master nodes of a UBIFS, whose superblock is lost.
fn holds_masters(device: &dyn LebDevice) -> bool {
    let mut start = [0; 24];
    [MASTER_LEB, MASTER_LEB + 1].map(Leb::new).iter().any(|leb| {
        leb.get() < device.leb_count()
            && device.is_mapped(*leb).unwrap_or(false)
            && device.read(*leb, 0, &mut start).is_ok()
            && start.starts_with(&NODE_MAGIC.to_le_bytes())
            && start[20] == NodeType::Master as u8
    })
}

/// Returns whether a LEB begins with a node of a JFFS2.
fn holds_jffs2(device: &dyn LebDevice) -> bool {
    let mut start = [0; 12];
    (0..device.leb_count()).map(Leb::new).any(|leb| {
        device.is_mapped(leb).unwrap_or(false)
            && device.read(leb, 0, &mut start).is_ok()
            && magic::is_jffs2(&start)
    })
}

fn first(device: &dyn LebDevice) -> Content {
    let leb = Leb::new(0);
    if device.leb_count() == 0 || !device.is_mapped(leb).unwrap_or(true) {
        return Content::Empty;
    }
    let mut start = vec![0; magic::LOOK.min(device.leb_size() as usize)];
    if device.read(leb, 0, &mut start).is_err() {
        return Content::Unknown;
    }
    of_bytes(&start, device.leb_size())
}

/// The same for the first bytes of a volume with LEBs of `leb_size` bytes.
pub fn of_bytes(start: &[u8], leb_size: u32) -> Content {
    if is_erased(start) {
        return Content::Empty;
    }
    if magic::is_ubifs(start) {
        return match superblock(start, leb_size) {
            Ok(superblock) => Content::Ubifs(Box::new(superblock)),
            Err(_) => Content::DamagedUbifs,
        };
    }
    magic::recognise(start).map_or(Content::Unknown, |known| Content::Known(known.name))
}

/// The superblock at the start of LEB 0.
fn superblock(start: &[u8], leb_size: u32) -> Result<Superblock, FormatError> {
    let at = Location::Leb(Leb::new(0), 0);
    decode::node(start, &Limits::unknown(leb_size), at)?.superblock()
}
