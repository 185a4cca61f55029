//! Images created node by node, read back as Linux would read them.

mod damaged;

use crate::{Jffs2, Jffs2Error, Jffs2Rw, OpenOptions, RwOptions, Source};
use eraseblock_base::random::SplitMix64;
use eraseblock_base::{Findings, Geometry, MediumKind};
use eraseblock_codec::{rtime, zlib};
use eraseblock_jffs2_format::constants::compression;
use eraseblock_jffs2_format::{ByteOrder, Dirent, Inode, Xattr, Xref, crc32, device_bytes, encode};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{
    Background, FileKind, FileSystem, FsErrorKind, Timestamp, WritableFileSystem,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BLOCK: usize = 8192;
const FILE: u32 = 0o100_644;

/// Writes nodes into blocks with cleanmarkers.
struct Image {
    order: ByteOrder,
    bytes: Vec<u8>,
}

impl Image {
    fn new(order: ByteOrder) -> Self {
        let mut image = Self { order, bytes: Vec::new() };
        encode::cleanmarker(order, 12, &mut image.bytes);
        image
    }

    fn place(&mut self, node: &[u8]) -> usize {
        if self.bytes.len() % BLOCK + node.len() > BLOCK {
            self.next_block();
        }
        self.bytes.extend_from_slice(node);
        self.bytes.len() - node.len()
    }

    fn next_block(&mut self) {
        let end = self.bytes.len().next_multiple_of(BLOCK);
        self.bytes.resize(end, 0xFF);
        encode::cleanmarker(self.order, 12, &mut self.bytes);
    }

    fn name(&mut self, pino: u32, version: u32, name: &str, ino: u32, file_type: u8) -> usize {
        let name = name.as_bytes();
        let entry = Dirent { pino, version, ino, mctime: 0, file_type, name };
        let mut node = Vec::new();
        encode::dirent(self.order, &entry, &mut node);
        self.place(&node)
    }

    fn inode(&mut self, inode: Inode, data: &[u8]) -> usize {
        let mut node = Vec::new();
        encode::inode(self.order, &inode, data, &mut node);
        self.place(&node)
    }

    /// Returns a stored data node.
    fn data(&mut self, ino: u32, version: u32, offset: u32, isize: u32, data: &[u8]) -> usize {
        let dsize = data.len() as u32;
        let mode = FILE;
        self.inode(Inode { ino, version, mode, isize, offset, dsize, ..Inode::default() }, data)
    }

    fn open(&self) -> (Jffs2, Findings) {
        open(self.bytes.clone(), OpenOptions::default())
    }
}

fn open(bytes: Vec<u8>, options: OpenOptions) -> (Jffs2, Findings) {
    Jffs2::open(Source::Image(Arc::new(bytes)), &options).unwrap()
}

fn content(fs: &Jffs2, path: &str) -> Vec<u8> {
    let ino = fs.resolve(path.as_bytes()).unwrap();
    let mut buf = vec![0xAA; fs.attr(ino).unwrap().size as usize + 10];
    let len = fs.read(ino, 0, &mut buf).unwrap();
    buf.truncate(len);
    buf
}

fn codes(findings: &Findings) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code.name()).collect()
}

