//! Checks a fresh image against the specification's section 21, for tests: every violation panics.
//! It shares only the format crate's decoding with the builder.
//!
//! It is separate from the check of a mounted file system because that one must accept what Linux
//! leaves in a volume in use. A fresh image has no journal, stores no hole and wastes no byte, and
//! one of the classic tool breaks rules that ours do not.

use eraseblock_base::{Leb, Location, align::align_up};
use eraseblock_codec::Codec;
use eraseblock_ubifs_format::constants::{LOG_FIRST, NodeType, inode_flags};
use eraseblock_ubifs_format::decode::{self, Limits, Node};
use eraseblock_ubifs_format::lpt::{
    LebProps, LptGeometry, LptPlace, Lsave, Nnode, Pnode, SaveTable, SpaceTable,
};
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::verify::{self, VolumeShape};
use eraseblock_ubifs_format::{
    Branch, Compression, EntryKind, Inode, Key, KeyKind, Master, Superblock,
};
use std::collections::{BTreeMap, BTreeSet};

/// An inode of an image with its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) inode: Inode<'static>,
    pub(super) inline: Vec<u8>,
    pub(super) content: Vec<u8>,
    pub(super) xattrs: BTreeMap<Vec<u8>, u32>,
    pub(super) entries: BTreeMap<Vec<u8>, (u32, EntryKind)>,
    blocks: Vec<(u32, Vec<u8>)>,
    sqnums: Vec<u64>,
}

/// A verified image.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) superblock: Superblock,
    pub(super) master: Master,
    pub(super) inodes: BTreeMap<u32, Found>,
    /// (node type, length) of every leaf, for comparing images whose order differs.
    pub(super) leaves: BTreeMap<(u8, u32), u32>,
}

impl Verified {
    /// Returns the inode at a path from the root.
    pub(super) fn at(&self, path: &str) -> &Found {
        let mut ino = 1;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            ino = self.inodes[&ino].entries[name.as_bytes()].0;
        }
        &self.inodes[&ino]
    }

    /// Name and value of each attribute of an inode.
    pub(super) fn attributes(&self, found: &Found) -> Vec<(Vec<u8>, Vec<u8>)> {
        let value = |ino: &u32| self.inodes[ino].inline.clone();
        found.xattrs.iter().map(|(name, ino)| (name.clone(), value(ino))).collect()
    }
}

/// How strictly an image is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Strictness {
    /// Everything holds, for our own images.
    Ours,
    /// The deviations in the specification's section 22 are tolerated, for images of the classic
    /// tool.
    Classic,
}

struct Image<'a> {
    bytes: &'a [u8],
    superblock: Superblock,
    limits: Limits,
}

impl<'a> Image<'a> {
    fn leb(&self, leb: u32) -> &'a [u8] {
        let size = self.superblock.leb_size as usize;
        &self.bytes[leb as usize * size..][..size]
    }

    fn node(&self, leb: u32, offset: u32, len: u32) -> Node<'a> {
        let bytes = &self.leb(leb)[offset as usize..(offset + len) as usize];
        let at = Location::Leb(Leb::new(leb), offset);
        let node = decode::node(bytes, &self.limits, at).unwrap();
        assert_eq!(node.header.len, len, "{at}");
        node
    }

    fn erased(&self, leb: u32) {
        assert!(self.leb(leb).iter().all(|byte| *byte == 0xFF), "leb {leb} is not erased");
    }
}

