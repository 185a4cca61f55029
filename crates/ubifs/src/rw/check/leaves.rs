//! The content of each leaf (layer 15; spec: ubifs-format 21.5), and its information about inodes.

use super::breaches::Breaches;
use crate::read::codec_of;
use crate::rw::core::Core;
use crate::rw::place::Place;
use crate::rw::tnc::Zbranch;
use eraseblock_codec::Decompressor;
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, ENCRYPTION_CONTEXT, ROOT_INO, sb_flags};
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::{Data, Dent, EntryKind, FormatError, Inode, KeyKind};
use std::collections::{BTreeMap, BTreeSet};

/// The information of all leaves about inodes.
pub(super) type Seen = BTreeMap<u32, SeenInode>;

/// The information of leaves about one inode.
#[derive(Debug, Default)]
pub(super) struct SeenInode {
    pub(super) node: Option<InodeFacts>,
    /// Entries that name it.
    pub(super) names: u32,
    /// The kinds that they state: one bit for each kind.
    pub(super) kinds: u8,
    /// The last directory that names it.
    pub(super) parent: u32,
    /// Its entries: their number, how many of them name directories, and the bytes they take.
    pub(super) entries: u32,
    pub(super) subdirs: u32,
    pub(super) entry_bytes: u64,
    /// Its extended attributes.
    pub(super) xattrs: u32,
    pub(super) xattr_names: u32,
    /// Whether one of them is the context of encryption.
    pub(super) has_context: bool,
    /// Xattr entries that name it; host and bytes of the last one.
    pub(super) hosts: u32,
    pub(super) host: u32,
    pub(super) host_bytes: u32,
    /// End of the content; 0 for no content.
    pub(super) content_end: u64,
    /// The lowest sequence number of its leaves, and the place of that leaf.
    pub(super) oldest: Option<(u64, Place)>,
    /// An entry whose name is only valid if it is encrypted.
    pub(super) odd_name: Option<Place>,
}

/// The fields of an inode node that others refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct InodeFacts {
    pub(super) place: Place,
    pub(super) creat_sqnum: u64,
    pub(super) nlink: u32,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) flags: u32,
    pub(super) xattr_cnt: u32,
    pub(super) xattr_size: u32,
    pub(super) xattr_names: u32,
    pub(super) data_len: u32,
    /// A NUL in the target of a symbolic link.
    pub(super) odd_target: bool,
}

/// Receives leaves one after the other.
pub(super) struct Reader {
    pub(super) seen: Seen,
    /// Names of the entries that share their key with a neighbour.
    pub(super) names: BTreeMap<Place, Vec<u8>>,
    twins: BTreeSet<Place>,
    decompressor: Decompressor,
    block: Vec<u8>,
}

impl Reader {
    pub(super) fn new(twins: BTreeSet<Place>) -> Self {
        Self {
            seen: Seen::new(),
            names: BTreeMap::new(),
            twins,
            decompressor: Decompressor::new(),
            block: vec![0; BLOCK_SIZE as usize],
        }
    }

    /// Checks a node against its branch.
    pub(super) fn same(branch: &Zbranch, node: &Node<'_>) -> Result<(), String> {
        match node.key() {
            Some(key) if key == branch.key && node.header.len == branch.len => Ok(()),
            Some(key) if key == branch.key => {
                Err(format!("length {}, its branch says {}", node.header.len, branch.len))
            }
            Some(key) => Err(format!("key {key}, its branch says {}", branch.key)),
            None => {
                Err(format!("{} where {} is expected", node.header.node_type.name(), branch.key))
            }
        }
    }
}

impl Core {
    /// Checks N1 to N9 and Q2 for one leaf, which is the node of its branch.
    pub(super) fn take_leaf(
        &self,
        branch: &Zbranch,
        node: &Node<'_>,
        reader: &mut Reader,
        breaches: &mut Breaches,
    ) {
        let sqnum = node.header.sqnum;
        let place = branch.place();
        let is_committed = !self.store.nodes.journal.contains(branch.place());
        if is_committed
            && sqnum >= self.store.master.node.sqnum
            && self.store.nodes.flash.why_read_only.is_none()
        {
            let master = self.store.master.node.sqnum;
            let message = format!("sequence number {sqnum}, that of the master is {master}");
            breaches.add(node.at, "sqnum-wrong", "Q2", message);
        }
        let about = reader.seen.entry(branch.key.ino()).or_default();
        if about.oldest.is_none_or(|(oldest, _)| sqnum < oldest) {
            about.oldest = Some((sqnum, place));
        }
        let wrong = |id: &str, error: &FormatError, breaches: &mut Breaches| {
            breaches.leaf(branch, "leaf-wrong", id, error);
        };
        match branch.key.kind() {
            Some(KeyKind::Inode) => match node.inode() {
                Ok(inode) => self.take_inode(place, &inode, node, reader, breaches),
                Err(error) => wrong("N3, N4", &error, breaches),
            },
            Some(KeyKind::Data) => match node.data() {
                Ok(data) => self.take_data(branch, &data, reader, breaches),
                Err(error) => wrong("N8", &error, breaches),
            },
            Some(KeyKind::Dent | KeyKind::Xent) => match node.dent() {
                Ok(dent) => self.take_entry(place, &dent, node, reader, breaches),
                Err(error) => wrong("N6", &error, breaches),
            },
            None => {}
        }
    }