/// Returns an image with everything a file system can contain, in either byte order.
fn sample(order: ByteOrder) -> Image {
    let mut image = Image::new(order);
    for (version, name, ino, file_type) in [
        (1, "file", 2, 8),
        (2, "gone", 2, 8),
        (3, "gone", 0, 0),
        (4, "link", 3, 10),
        (5, "dev", 4, 2),
        (6, "dir", 5, 4),
        (7, "hard", 2, 8),
        (8, "packed", 6, 8),
        (9, "nowhere", 77, 8),
    ] {
        image.name(1, version, name, ino, file_type);
    }
    image.data(2, 1, 0, 100, &[b'a'; 100]);
    image.data(2, 2, 40, 100, &[b'b'; 20]);
    image.data(2, 3, 90, 300, &[b'c'; 210]);
    image.inode(
        Inode {
            ino: 2,
            version: 4,
            mode: 0o100_600,
            uid: 7,
            gid: 8,
            isize: 200,
            mtime: 5,
            ..Inode::default()
        },
        &[],
    );
    image.inode(
        Inode { ino: 3, version: 1, mode: 0o120_777, isize: 4, dsize: 4, ..Inode::default() },
        b"file",
    );
    let device = device_bytes(order, 300, 70_000).unwrap();
    image.inode(
        Inode { ino: 4, version: 1, mode: 0o020_600, dsize: 4, ..Inode::default() },
        &device,
    );
    image.inode(Inode { ino: 5, version: 1, mode: 0o040_750, mtime: 9, ..Inode::default() }, &[]);
    image.name(5, 2, "below", 2, 8);
    let (mut packed, text) = (Vec::new(), b"abcabc".repeat(100));
    rtime::compress(&text, &mut packed);
    let mut node = Inode {
        ino: 6,
        version: 1,
        mode: FILE,
        isize: 600,
        dsize: 600,
        compression: compression::RTIME,
        ..Inode::default()
    };
    image.inode(node, &packed);
    let mut encoder = zlib::Encoder::new(9).unwrap();
    assert!(encoder.compress(&text, 600, &mut packed));
    node = Inode { version: 2, offset: 600, isize: 1200, compression: compression::ZLIB, ..node };
    image.inode(node, &packed);
    node = Inode { version: 3, offset: 1200, isize: 1800, compression: compression::ZERO, ..node };
    image.inode(node, &[]);
    // An inode without a name.
    image.data(9, 1, 0, 4, b"lost");
    for (xid, prefix, name, value) in
        [(1, 1, &b"a"[..], &b"old"[..]), (2, 1, b"a", b"new"), (3, 5, b"gone", b"x")]
    {
        let mut node = Vec::new();
        encode::xattr(order, &Xattr { xid, version: 1, prefix, name, value }, &mut node);
        image.place(&node);
    }
    for (xid, xseqno) in [(2, 4), (1, 2), (3, 6), (3, 9)] {
        let mut node = Vec::new();
        encode::xref(order, &Xref { ino: 2, xid, xseqno }, &mut node);
        image.place(&node);
    }
    image.next_block();
    image.name(5, 3, "late", 6, 8);
    image
}

#[test]
fn a_tree_is_read_in_both_byte_orders() {
    for order in ByteOrder::ALL {
        let (fs, findings) = sample(order).open();
        assert_eq!(fs.info().shape.order, order);
        assert_eq!((fs.info().shape.erase_size, fs.info().shape.cleanmarker), (8192, 12));
        assert_eq!(codes(&findings), ["dangling-name", "orphans"]);
        let names: Vec<Vec<u8>> = fs.entries(1).unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, [&b"dev"[..], b"dir", b"file", b"hard", b"link", b"packed"]);
        let mut expected = vec![b'a'; 200];
        expected[40..60].fill(b'b');
        expected[90..].fill(b'c');
        assert_eq!(content(&fs, "hard"), expected);
        let attr = fs.attr(2).unwrap();
        assert_eq!((attr.permissions, attr.uid, attr.gid, attr.nlink), (0o600, 7, 8, 3));
        assert_eq!((attr.size, attr.mtime), (200, Timestamp::from_seconds(5)));
        assert_eq!(fs.read_link(3).unwrap(), b"file");
        assert_eq!(fs.attr(4).unwrap().rdev, (300, 70_000));
        assert_eq!(fs.attr(5).unwrap().permissions, 0o750);
        assert_eq!(fs.attr(1).unwrap().nlink, 4);
        let mut packed = b"abcabc".repeat(200);
        packed.resize(1800, 0);
        assert_eq!(content(&fs, "dir/late"), packed);
        assert_eq!(fs.seek_hole(6, 0).unwrap(), 1200);
        assert_eq!(fs.seek_data(6, 1300).unwrap(), None);
        assert_eq!(fs.list_xattrs(2).unwrap(), [b"user.a"]);
        assert_eq!(fs.xattr(2, b"user.a").unwrap(), b"new");
        assert_eq!(fs.attr(9).unwrap_err().kind(), FsErrorKind::NotFound);
    }
}

#[test]
fn a_damaged_data_node_leaves_the_older_one() {
    let mut image = Image::new(ByteOrder::Little);
    image.name(1, 1, "f", 2, 8);
    image.data(2, 1, 0, 8, b"old data");
    let newer = image.data(2, 2, 0, 8, b"new data");
    image.bytes[newer + 70] ^= 1;
    let (fs, findings) = image.open();
    assert!(codes(&findings).contains(&"node-damaged"));
    assert_eq!(content(&fs, "f"), b"old data");
}

