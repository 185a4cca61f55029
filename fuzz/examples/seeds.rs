//! Writes seeds for every fuzz target, made by our own writers, below the folder that is named.

use eraseblock_base::{ByteOrder, VolumeId};
use eraseblock_codec::{Codec, CompressSpec, Compressor};
use eraseblock_fuzz::{LEB_SIZE, layout};
use eraseblock_tree::tar_out::{self, TarOptions};
use eraseblock_ubi::image::{
    ContentSize, ImagePlan, ImageSpec, ReaderSource, VERSION, VolumeSize, VolumeSpec,
};
use eraseblock_ubi_format::{EraseCount, VolumeFlags, VolumeKind, VolumeName};
use eraseblock_ubifs::mkfs::{self, FileSink, MkfsOptions, NoProgress};
use eraseblock_vfs::source::NodeId;
use eraseblock_vfs::{FileSystem, SourceKind, SourceNode, SourceTree};
use eraseblock_vfs_testkit::MemoryFs;
use eraseblock_yaffs_format::{ObjectKind, PackedTags, checkpoint};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{Cursor, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The most bytes that a target takes.
const MOST: usize = 1 << 20;
/// Bytes of a YAFFS after which a seed ends, so that it is read fast: two eraseblocks of most layouts.
const YAFFS: usize = 64 * 2112;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let corpus = std::env::args_os().nth(1).ok_or("the folder for the seeds is missing")?;
    let put = |target: &str, name: &str, bytes: &[u8]| -> Result<()> {
        let folder = Path::new(&corpus).join(target);
        fs::create_dir_all(&folder)?;
        Ok(fs::write(folder.join(format!("seed-{name}")), bytes)?)
    };
    let mut tar = Vec::new();
    let memory = MemoryFs::new(folder()?);
    tar_out::write(&memory, memory.root(), &mut tar, &TarOptions::default())?;
    put("tar", "plain", &tar)?;
    put("cpio", "end", CPIO)?;
    for entry in fs::read_dir("../recordings")? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        put("recording", &name, &fs::read(&path)?)?;
    }
    put("recording", "fio", b"fio version 3 iolog\n25 /d/f add\n164 /d/f write 0 4096\n")?;
    let strace = br#"1 1.000001 openat(AT_FDCWD</d>, "x", O_RDWR|O_CREAT, 0666) = 3</d/x>"#;
    put("recording", "strace", strace)?;
    put("undo", "one", &undo_file()?)?;
    for compressor in [mkfs::Compressor::None, mkfs::Compressor::Lzo, mkfs::Compressor::Zlib] {
        let volume = ubifs(compressor)?;
        let name = format!("{compressor:?}");
        put("ubifs_mount", &name, &volume)?;
        put("asm", &name, &[&[1], &volume[..]].concat())?;
        put("census", &name, &[&[1], &volume[..]].concat())?;
        put("census", &format!("ubi-{name}"), &[&[0], &ubi(&volume)?[..]].concat())?;
        put("nand_detect", &name, &[&[0], &volume[..]].concat())?;
        put("ubi_attach", &name, &ubi(&volume)?)?;
        for (number, leb) in volume.chunks(LEB_SIZE as usize).enumerate() {
            put("ubifs_scan", &format!("{name}-{number}"), leb)?;
            put("ubifs_node", &format!("{name}-{number}"), leb)?;
            put("lpt", &format!("{name}-{number}"), leb)?;
        }
    }
    for order in eraseblock_jffs2_format::ByteOrder::ALL {
        let mut options = eraseblock_jffs2::mkfs::MkfsOptions::new(8192);
        (options.order, options.summary) = (order, true);
        let mut image = Vec::new();
        let progress = eraseblock_jffs2::mkfs::NoProgress;
        eraseblock_jffs2::mkfs::build(&folder()?, &options, &mut image, &progress)?;
        put("jffs2_mount", &format!("{order}"), &image)?;
    }
    let options = eraseblock_axfs::mkfs::MkfsOptions::default();
    let mut image = Vec::new();
    eraseblock_axfs::mkfs::build(&folder()?, &options, &mut image, &|_| {})?;
    put("axfs", "packed", &image)?;
    for (index, in_band) in [false, true].into_iter().enumerate() {
        let layout = eraseblock_fuzz::yaffs_layout(if in_band { 3 } else { 1 });
        let options = eraseblock_yaffs::mkfs::MkfsOptions { layout, most_blocks: None };
        let mut image = Vec::new();
        eraseblock_yaffs::mkfs::build(&folder()?, &options, &mut image, &|_| {})?;
        put("yaffs_mount", &format!("{index}"), &image)?;
    }
    for (target, name) in [
        ("logfs", "logfs/tests/data/empty-plain"),
        ("logfs", "logfs/tests/data/synthetic"),
        ("yaffs_mount", "yaffs/tests/data/mkyaffs2image"),
        ("yaffs_mount", "yaffs/tests/data/mkyaffsimage"),
        ("yaffs_mount", "yaffs/tests/data/inband-torn"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../crates/{name}.img.zst"));
        let mut image = unpacked(&path)?;
        image.truncate(if target == "logfs" { MOST } else { YAFFS });
        put(target, name.rsplit('/').next().unwrap_or(name), &image)?;
    }
    squashfs(&put)?;
    let (order, shape) =
        (ByteOrder::Little, checkpoint::Shape { blocks: 5, chunks: 64, pointer: 8 });
    let stream = checkpoint::encode(order, shape, 60, &state());
    put("yaffs_checkpoint", "stream", &[&[6, 5], &stream[..]].concat())?;
    put("yaffs_spare", "page", &page())?;
    let image = ubi(&[7; 5000])?;
    put("ubi_headers", "ec", &image[..64])?;
    put("ubi_headers", "vid", &image[512..576])?;
    put("ubi_table", "table", &image[1024..1024 + 172 * 4])?;
    for codec in [Codec::Lzo, Codec::Zlib, Codec::Zstd] {
        let mut stream = Vec::new();
        let block: Vec<u8> = (0..4095_u32).map(|at| (at * at / 97 % 61) as u8).collect();
        Compressor::new(CompressSpec::image(codec))?.compress(&block, &mut stream)?;
        put(codec.name(), "block", &[&4094_u16.to_le_bytes()[..], &stream].concat())?;
    }
    put("devtable", "table", b"/dev d 755 0 0 - - - - -\n/dev/tty c 666 0 5 4 0 0 1 8\n")?;
    put(
        "file_contexts",
        "rules",
        b"# all\n/.*\tu:r:all:s0\n/etc(/.*)? -- u:r:etc:s0\n/a <<none>>\n",
    )?;
    put(
        "ini",
        "volumes",
        b"[root]\nmode=ubi\nvol_id=1\nvol_size=8MiB\nvol_name=r\nvol_flags=autoresize\n",
    )
}