/// Verifies a bare image.
pub(super) fn verify(bytes: &[u8], leb_size: u32, strictness: Strictness) -> Verified {
    let unknown = Limits::unknown(leb_size);
    let sb_node = decode::node(bytes, &unknown, Location::Whole).unwrap();
    let superblock = sb_node.superblock().unwrap();
    assert_eq!(superblock.leb_size, leb_size);
    assert_eq!(bytes.len() as u64, u64::from(superblock.leb_cnt) * u64::from(leb_size));
    let limits = Limits::of(&superblock);
    let image = Image { bytes, superblock, limits };
    let sb = &image.superblock;
    let leb_count = sb.max_leb_cnt;
    let shape = VolumeShape { leb_size, min_io: sb.min_io_size, leb_count };
    verify::superblock(&sb.grown(leb_count), shape, Location::Whole).unwrap();
    let master = masters(&image, sb_node.header.sqnum);
    for leb in LOG_FIRST + 1..sb.lpt_first() {
        image.erased(leb);
    }
    for leb in sb.orph_first()..sb.main_first() {
        image.erased(leb);
    }
    let props = lpt(&image, &master, strictness);
    let mut walker = Walker::new(&image, &props);
    walker.index(&master);
    walker.lebs(&master);
    let Walker { mut inodes, leaves, .. } = walker;
    totals(sb, &master, &props);
    cross_references(&mut inodes, &master, strictness);
    Verified { superblock: image.superblock.clone(), master, inodes, leaves }
}

/// S, M and the log: both masters agree and point into their areas.
fn masters(image: &Image<'_>, sb_sqnum: u64) -> Master {
    let [first, second] = [1, 2].map(|leb| image.node(leb, 0, 512));
    assert_eq!(first.bytes()[24..], second.bytes()[24..]);
    assert_eq!(first.header.sqnum + 1, second.header.sqnum);
    let master = first.master().unwrap();
    verify::master(&master, &image.superblock, Location::leb(Leb::new(1))).unwrap();
    let start = image.node(master.log_lnum, 0, 32).commit_start().unwrap();
    assert_eq!(start.cmt_no, master.cmt_no);
    assert!(sb_sqnum > second.header.sqnum);
    assert!(master.ihead_offs.is_multiple_of(image.superblock.min_io_size));
    master
}

/// P: the whole LPT; returns the properties of the main area.
fn lpt(image: &Image<'_>, master: &Master, strictness: Strictness) -> Vec<LebProps> {
    let sb = &image.superblock;
    let geometry = LptGeometry::new(sb.lpt_inputs());
    assert!(
        geometry.total_size(Lsave::IfBig) * 2 <= u64::from(sb.lpt_lebs) * u64::from(sb.leb_size)
    );
    let at = Location::Whole;
    let bytes = |place: LptPlace| &image.leb(place.leb.get())[place.offset as usize..];
    let place = |leb, offset| LptPlace { leb: Leb::new(leb), offset };
    let mut live = vec![0; sb.lpt_lebs as usize];
    let mut count =
        |place: LptPlace, size: u64| live[(place.leb.get() - sb.lpt_first()) as usize] += size;
    let mut level = vec![place(master.lpt_lnum, master.lpt_offs)];
    for height in (1..=geometry.height).rev() {
        let mut below = Vec::new();
        for (index, at_place) in (0..).zip(&level) {
            count(*at_place, geometry.nnode_size.into());
            let number = geometry.nnode_number(height, index);
            let node = Nnode::unpack(bytes(*at_place), &geometry, number, height, at).unwrap();
            below.extend(node.branches.iter().flatten().map(|b| place(b.leb.get(), b.offset)));
        }
        level = below;
    }
    let mut props = Vec::new();
    for (number, at_place) in (0..).zip(&level) {
        count(*at_place, geometry.pnode_size.into());
        props.extend(Pnode::unpack(bytes(*at_place), &geometry, number, at).unwrap().lebs);
    }
    assert_eq!(props.len() as u32, sb.main_lebs().next_multiple_of(4));
    let behind = props.split_off(sb.main_lebs() as usize);
    assert!(behind.iter().all(|leb| *leb == LebProps::empty(sb.leb_size)));
    if geometry.inputs.big {
        let lsave = place(master.lsave_lnum, master.lsave_offs);
        count(lsave, geometry.lsave_size);
        let table = SaveTable::unpack(bytes(lsave), &geometry, at).unwrap();
        let inside = table.lebs.iter().all(|leb| sb.is_main(leb.get()));
        assert!(inside || strictness == Strictness::Classic);
    }
    let ltab = place(master.ltab_lnum, master.ltab_offs);
    count(ltab, geometry.ltab_size);
    let table = SpaceTable::unpack(bytes(ltab), &geometry, at).unwrap();
    for (number, ((free, dirty), live)) in (sb.lpt_first()..).zip(table.lebs.iter().zip(&live)) {
        assert_eq!(u64::from(sb.leb_size - free - dirty), *live);
        let leb = image.leb(number);
        assert!(leb[(sb.leb_size - free) as usize..].iter().all(|byte| *byte == 0xFF));
        if number == master.nhead_lnum {
            assert_eq!(master.nhead_offs, sb.leb_size - free);
        }
    }
    props
}