#[test]
fn bytes_that_go_bad_after_opening_are_errors() {
    #[derive(Debug)]
    struct Fading(Vec<u8>, usize, std::sync::atomic::AtomicBool);
    impl eraseblock_mtd::ReadAt for Fading {
        fn size(&self) -> std::io::Result<u64> {
            self.0.size()
        }
        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
            self.0.read_exact_at(buf, offset)?;
            let faded = self.2.load(std::sync::atomic::Ordering::Relaxed);
            if let Some(byte) = self.1.checked_sub(offset as usize).filter(|_| faded)
                && let Some(byte) = buf.get_mut(byte)
            {
                *byte ^= 1;
            }
            Ok(())
        }
    }
    let mut image = Image::new(ByteOrder::Little);
    image.name(1, 1, "f", 2, 8);
    let place = image.data(2, 1, 0, 4, b"data");
    let fading = Arc::new(Fading(image.bytes, place + 69, false.into()));
    let source = Source::Image(Arc::<Fading>::clone(&fading));
    let (fs, _) = Jffs2::open(source, &OpenOptions::default()).unwrap();
    assert_eq!(content(&fs, "f"), b"data");
    fading.2.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(fs.read(2, 0, &mut [0; 4]).unwrap_err().kind(), FsErrorKind::Corrupted);
}

#[test]
fn equal_versions_and_reduced_sizes() {
    let mut image = Image::new(ByteOrder::Little);
    image.name(1, 4, "f", 3, 8);
    image.name(1, 4, "f", 2, 8);
    image.data(2, 1, 0, 500, b"first");
    image.data(2, 1, 0, 500, b"again");
    image.data(3, 1, 0, 1, b"x");
    let (fs, _) = image.open();
    assert_eq!(content(&fs, "f"), b"again");
    assert_eq!(codes(&fs.late_findings()), ["size-reduced"]);
}

#[test]
fn an_image_inside_other_bytes_is_found() {
    let sample = sample(ByteOrder::Big).bytes;
    let mut bytes = vec![0x5A; 5 * 4096];
    bytes.extend_from_slice(&sample);
    bytes.resize(bytes.len().next_multiple_of(4096), 0xFF);
    bytes.extend_from_slice(&b"trailing".repeat(3000));
    let (fs, findings) = open(bytes, OpenOptions::default());
    assert_eq!(fs.info().shape.start, 5 * 4096);
    assert_eq!(fs.entries(1).unwrap().len(), 6);
    assert!(codes(&findings).contains(&"foreign-block"));
}

#[test]
fn without_markers_the_block_size_is_guessed_from_nodes() {
    let mut bytes = Vec::new();
    for number in 0..60 {
        let data = vec![number as u8; 900];
        let isize = (number + 1) * 900;
        let inode = Inode {
            ino: 2,
            version: number + 1,
            mode: FILE,
            isize,
            offset: number * 900,
            dsize: 900,
            ..Inode::default()
        };
        let mut node = Vec::new();
        encode::inode(ByteOrder::Little, &inode, &data, &mut node);
        if bytes.len() % 16_384 + node.len() > 16_384 {
            bytes.resize(bytes.len().next_multiple_of(16_384), 0xFF);
        }
        bytes.extend_from_slice(&node);
    }
    let entry = Dirent { pino: 1, version: 1, ino: 2, mctime: 3, file_type: 8, name: b"f" };
    encode::dirent(ByteOrder::Little, &entry, &mut bytes);
    let (fs, _) = open(bytes, OpenOptions::default());
    assert_eq!((fs.info().shape.erase_size, fs.info().shape.cleanmarker), (16_384, 0));
    assert_eq!(content(&fs, "f").len(), 54_000);
    // A root without a node of its own has no times, regardless of the names in it.
    assert_eq!(fs.attr(1).unwrap().mtime, Timestamp::from_seconds(0));
}

/// The dump of a flash whose first blocks were free was taken for a shorter flash.
#[test]
fn erased_blocks_before_the_first_node_belong_to_the_flash() {
    let mut bytes = vec![0xFF; 2 * BLOCK];
    bytes.extend_from_slice(&sample(ByteOrder::Little).bytes);
    bytes.resize(5 * BLOCK, 0xFF);
    let options = OpenOptions { erase_size: Some(BLOCK as u32), ..OpenOptions::default() };
    let (fs, _) = open(bytes.clone(), options);
    assert_eq!((fs.info().shape.start, fs.info().blocks), (0, 5));
    assert!(fs.resolve(b"hard").is_ok());
    bytes[0] = 0x27;
    let (fs, _) = open(bytes, options);
    assert_eq!((fs.info().shape.start, fs.info().blocks), (2 * BLOCK as u64, 3));
}

