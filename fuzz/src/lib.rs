//! What fuzz targets share: the shapes of the small devices they read, and reading everything.

use eraseblock_base::{ByteOrder, Location};
use eraseblock_census::{Format, Segment};
use eraseblock_jffs2::{Jffs2, Source};
use eraseblock_mtd::LebDevice;
use eraseblock_recording::{FioExport, FioVersion, Reader};
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubifs::{OpenOptions, Ubifs};
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{FileKind, FileSystem, SourceKind, SourceTree};
use eraseblock_yaffs::{DataEcc, Layout, TagsPlace, Version, Yaffs};
use eraseblock_yaffs_format::constants::TAGS_LEN;
use eraseblock_yaffs_format::xattr::Records;
use eraseblock_yaffs_format::{Header, PackedTags, Tags, checkpoint, small, summary};
use std::io::Read;
use std::sync::Arc;

/// Usable bytes of a LEB: the smallest UBIFS allows.
pub const LEB_SIZE: u32 = 15_360;
/// Bytes of an eraseblock around it.
pub const PEB_SIZE: u32 = LEB_SIZE + 1024;
/// Smallest unit that can be written.
pub const MIN_IO: u32 = 512;

/// Most entries visited and most bytes read of a file: inputs are small, what they claim may not be.
const VISITS: u32 = 2000;
const READ_MOST: u64 = 64 << 10;

/// Bytes of an image as one segment, in a format that a number chooses.
pub fn segment(choice: u8, image: &[u8]) -> Segment {
    let format = match choice % 4 {
        0 => Format::Ubi(layout()),
        1 => Format::Ubifs { leb_size: LEB_SIZE },
        2 => Format::Jffs2 { block_size: 8192, order: ByteOrder::Little },
        _ => Format::Jffs2 { block_size: 8192, order: ByteOrder::Big },
    };
    Segment { offset: 0, len: image.len() as u64, format }
}

/// The layout of headers on the device.
pub fn layout() -> HeaderLayout {
    HeaderLayout::new(PEB_SIZE, MIN_IO, MIN_IO, None).expect("the sizes are legal")
}

/// Opens a UBIFS and reads all there is.
pub fn read_ubifs(device: Arc<dyn LebDevice>) {
    let options = OpenOptions { strict: false };
    if let Ok((fs, _)) = Ubifs::open(device, &options) {
        read_tree(&fs);
    }
}

/// Opens a JFFS2 and reads all there is.
pub fn read_jffs2(image: Vec<u8>) {
    let options = eraseblock_jffs2::OpenOptions::default();
    if let Ok((fs, _)) = Jffs2::open(Source::Image(Arc::new(image)), &options) {
        read_tree(&fs);
    }
}

/// Opens an AXFS and reads all there is.
pub fn read_axfs(image: Vec<u8>) {
    if let Ok((fs, _)) = eraseblock_axfs::Axfs::open(Arc::new(image)) {
        read_tree(&fs);
    }
}

/// Opens a LogFS and reads all there is.
pub fn read_logfs(image: Vec<u8>) {
    if let Ok((fs, _)) = eraseblock_logfs::Logfs::open(Arc::new(image)) {
        read_tree(&fs);
    }
}

/// Opens a SquashFS and reads all there is.
pub fn read_squashfs(image: Vec<u8>) {
    if let Ok(fs) = eraseblock_squashfs::Squashfs::open(Arc::new(image)) {
        read_tree(&fs);
    }
}

/// Opens a YAFFS, as it is detected and as a layout says that the first byte chooses, and reads all
/// there is.
pub fn read_yaffs(image: Vec<u8>) {
    let choice = image.first().copied().unwrap_or(0);
    let image = Arc::new(image);
    let source = || eraseblock_yaffs::Source::Image(image.clone());
    for layout in [None, Some(yaffs_layout(choice))] {
        let options = eraseblock_yaffs::OpenOptions { layout, ..Default::default() };
        if let Ok((fs, _)) = Yaffs::open(source(), &options) {
            read_tree(&fs);
        }
    }
    for page in [0, 100] {
        let _ = eraseblock_yaffs::locate(image.as_ref(), page, 0);
    }
}

/// Decodes what a page of YAFFS may have: the first bytes are its spare area, the others its data.
pub fn read_yaffs_page(bytes: &[u8]) {
    let Some((spare, data)) = bytes.split_first_chunk::<64>() else { return };
    if let Some((small, _)) = spare.split_first_chunk::<{ small::SPARE }>() {
        let _ = small::SmallTags::decode(small);
    }
    let (Some(tags), Some(ecc)) = (spare.first_chunk(), spare[TAGS_LEN..].first_chunk()) else {
        return;
    };
    for order in ByteOrder::ALL {
        let _ = Tags::unpack(PackedTags::decode(order, tags));
        let _ = PackedTags::decode_with_ecc(order, tags, ecc).map(|(tags, _)| Tags::unpack(tags));
        let _ = Header::decode(order, data, Location::Whole);
        for record in Records::new(order, data.get(512..).unwrap_or_default()) {
            let _ = record;
        }
    }
}