struct Walker<'a, 'i> {
    image: &'i Image<'a>,
    props: &'i [LebProps],
    inodes: BTreeMap<u32, Found>,
    leaves: BTreeMap<(u8, u32), u32>,
    /// Places of all nodes the index refers to, the index's own included.
    places: BTreeSet<(u32, u32)>,
    used: Vec<u32>,
    index_size: u64,
    last: Option<(Key, Vec<u8>)>,
}

impl<'a, 'i> Walker<'a, 'i> {
    fn new(image: &'i Image<'a>, props: &'i [LebProps]) -> Self {
        Self {
            image,
            props,
            inodes: BTreeMap::new(),
            leaves: BTreeMap::new(),
            places: BTreeSet::new(),
            used: vec![0; props.len()],
            index_size: 0,
            last: None,
        }
    }

    /// I: every index node, top down, then the leaves in order.
    fn index(&mut self, master: &Master) {
        let mut stack = vec![(master.root(), None, master.sqnum, true)];
        while let Some((branch, level, parent_sqnum, is_root)) = stack.pop() {
            self.claim(&branch, true);
            let sb = &self.image.superblock;
            let node = self.image.node(branch.leb.get(), branch.offset, branch.len);
            let index = node.index(&self.image.limits, sb.main_first(), sb.leb_cnt).unwrap();
            self.index_size += u64::from(align_up(branch.len, 8));
            assert!(index.sqnum < parent_sqnum);
            assert!(level.is_none_or(|level| level == index.level));
            assert!(is_root || index.branches[0].key == branch.key);
            if index.level > 0 {
                let below = Some(index.level - 1);
                let children = index.branches.iter().rev();
                stack.extend(children.map(|child| (*child, below, index.sqnum, false)));
            } else {
                for leaf in &index.branches {
                    self.leaf(leaf, index.sqnum);
                }
            }
        }
        assert_eq!(self.index_size, master.index_size);
    }

    fn claim(&mut self, branch: &Branch, index: bool) {
        let at = (branch.leb.get(), branch.offset);
        assert!(self.places.insert(at), "{at:?} is referred to twice");
        let leb = (at.0 - self.image.superblock.main_first()) as usize;
        assert_eq!(self.props[leb].index, index);
        self.used[leb] += align_up(branch.len, 8);
    }

    fn found(&mut self, ino: u32) -> &mut Found {
        self.inodes.get_mut(&ino).unwrap_or_else(|| panic!("no inode {ino} before its keys"))
    }