/// An archive of one file of two bytes, in the newc format.
const CPIO: &[u8] = b"0707010000000100008124000000000000000000000001000000000000000200000000000000000000000000000000\
0000000200000000a\0h\n\0\00707010000000000000000000000000000000000000001000000000000000000000000\
0000000000000000000000000000000B00000000TRAILER!!!\0\0\0\0";

/// The undo file of a change of the target that the fuzz target has.
fn undo_file() -> Result<Vec<u8>> {
    let before = eraseblock_fuzz::scratch("before", &[0x5A; 8192]);
    let after = eraseblock_fuzz::scratch("after", &[&[0x5A; 4096][..], &[0x33; 4096]].concat());
    let undo = eraseblock_fuzz::scratch_path("undo-seed");
    let _ = fs::remove_file(&undo);
    eraseblock_repair::undo::replace(&before, &after, &undo)?;
    Ok(fs::read(undo)?)
}

fn folder() -> Result<SourceTree> {
    let dir = || SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let mut tree = SourceTree::new(dir());
    let sub = tree.add(NodeId::ROOT, b"dir", dir())?;
    for len in [0, 10, 5000, 20_000_usize] {
        let bytes: Vec<u8> = b"some text ".iter().copied().cycle().take(len).collect();
        let mut node = SourceNode::new(SourceKind::Regular(Arc::new(bytes)), 0o644);
        node.xattrs = vec![(b"user.x".to_vec(), vec![7; len % 100])];
        let id = tree.add(sub, format!("file-{len}").as_bytes(), node)?;
        tree.link(NodeId::ROOT, format!("link-{len}").as_bytes(), id)?;
    }
    tree.add(sub, b"target", SourceNode::new(SourceKind::Symlink(b"file-10".to_vec()), 0o777))?;
    tree.add(sub, b"null", SourceNode::new(SourceKind::CharDevice(1, 3), 0o666))?;
    Ok(tree)
}

fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let mut decoder = zstd::Decoder::new(fs::File::open(path)?)?;
    decoder.window_log_max(27)?;
    let mut image = Vec::new();
    decoder.read_to_end(&mut image)?;
    Ok(image)
}

/// Images of `mksquashfs`, where it is installed.
fn squashfs(put: &dyn Fn(&str, &str, &[u8]) -> Result<()>) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("eraseblock-seeds-{}", std::process::id()));
    fs::create_dir_all(folder.join("tree/dir"))?;
    for len in [0, 10, 5000, 20_000_usize] {
        let bytes: Vec<u8> = b"some text ".iter().copied().cycle().take(len).collect();
        fs::write(folder.join(format!("tree/dir/file-{len}")), bytes)?;
    }
    for compressor in ["gzip", "lzma", "lzo", "xz", "lz4", "zstd"] {
        let mut make = Command::new("mksquashfs");
        make.current_dir(&folder).args(["tree", compressor, "-comp", compressor, "-b", "4096"]);
        if make.stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
            put("squashfs", compressor, &fs::read(folder.join(compressor))?)?;
        }
    }
    Ok(fs::remove_dir_all(folder)?)
}

/// A checkpoint with a file of three chunks.
fn state() -> checkpoint::Checkpoint {
    let file = checkpoint::Object {
        id: 0x101,
        parent: 1,
        header: 17,
        kind: ObjectKind::File,
        is_fake: false,
        value: 3 * 2048,
        map: vec![(1, 18), (2, 19), (3, 33)],
    };
    checkpoint::Checkpoint {
        device: checkpoint::Device {
            erased_blocks: 2,
            allocation_block: 3,
            allocation_page: 7,
            free_chunks: 100,
            unlinked_files: 0,
            sequence: 0x1003,
        },
        blocks: vec![checkpoint::BlockInfo::default(); 5],
        objects: vec![file],
    }
}

/// A spare area, and a page with the header of a file.
fn page() -> Vec<u8> {
    let mut bytes = vec![0xFF; 64 + 2048];
    let tags = PackedTags { sequence: 0x1000, object: 0x101, chunk: 0, bytes: 0xFFFF };
    bytes[..16].copy_from_slice(&tags.encode(ByteOrder::Little));
    bytes[64..68].copy_from_slice(&1_u32.to_le_bytes());
    bytes[68..72].copy_from_slice(&1_u32.to_le_bytes());
    bytes[74..80].copy_from_slice(b"name\0\0");
    bytes
}

fn ubifs(compressor: mkfs::Compressor) -> Result<Vec<u8>> {
    let options =
        MkfsOptions { compressor, ..MkfsOptions::new(LEB_SIZE, eraseblock_fuzz::MIN_IO, 64) };
    let mut sink = FileSink::new(Cursor::new(Vec::new()), LEB_SIZE);
    mkfs::build(&folder()?, &options, &mut sink, &NoProgress)?;
    Ok(sink.into_inner().into_inner())
}

fn ubi(volume: &[u8]) -> Result<Vec<u8>> {
    let plan = ImagePlan::new(ImageSpec {
        layout: layout(),
        erase_count: EraseCount::default(),
        image_seq: 7,
        version: VERSION,
        end_marks: 0,
        volumes: vec![VolumeSpec {
            id: VolumeId::new(0),
            name: VolumeName::new("root").ok_or("the name is legal")?,
            kind: VolumeKind::Dynamic,
            alignment: 1,
            size: VolumeSize::Content,
            flags: VolumeFlags::default(),
            content: ContentSize::Bytes(volume.len() as u64),
        }],
    })?;
    let mut image = Vec::new();
    plan.write(&mut image, &mut [&mut ReaderSource::new(volume)])?;
    Ok(image)
}