#[test]
fn what_is_not_jffs2_is_refused() {
    let source = |bytes: Vec<u8>| Source::Image(Arc::new(bytes));
    for bytes in [vec![], vec![0xFF; 70_000], vec![0; 100], b"\x85\x19\x03\x20".repeat(50)] {
        let error = Jffs2::open(source(bytes), &OpenOptions::default()).unwrap_err();
        assert!(error.to_string().starts_with("no JFFS2 node"), "{error}");
    }
    let options = OpenOptions { erase_size: Some(100), ..OpenOptions::default() };
    assert!(Jffs2::open(source(sample(ByteOrder::Big).bytes), &options).is_err());
}

#[test]
fn directories_with_many_names_do_not_multiply() {
    let mut image = Image::new(ByteOrder::Little);
    for ino in 2..40 {
        let mode = 0o040_755;
        image.inode(Inode { ino, version: 1, mode, ..Inode::default() }, &[]);
        image.name(ino - 1, 2, "a", ino, 4);
        image.name(ino - 1, 3, "b", ino, 4);
    }
    let (fs, findings) = image.open();
    assert!(codes(&findings).contains(&"directory-name-hidden"));
    assert!(visit_all(&fs) < 2000);
}

#[test]
fn deleted_directories_that_name_each_other_are_gone() {
    let mut image = Image::new(ByteOrder::Little);
    for ino in [5, 6] {
        let mode = 0o040_755;
        image.inode(Inode { ino, version: 1, mode, ..Inode::default() }, &[]);
    }
    image.data(7, 1, 0, 4, b"file");
    image.name(5, 2, "below", 6, 4);
    image.name(6, 2, "above", 5, 4);
    image.name(5, 3, "second", 7, 8);
    image.name(1, 2, "first", 7, 8);
    image.next_block();
    let (fs, findings) = image.open();
    assert_eq!(codes(&findings), ["orphans"]);
    assert_eq!((visit_all(&fs), fs.attr(7).unwrap().nlink), (1, 1));
    assert_eq!(fs.attr(5).unwrap_err().kind(), FsErrorKind::NotFound);

    let geometry = Geometry::new(MediumKind::Nor, BLOCK as u32, 8, 1, 1, 0).unwrap();
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
    image.bytes.resize(8 * BLOCK, 0xFF);
    chip.import(&mut &*image.bytes, false).unwrap();
    let (fs, report) = Jffs2Rw::mount(chip, &RwOptions::default()).unwrap();
    fs.check().unwrap();
    assert_eq!((report.inodes, fs.attr(7).unwrap().nlink), (2, 1));
}

/// Reads everything, a little of each file; returns the number of entries.
fn visit_all(fs: &Jffs2) -> usize {
    let mut count = 0;
    let _ = walk::<()>(fs, fs.root(), &mut |visit| {
        let Visit::Entry { entry, .. } = visit else { return Ok(Descend::No) };
        count += 1;
        let size = fs.attr(entry.ino).map_or(0, |attr| attr.size);
        for name in fs.list_xattrs(entry.ino).unwrap_or_default() {
            let _ = fs.xattr(entry.ino, &name);
        }
        match entry.kind {
            FileKind::Symlink => drop(fs.read_link(entry.ino)),
            FileKind::Directory => {}
            _ => {
                for offset in [0, 4096, size.saturating_sub(10)] {
                    let _ = fs.read(entry.ino, offset, &mut [0; 4096]);
                }
                let _ = (fs.seek_data(entry.ino, 5), fs.seek_hole(entry.ino, 5));
            }
        }
        if count > 20_000 { Err(()) } else { Ok(Descend::Yes) }
    });
    count
}

/// Updates the checksums of every node.
fn forge(bytes: &mut [u8]) {
    let mut at = 0;
    while at + 68 <= bytes.len() {
        let node = &mut bytes[at..];
        if node[..2] != [0x85, 0x19] {
            at += 4;
            continue;
        }
        let crc = |node: &[u8]| crc32(node).to_le_bytes();
        let set = |node: &mut [u8], at: usize, crc: [u8; 4]| node[at..at + 4].copy_from_slice(&crc);
        let mut covered = [0; 8];
        covered.copy_from_slice(&node[..8]);
        covered[3] |= 0x20;
        set(node, 8, crc(&covered));
        let length = u32::from_le_bytes(node[4..8].try_into().unwrap()) as usize;
        match node[2] {
            1 => set(node, 32, crc(&node[..32])),
            2 => set(node, 64, crc(&node[..60])),
            8 => set(node, 28, crc(&node[..28])),
            9 => set(node, 24, crc(&node[..24])),
            _ => {}
        }
        if node[2] == 2 && (68..=node.len()).contains(&length) {
            set(node, 60, crc(&node[68..length]));
            set(node, 64, crc(&node[..60]));
        }
        at += length.clamp(4, 4096).next_multiple_of(4);
    }
}