    /// N: one leaf. An inode precedes everything else with its number.
    fn leaf(&mut self, branch: &Branch, parent_sqnum: u64) {
        self.claim(branch, false);
        let node = self.image.node(branch.leb.get(), branch.offset, branch.len);
        let (sqnum, key) = (node.header.sqnum, branch.key);
        assert!(sqnum < parent_sqnum);
        assert_eq!(node.key(), Some(key));
        *self.leaves.entry((node.header.node_type.number(), branch.len)).or_default() += 1;
        let mut name = Vec::new();
        match key.kind().unwrap() {
            KeyKind::Inode => {
                let inode = node.inode().unwrap();
                let found = Found {
                    inline: inode.data.to_vec(),
                    inode: Inode { data: &[], ..inode },
                    content: Vec::new(),
                    xattrs: BTreeMap::new(),
                    entries: BTreeMap::new(),
                    blocks: Vec::new(),
                    sqnums: Vec::new(),
                };
                assert!(self.inodes.insert(key.ino(), found).is_none());
            }
            KeyKind::Data => {
                let data = node.data().unwrap();
                let block = decompress(data.payload, data.compression, data.size as usize);
                self.found(key.ino()).blocks.push((key.value(), block));
            }
            KeyKind::Dent | KeyKind::Xent => {
                let dent = node.dent().unwrap();
                let sb = &self.image.superblock;
                assert_eq!(sb.key_hash.hash(dent.name), key.value());
                assert!(dent.cookie == 0 || sb.fmt_version == 5);
                name = dent.name.to_vec();
                let found = self.found(key.ino());
                if key.kind() == Some(KeyKind::Xent) {
                    found.xattrs.insert(name.clone(), dent.ino);
                } else {
                    found.entries.insert(name.clone(), (dent.ino, dent.kind));
                }
            }
        }
        self.found(key.ino()).sqnums.push(sqnum);
        let this = (key, name);
        assert!(self.last.as_ref().is_none_or(|last| *last < this), "{:?} {this:?}", self.last);
        self.last = Some(this);
    }

    /// P8, P9: a scan of each LEB agrees with the LPT.
    fn lebs(&self, master: &Master) {
        let sb = &self.image.superblock;
        for (number, (props, used)) in (sb.main_first()..).zip(self.props.iter().zip(&self.used)) {
            let bytes = self.image.leb(number);
            let mut scan = Scanner::new(Leb::new(number), bytes, 0, self.image.limits);
            let mut found = 0;
            for (offset, node) in scan.by_ref() {
                assert!(self.places.contains(&(number, offset)), "leb {number}:{offset} is dead");
                assert_eq!(node.header.node_type == NodeType::Index, props.index);
                found += align_up(node.header.len, 8);
            }
            assert_eq!(scan.strict_error(sb.min_io_size), None);
            assert_eq!(found, *used);
            assert_eq!(sb.leb_size - scan.offset(), props.free, "leb {number}");
            assert_eq!(scan.offset() - used, props.dirty, "leb {number}");
        }
        let of = |leb: u32| &self.props[(leb - sb.main_first()) as usize];
        assert_eq!(*of(master.gc_lnum), LebProps::empty(sb.leb_size));
        let head = of(master.ihead_lnum);
        assert_eq!((head.index, master.ihead_offs), (true, sb.leb_size - head.free));
    }
}

fn decompress(payload: &[u8], compression: Compression, size: usize) -> Vec<u8> {
    let mut out = vec![0; size + 1];
    let len = match compression {
        Compression::None => return payload.to_vec(),
        Compression::Zlib => {
            let mut inflate = flate2::Decompress::new_with_window_bits(false, 11);
            let finish = flate2::FlushDecompress::Finish;
            let status = inflate.decompress(payload, &mut out, finish).unwrap();
            assert_eq!(status, flate2::Status::StreamEnd);
            inflate.total_out() as usize
        }
        Compression::Zstd => exactly(Codec::Zstd, payload, &mut out[..size]),
        Compression::Lzo => exactly(Codec::Lzo, payload, &mut out[..size]),
    };
    assert_eq!(len, size);
    out.truncate(size);
    out
}

fn exactly(codec: Codec, payload: &[u8], out: &mut [u8]) -> usize {
    eraseblock_codec::decompress(codec, payload, out).unwrap();
    out.len()
}