    fn take_inode(
        &self,
        place: Place,
        inode: &Inode<'_>,
        node: &Node<'_>,
        reader: &mut Reader,
        breaches: &mut Breaches,
    ) {
        if inode.ino == ROOT_INO && inode.file_type() != file_type::DIRECTORY {
            breaches.add(node.at, "leaf-wrong", "N3, X1", "the root is not a directory");
        }
        if inode.is_xattr() {
            if inode.size != u64::from(inode.data_len) {
                let message = format!("size {}, but {} bytes of value", inode.size, inode.data_len);
                breaches.add(node.at, "leaf-wrong", "N4", message);
            }
            if (inode.xattr_cnt, inode.xattr_size, inode.xattr_names) != (0, 0, 0) {
                let message = "an attribute is said to have attributes";
                breaches.add(node.at, "leaf-wrong", "N4", message);
            }
        }
        let may_encrypt = matches!(
            inode.file_type(),
            file_type::REGULAR | file_type::DIRECTORY | file_type::SYMLINK
        ) && self.store.nodes.flash.sb.has(sb_flags::ENCRYPTION);
        if inode.is_encrypted() && !may_encrypt {
            breaches.add(node.at, "leaf-wrong", "N5", "an encrypted inode, which cannot be here");
        }
        let is_link = inode.file_type() == file_type::SYMLINK && !inode.is_encrypted();
        reader.seen.entry(inode.ino).or_default().node = Some(InodeFacts {
            place,
            creat_sqnum: inode.creat_sqnum,
            nlink: inode.nlink,
            mode: inode.mode,
            size: inode.size,
            flags: inode.flags,
            xattr_cnt: inode.xattr_cnt,
            xattr_size: inode.xattr_size,
            xattr_names: inode.xattr_names,
            data_len: inode.data_len,
            odd_target: is_link && inode.data.contains(&0),
        });
    }

    fn take_data(
        &self,
        branch: &Zbranch,
        data: &Data<'_>,
        reader: &mut Reader,
        breaches: &mut Breaches,
    ) {
        let key = branch.key;
        let end = u64::from(key.value()) * u64::from(BLOCK_SIZE) + u64::from(data.size);
        let inode = reader.seen.entry(key.ino()).or_default();
        inode.content_end = inode.content_end.max(end);
        if data.compr_size != 0 {
            // Encrypted content cannot be examined.
            if !self.store.nodes.flash.sb.has(sb_flags::ENCRYPTION) {
                let message = format!("compressed size {}, expected 0", data.compr_size);
                breaches.leaf(branch, "leaf-wrong", "N8", message);
            }
            return;
        }
        let block = reader.block.get_mut(..data.size as usize).unwrap_or_default();
        let codec = codec_of(data.compression);
        if let Err(error) = reader.decompressor.decompress(codec, data.payload, block) {
            let message = format!("{} bytes of content: {error}", data.size);
            breaches.leaf(branch, "leaf-wrong", "N8", message);
        }
    }

    fn take_entry(
        &self,
        place: Place,
        dent: &Dent<'_>,
        node: &Node<'_>,
        reader: &mut Reader,
        breaches: &mut Breaches,
    ) {
        let Dent { key, ino, kind, name, .. } = *dent;
        if ino == 0 {
            return breaches.add(node.at, "leaf-wrong", "N6", "an entry of inode 0 in the index");
        }
        let hash = self.store.nodes.flash.sb.key_hash.hash(name);
        if hash != key.value() {
            let shown = String::from_utf8_lossy(name);
            let message =
                format!("key value {:#x}, but the name {shown:?} hashes to {hash:#x}", key.value());
            breaches.add(node.at, "leaf-wrong", "N7", message);
        }
        if reader.twins.contains(&place) {
            reader.names.insert(place, name.to_vec());
        }
        let owner = reader.seen.entry(key.ino()).or_default();
        if key.kind() == Some(KeyKind::Xent) {
            owner.xattrs += 1;
            owner.xattr_names += name.len() as u32;
            owner.has_context |= name == ENCRYPTION_CONTEXT;
            let value = reader.seen.entry(ino).or_default();
            value.hosts += 1;
            value.host = key.ino();
            value.host_bytes = entry_len(name);
            return;
        }
        let is_dir = kind == EntryKind::Directory;
        owner.entries += 1;
        owner.subdirs += u32::from(is_dir);
        owner.entry_bytes += u64::from(entry_len(name));
        let is_odd = name == b"." || name == b".." || name.iter().any(|b| matches!(b, 0 | b'/'));
        if is_odd && owner.odd_name.is_none() {
            owner.odd_name = Some(place);
        }
        let target = reader.seen.entry(ino).or_default();
        target.names += 1;
        target.kinds |= 1 << kind.number();
        target.parent = key.ino();
    }
}

/// Returns the number of bytes an entry takes.
fn entry_len(name: &[u8]) -> u32 {
    crate::rw::group::dent_len(name)
}