#[test]
fn mutated_images_are_answered() {
    let original = sample(ByteOrder::Little).bytes;
    let used = original.iter().rposition(|byte| *byte != 0xFF).unwrap().min(2000);
    let slowest = (0..20_000_u64)
        .map(|round| {
            let mut random = SplitMix64::new(round);
            let mut bytes = original.clone();
            for _ in 0..=random.below(4) {
                let at = random.index(used);
                bytes[at] = random.interesting_byte();
            }
            if round % 2 == 0 {
                forge(&mut bytes);
            }
            let started = Instant::now();
            if let Ok((fs, _)) =
                Jffs2::open(Source::Image(Arc::new(bytes)), &OpenOptions::default())
            {
                visit_all(&fs);
            }
            started.elapsed()
        })
        .max();
    assert!(slowest.unwrap() < Duration::from_secs(2), "{slowest:?}");
}

// Linux mounts a chip that was only erased, and flash_erase -j leaves nothing but cleanmarkers.
#[test]
fn a_chip_without_a_node_is_an_empty_file_system() {
    for (kind, page, oob) in [(MediumKind::Nand, 512, 16), (MediumKind::Nor, 1, 0)] {
        let geometry = Geometry::new(kind, 16 << 10, 8, page, page, oob).unwrap();
        let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
        let told = OpenOptions { empty: true, ..OpenOptions::default() };
        let open = |options: &OpenOptions| Jffs2::open(Source::Device(chip.clone()), options);
        assert!(open(&OpenOptions::default()).is_err(), "nothing says that it is JFFS2");
        let (fs, findings) = open(&told).unwrap();
        assert!(findings.is_empty() && fs.entries(1).unwrap().is_empty());
        let root = fs.attr(1).unwrap();
        assert_eq!((root.permissions, root.nlink, root.mtime), (0o755, 3, Timestamp::default()));
        // A mount erases and marks the blocks.
        let (mounted, _) = Jffs2Rw::mount(chip.clone(), &RwOptions::default()).unwrap();
        while mounted.background_step().unwrap() == Background::More {}
        mounted.unmount().unwrap();
        assert!(open(&OpenOptions::default()).unwrap().0.entries(1).unwrap().is_empty());
        let other = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
        other.program(0, &vec![0x55; page.max(64) as usize]).unwrap();
        let found = Jffs2::open(Source::Device(other), &told);
        assert!(matches!(found, Err(Jffs2Error::NotJffs2 { .. })), "foreign content");
    }
    let erased: Arc<[u8]> = vec![0xFF; 1 << 18].into();
    let told = OpenOptions { empty: true, ..OpenOptions::default() };
    let image = || Source::Image(Arc::new(erased.to_vec()));
    assert!(Jffs2::open(image(), &OpenOptions::default()).is_err());
    assert!(Jffs2::open(image(), &told).unwrap().0.entries(1).unwrap().is_empty());
}

#[test]
fn a_survey_sees_the_shape_and_the_damage_that_opening_sees_but_not_the_tree() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut image = sample(order);
        let last = image.bytes.len() - 1;
        image.bytes[last] ^= 1;
        let source = Source::Image(Arc::new(image.bytes.clone()));
        let (seen, damage) = Jffs2::survey(&source, &OpenOptions::default()).unwrap();
        let (fs, findings) = image.open();
        assert_eq!((seen.shape, seen.node_bytes), (fs.info().shape, fs.info().node_bytes));
        assert!(seen.node_bytes > 0 && !codes(&damage).is_empty());
        assert_eq!(codes(&findings)[..codes(&damage).len()], codes(&damage));
        assert!(codes(&findings).contains(&"dangling-name"));
        assert!(!codes(&damage).contains(&"dangling-name"));
    }
    let nothing = Source::Image(Arc::new(vec![0xFF; 1 << 16]));
    assert!(matches!(
        Jffs2::survey(&nothing, &OpenOptions::default()),
        Err(Jffs2Error::NotJffs2 { .. })
    ));
}