/// E and the special LEBs.
fn totals(sb: &Superblock, master: &Master, props: &[LebProps]) {
    let sum =
        |of: &dyn Fn(&LebProps) -> u32| props.iter().map(|leb| u64::from(of(leb))).sum::<u64>();
    let used = |leb: &LebProps| sb.leb_size - leb.free - leb.dirty;
    assert_eq!(master.total_free, sum(&|leb| leb.free));
    assert_eq!(master.total_dirty, sum(&|leb| leb.dirty));
    assert_eq!(master.total_used, sum(&|leb| if leb.index { 0 } else { used(leb) }));
    assert_eq!(master.index_size, sum(&|leb| if leb.index { used(leb) } else { 0 }));
    assert_eq!(u64::from(master.idx_lebs), sum(&|leb| leb.index.into()));
    assert_eq!(u64::from(master.empty_lebs), sum(&|leb| (leb.free == sb.leb_size).into()));
    let [dead_wm, dark_wm] = [56, 4256].map(|size| align_up(size, sb.min_io_size));
    let (mut dead, mut dark) = (0, 0);
    for leb in props.iter().filter(|leb| !leb.index) {
        let space = leb.free + leb.dirty;
        if space < dead_wm {
            dead += u64::from(space);
        } else if space < dark_wm {
            dark += u64::from(space);
        } else if space < dark_wm + 56 {
            dark += u64::from(space - 56);
        } else {
            dark += u64::from(dark_wm);
        }
    }
    assert_eq!((master.total_dead, master.total_dark), (dead, dark));
    let all = master.total_free + master.total_dirty + master.total_used + master.index_size;
    assert_eq!(all, sb.main_bytes());
}

/// X: names, link counts, sizes, attributes; assembles file contents.
fn cross_references(inodes: &mut BTreeMap<u32, Found>, master: &Master, strictness: Strictness) {
    let mut names: BTreeMap<u32, u32> = BTreeMap::new();
    for found in inodes.values() {
        let entries = found.entries.values().map(|(ino, _)| *ino);
        for ino in entries.chain(found.xattrs.values().copied()) {
            *names.entry(ino).or_default() += 1;
        }
    }
    let all = inodes.clone();
    for (ino, found) in inodes.iter_mut() {
        let inode = &found.inode;
        assert!(u64::from(*ino) <= master.highest_inum);
        assert!(found.sqnums.iter().all(|sqnum| *sqnum > inode.creat_sqnum));
        let is_dir = inode.mode & 0o170_000 == 0o040_000;
        let is_regular = inode.mode & 0o170_000 == 0o100_000;
        let mut size = 160;
        let mut subdirs = 0;
        for (name, (target, kind)) in &found.entries {
            size += u64::from(align_up(57 + name.len() as u32, 8));
            let mode = all[target].inode.mode;
            let expected = [8, 4, 10, 6, 2, 1, 12][usize::from(kind.number())];
            assert_eq!(mode >> 12, expected);
            assert_eq!(all[target].inode.flags & inode_flags::XATTR, 0);
            subdirs += u32::from(*kind == EntryKind::Directory);
        }
        let named = names.get(ino).copied().unwrap_or(0);
        if is_dir {
            assert_eq!((inode.size, inode.nlink), (size, 2 + subdirs));
            assert_eq!(named, u32::from(*ino != 1));
        } else {
            assert!(found.entries.is_empty());
            assert_eq!(inode.nlink, named, "inode {ino}");
        }
        if !is_dir && !is_regular && strictness == Strictness::Ours {
            let whiteout = inode.mode & 0o170_000 == 0o020_000 && found.inline == [0; 4];
            assert_eq!(inode.size, if whiteout { 0 } else { found.inline.len() as u64 });
        }
        let mut sums = (0, 0, 0);
        for (name, target) in &found.xattrs {
            let value = &all[target];
            assert_ne!(value.inode.flags & inode_flags::XATTR, 0);
            assert_eq!((value.inode.nlink, value.inode.size), (1, value.inline.len() as u64));
            let entry = align_up(57 + name.len() as u32, 8);
            sums.0 += 1;
            sums.1 += entry + align_up(161 + value.inline.len() as u32, 8);
            sums.2 += name.len() as u32;
        }
        assert_eq!((inode.xattr_cnt, inode.xattr_size, inode.xattr_names), sums);
        if is_regular && inode.flags & inode_flags::XATTR == 0 {
            found.content = vec![0; inode.size as usize];
            for (number, block) in &found.blocks {
                assert!(block.iter().any(|byte| *byte != 0), "a hole is stored");
                found.content[*number as usize * 4096..][..block.len()].copy_from_slice(block);
            }
        } else {
            assert!(found.blocks.is_empty());
        }
    }
}