/// Parses a checkpoint and a summary; the first two bytes choose their sizes.
pub fn read_yaffs_state(bytes: &[u8]) {
    let Some(([sizes, blocks], stream)) = bytes.split_first_chunk::<2>() else { return };
    let chunks = [16, 32, 64, 128][usize::from(sizes & 3)];
    let pointer = if sizes & 4 == 0 { 4 } else { 8 };
    let shape = checkpoint::Shape { blocks: (*blocks).into(), chunks, pointer };
    let summary = summary::Shape { chunks, data: [512, 2048][usize::from(sizes >> 3 & 1)] };
    let parts: Vec<&[u8]> = stream.chunks(summary.data as usize).collect();
    for order in ByteOrder::ALL {
        let _ = checkpoint::parse(order, shape, stream);
        let _ = summary::decode(order, summary, 0x1000 + u32::from(sizes >> 4), &parts);
    }
}

/// The layout that a byte stands for.
pub fn yaffs_layout(choice: u8) -> Layout {
    if choice & 1 == 0 {
        return Layout::small();
    }
    let place = if choice & 2 == 0 { TagsPlace::spare(2, false) } else { TagsPlace::InBand };
    Layout {
        version: Version::Yaffs2,
        page: 1024,
        spare: 32,
        pages_per_block: 16,
        order: ByteOrder::ALL[usize::from(choice >> 2 & 1)],
        place,
        tags_ecc: false,
        data_ecc: DataEcc::None,
    }
}

fn read_tree(fs: &dyn FileSystem) {
    let _ = fs.stat_fs();
    let mut visits = 0;
    let _: Result<(), ()> = walk(fs, fs.root(), &mut |visit| {
        visits += 1;
        if let Visit::Entry { entry, .. } = visit {
            read_inode(fs, entry.ino);
        }
        if visits > VISITS { Err(()) } else { Ok(Descend::Yes) }
    });
}

fn read_inode(fs: &dyn FileSystem, ino: u64) {
    let Ok(attr) = fs.attr(ino) else { return };
    for name in fs.list_xattrs(ino).unwrap_or_default() {
        let _ = fs.xattr(ino, &name);
    }
    match attr.kind {
        FileKind::Symlink => drop(fs.read_link(ino)),
        FileKind::Regular => {
            let mut buf = vec![0; 16 << 10];
            for start in (0..attr.size.min(READ_MOST)).step_by(buf.len()) {
                let _ = fs.read(ino, start, &mut buf);
            }
            let _ = fs.read(ino, attr.size.saturating_sub(1), &mut buf);
            let _ = fs.seek_data(ino, 0);
            let _ = fs.seek_hole(ino, 0);
        }
        _ => {}
    }
}

/// Reads the contents of a tree.
pub fn read_source(tree: &SourceTree) {
    for (_, node) in tree.nodes() {
        if let SourceKind::Regular(content) = &node.kind
            && let Ok(bytes) = content.open()
        {
            let _ = std::io::copy(&mut bytes.take(READ_MOST), &mut std::io::sink());
        }
    }
}

/// Reads a recording and writes it for fio.
pub fn read_recording(bytes: &[u8]) {
    let Ok(reader) = Reader::new(bytes, b"/d") else { return };
    let Ok(mut export) = FioExport::new(std::io::sink(), FioVersion::Two, b"/d") else { return };
    for step in reader.map_while(Result::ok) {
        let _ = export.step(&step);
    }
}

/// Decompresses into a buffer whose length the first two bytes of the input tell, as an inode's
/// data node does.
pub fn decompress(codec: eraseblock_codec::Codec, data: &[u8]) {
    let Some((len, stream)) = data.split_first_chunk::<2>() else { return };
    let mut out = vec![0; usize::from(u16::from_le_bytes(*len)) % 4096 + 1];
    let _ = eraseblock_codec::decompress(codec, stream, &mut out);
}

/// Returns the path of a file of this process.
pub fn scratch_path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("eraseblock-fuzz-{}-{name}", std::process::id()))
}

/// Returns a file with this content, open at its start.
pub fn scratch(name: &str, content: &[u8]) -> std::fs::File {
    let path = scratch_path(name);
    std::fs::write(&path, content).expect("the folder for temporary files can be written");
    let mut options = std::fs::File::options();
    options.read(true).write(true).open(path).expect("it was written above")
}
