//! `cargo xtask mutate`: opens, lists and reads damaged and forged images of every format
//! completely.
//!
//! For any bytes, the result must be findings or an error: never a panic, never more than [`LIMIT`]
//! for one image, never more memory than [`MEMORY_FACTOR`] times the image in addition to the
//! allowed caches. The same seed gives the same images.

use anyhow::{Context, Result, bail, ensure};
use eraseblock_base::VolumeId;
use eraseblock_base::crc::crc32;
use eraseblock_base::random::SplitMix64;
use eraseblock_jffs2::mkfs::{
    Compressor as Jffs2Compressor, MkfsOptions as Jffs2Options, NoProgress as Jffs2NoProgress,
};
use eraseblock_jffs2::{Jffs2, Source};
use eraseblock_jffs2_format::scan::header_order;
use eraseblock_jffs2_format::{ByteOrder, NodeKind, crc32 as jffs2_crc};
use eraseblock_mtd::{ImageFile, LebFile};
use eraseblock_ubi::image::{
    ContentSize, ImagePlan, ImageSpec, LebSource, ReaderSource, VERSION, VolumeSize, VolumeSpec,
};
use eraseblock_ubi::{AttachOptions, Hints, Ubi, detect};
use eraseblock_ubi_format::{EraseCount, HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use eraseblock_ubifs::mkfs::{self, Compressor, FileSink, MkfsOptions, NoProgress};
use eraseblock_ubifs::{OpenOptions, Ubifs};
use eraseblock_vfs::source::NodeId;
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{FileKind, FileSystem, SourceKind, SourceNode, SourceTree};
use std::io::{Cursor, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Maximum processor time for one image; wall time would fail on a busy machine.
const LIMIT: Duration = Duration::from_secs(2);
/// Maximum memory for an image, in multiples of its own size, in addition to [`MEMORY_BASE`].
const MEMORY_FACTOR: u64 = 4;
/// Memory allowed for caches and buffers of fixed size.
const MEMORY_BASE: u64 = 64 << 20;
/// LEB size and minimum I/O unit of the samples: the smallest UBIFS allows.
const LEB_SIZE: u32 = 15_360;
const MIN_IO: u32 = 512;
/// Bytes read of one file; longer files are read from both ends.
const READ_MOST: u64 = 256 << 10;

/// One format: a name, samples to damage, and how they are read.
struct Format {
    name: &'static str,
    samples: Vec<Vec<u8>>,
    /// Repairs checksums, so that damage looks valid.
    forge: fn(&mut [u8], &mut SplitMix64),
    read: fn(Vec<u8>),
}

/// Runs `--count N` (default 100,000) images from `--seed S`, spread over the formats.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let option =
        |name: &str| args.iter().position(|arg| arg == name).and_then(|index| args.get(index + 1));
    let count: u64 = option("--count").map_or(Ok(100_000), |text| text.parse())?;
    let seed: u64 = option("--seed").map_or(Ok(0), |text| text.parse())?;
    let formats = formats()?;
    std::panic::set_hook(Box::new(|panic| println!("{panic}")));
    let mut failures = 0;
    for (number, format) in formats.iter().enumerate() {
        let mine = share(count, formats.len() as u64, number as u64);
        failures += campaign(format, seed, mine)?;
    }
    println!("{} passed, {failures} failed", count - failures);
    Ok(failures == 0)
}

/// Returns how many of `count` images the format with this number gets.
fn share(count: u64, formats: u64, number: u64) -> u64 {
    count / formats + u64::from(number < count % formats)
}

fn campaign(format: &Format, seed: u64, count: u64) -> Result<u64> {
    let (mut failures, mut slowest) = (0, Duration::ZERO);
    let base = reset_peak_memory()?;
    let largest = format.samples.iter().map(Vec::len).max().unwrap_or_default() as u64;
    for round in 0..count {
        let image = damaged(format, seed, round);
        let started = processor_time();
        let outcome = catch_unwind(AssertUnwindSafe(|| (format.read)(image)));
        let took = processor_time().saturating_sub(started);
        slowest = slowest.max(took);
        if outcome.is_err() || took > LIMIT {
            failures += 1;
            let what = if outcome.is_err() { "panic" } else { "too slow" };
            println!("{}: image {round} of seed {seed}: {what} ({took:?})", format.name);
        }
    }
    let grown = peak_memory()?.saturating_sub(base);
    let allowed = MEMORY_BASE + MEMORY_FACTOR * largest;
    println!(
        "{:12} {count:>7} images, slowest {:>6.1} ms, memory grew by {} KiB of {} KiB allowed",
        format.name,
        slowest.as_secs_f64() * 1e3,
        grown >> 10,
        allowed >> 10
    );
    if grown > allowed {
        println!("{}: too much memory", format.name);
        failures += 1;
    }
    Ok(failures)
}

/// Creates image number `round`: one to four damages to one of the samples.
fn damaged(format: &Format, seed: u64, round: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed ^ round.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut image = format.samples[random.index(format.samples.len())].clone();
    for _ in 0..=random.below(4) {
        damage(&mut image, &mut random, format.forge);
    }
    image
}

fn damage(image: &mut Vec<u8>, random: &mut SplitMix64, forge: fn(&mut [u8], &mut SplitMix64)) {
    if image.is_empty() {
        return;
    }
    let at = random.index(image.len());
    match random.below(12) {
        0 | 1 => image[at] ^= 1 << random.below(8),
        2 | 3 => image[at] = random.interesting_byte(),
        4 => image[at..].iter_mut().take(512).for_each(|byte| *byte = 0xFF),
        5 => {
            let value = random.interesting_byte();
            let len = 1 + random.index(8192);
            image[at..].iter_mut().take(len).for_each(|byte| *byte = value);
        }
        6 => {
            let from = random.index(image.len());
            let block: Vec<u8> = image[from..].iter().copied().take(4096).collect();
            image[at..].iter_mut().zip(block).for_each(|(to, byte)| *to = byte);
        }
        7 if random.below(4) == 0 => image.truncate(at),
        _ => forge(image, random),
    }
}

fn formats() -> Result<Vec<Format>> {
    let volumes = [ubifs(Compressor::None)?, ubifs(Compressor::Lzo)?, ubifs(Compressor::Zlib)?];
    let devices = volumes.iter().map(|volume| ubi(volume)).collect::<Result<Vec<_>>>()?;
    let archives = archives()?;
    Ok(vec![
        Format { name: "ubifs", samples: volumes.to_vec(), forge: forge_ubifs, read: read_ubifs },
        Format { name: "ubi", samples: devices, forge: forge_ubi, read: read_ubi },
        Format { name: "jffs2", samples: jffs2()?, forge: forge_jffs2, read: read_jffs2 },
        Format {
            name: "archives",
            samples: archives,
            forge: |image, random| {
                let at = random.index(image.len());
                image[at] = b"0123456789abcdef/.\0"[random.index(19)];
            },
            read: |image| read_archive(&image),
        },
    ])
}

/// Returns a small tree with one entry of every kind.
fn folder() -> Result<SourceTree> {
    let dir = || SourceNode::new(SourceKind::Directory(std::collections::BTreeMap::new()), 0o755);
    let file = |bytes: Vec<u8>| SourceNode::new(SourceKind::Regular(Arc::new(bytes)), 0o644);
    let mut tree = SourceTree::new(dir());
    let sub = tree.add(NodeId::ROOT, b"dir", dir())?;
    for number in 0..40_u32 {
        let len = (number * 397) as usize;
        let text = format!("line {number} of a file that compresses\n").into_bytes();
        let bytes: Vec<u8> = text.iter().copied().cycle().take(len).collect();
        let id = tree.add(sub, format!("file-{number}").as_bytes(), file(bytes))?;
        if number % 5 == 0 {
            tree.link(NodeId::ROOT, format!("link-{number}").as_bytes(), id)?;
            tree.node_mut(id).xattrs = vec![(b"user.x".to_vec(), vec![7; len % 300])];
        }
    }
    let mut sparse = vec![0; 50_000];
    sparse[40_000] = 1;
    tree.add(NodeId::ROOT, b"sparse", file(sparse))?;
    tree.add(sub, b"target", SourceNode::new(SourceKind::Symlink(b"../sparse".to_vec()), 0o777))?;
    tree.add(sub, b"null", SourceNode::new(SourceKind::CharDevice(1, 3), 0o666))?;
    tree.add(sub, b"pipe", SourceNode::new(SourceKind::Fifo, 0o600))?;
    Ok(tree)
}

fn ubifs(compressor: Compressor) -> Result<Vec<u8>> {
    let options = MkfsOptions { compressor, ..MkfsOptions::new(LEB_SIZE, MIN_IO, 64) };
    let tree = folder()?;
    let mut sink = FileSink::new(Cursor::new(Vec::new()), LEB_SIZE);
    mkfs::build(&tree, &options, &mut sink, &NoProgress)?;
    Ok(sink.into_inner().into_inner())
}

/// JFFS2 images in both byte orders: with cleanmarkers and summaries, and with neither.
fn jffs2() -> Result<Vec<Vec<u8>>> {
    let tree = folder()?;
    let mut samples = Vec::new();
    for order in ByteOrder::ALL {
        for summary in [true, false] {
            let mut options = Jffs2Options { order, summary, ..Jffs2Options::new(8192) };
            options.cleanmarker = if summary { 12 } else { 0 };
            options.compression.compressors.push((Jffs2Compressor::Lzo, 10));
            let mut image = Vec::new();
            eraseblock_jffs2::mkfs::build(&tree, &options, &mut image, &Jffs2NoProgress)?;
            samples.push(image);
        }
    }
    Ok(samples)
}

/// Changes a byte of some JFFS2 node and updates its checksums.
fn forge_jffs2(image: &mut [u8], random: &mut SplitMix64) {
    let start = random.index(image.len()) & !3;
    let found = (start..image.len().saturating_sub(12))
        .step_by(4)
        .take(4096)
        .find_map(|at| Some((at, header_order(&image[at..])?)));
    let Some((at, (order, header))) = found else { return };
    let node = &mut image[at..];
    let len = (header.totlen as usize).min(node.len());
    // For each kind of node: the number of bytes that its checksum covers, and its position.
    let (covered, crc_at) = match header.kind() {
        NodeKind::Inode => (60, 64),
        NodeKind::Dirent => (32, 32),
        NodeKind::Xattr | NodeKind::Summary => (28, 28),
        NodeKind::Xref => (24, 24),
        _ => (8, 8),
    };
    if len < crc_at + 4 {
        return;
    }
    let field = random.index(len.min(covered + 40));
    node[field] = random.interesting_byte();
    let mut put = |at: usize, end: usize, start: usize| {
        let crc = jffs2_crc(&node[start..end]);
        node[at..at + 4].copy_from_slice(&order.u32_bytes(crc));
    };
    if random.below(4) > 0 {
        put(8, 8, 0);
    }
    match header.kind() {
        NodeKind::Inode => put(60, len, 68),
        NodeKind::Dirent if len > 40 => put(36, len, 40),
        NodeKind::Xattr | NodeKind::Summary if len > 32 => put(24, len, 32),
        _ => {}
    }
    let covered = if header.kind() == NodeKind::Summary { 24 } else { covered };
    put(crc_at, covered, 0);
}

fn read_jffs2(image: Vec<u8>) {
    let source = Source::Image(Arc::new(image));
    if let Ok((fs, _)) = Jffs2::open(source, &eraseblock_jffs2::OpenOptions::default()) {
        read_tree(&fs);
    }
}

/// Returns a UBI image with the volume and a static one.
fn ubi(volume: &[u8]) -> Result<Vec<u8>> {
    let layout = HeaderLayout::new(LEB_SIZE + 1024, MIN_IO, MIN_IO, None)?;
    let fixed = vec![0xA5; 40_000];
    let spec = |id, name: &str, kind, bytes: &[u8]| VolumeSpec {
        id: VolumeId::new(id),
        name: VolumeName::new(name).expect("it is a name"),
        kind,
        alignment: 1,
        size: VolumeSize::Content,
        flags: VolumeFlags::default(),
        content: ContentSize::Bytes(bytes.len() as u64),
    };
    let plan = ImagePlan::new(ImageSpec {
        layout,
        erase_count: EraseCount::new(1).expect("it is in range"),
        image_seq: 7,
        version: VERSION,
        end_marks: 0,
        volumes: vec![
            spec(0, "root", VolumeKind::Dynamic, volume),
            spec(1, "fixed", VolumeKind::Static, &fixed),
        ],
    })?;
    let mut image = Vec::new();
    let (mut first, mut second) = (ReaderSource::new(volume), ReaderSource::new(fixed.as_slice()));
    plan.write(&mut image, &mut [&mut first as &mut dyn LebSource, &mut second])?;
    Ok(image)
}

/// Returns archives of a small directory, created by the system's tar and cpio.
fn archives() -> Result<Vec<Vec<u8>>> {
    let dir = tempfile::tempdir()?;
    let script = "mkdir -p t/d && cd t && echo hello > d/a && ln d/a d/b && ln -s a d/c && \
        truncate -s 9000 d/s && printf x >> d/s && mkfifo d/p && \
        tar --format=gnu -S -cf ../gnu . && tar --format=pax -S -cf ../pax . && \
        tar --format=ustar -cf ../ustar . && \
        for f in newc odc crc; do find . | cpio --quiet -o -H $f > ../cpio-$f; done";
    let status =
        std::process::Command::new("sh").args(["-c", script]).current_dir(dir.path()).status()?;
    ensure!(status.success(), "tar and cpio are needed to make samples");
    ["gnu", "pax", "ustar", "cpio-newc", "cpio-odc", "cpio-crc"]
        .iter()
        .map(|name| Ok(std::fs::read(dir.path().join(name))?))
        .collect()
}

/// Changes a byte of some UBIFS node and updates its checksum.
fn forge_ubifs(image: &mut [u8], random: &mut SplitMix64) {
    let magic = [0x31, 0x18, 0x10, 0x06];
    let start = random.index(image.len()) & !7;
    let found = (start..image.len().saturating_sub(24))
        .step_by(8)
        .take(4096)
        .find(|at| image[*at..].starts_with(&magic));
    let Some(at) = found else { return };
    let stored =
        u32::from_le_bytes([image[at + 16], image[at + 17], image[at + 18], image[at + 19]]);
    let len = (stored as usize).clamp(24, 4256).min(image.len() - at);
    let field = 8 + random.index(len.min(200) - 8);
    image[at + field] = random.interesting_byte();
    let crc = crc32(&image[at + 8..at + len]);
    image[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
}

/// Changes a byte of an erase-counter or VID header, or of a UBIFS node inside, and updates the
/// checksum.
fn forge_ubi(image: &mut [u8], random: &mut SplitMix64) {
    if random.below(3) == 0 {
        return forge_ubifs(image, random);
    }
    let peb = (LEB_SIZE + 1024) as usize;
    let header = random.index(image.len() / peb + 1) * peb + random.index(2) * MIN_IO as usize;
    let Some(header) = image.get_mut(header..header + 64) else { return };
    header[random.index(60)] = random.interesting_byte();
    let crc = crc32(&header[..60]);
    header[60..].copy_from_slice(&crc.to_be_bytes());
}

fn read_ubi(image: Vec<u8>) {
    let Ok(Some(found)) = detect(&image, &Hints::default()) else { return };
    let Ok(device) = ImageFile::new(image, &found.shape()) else { return };
    let options = AttachOptions { verify_static: true, ..AttachOptions::default() };
    let Ok(ubi) = Ubi::attach(Arc::new(device), &found.layout, &options) else { return };
    for info in &ubi.attachment().volumes {
        let Ok(volume) = ubi.volume(info.id) else { continue };
        let _ = std::io::copy(&mut volume.mapped_reader().take(1 << 20), &mut std::io::sink());
        if let Ok((fs, _)) = Ubifs::open(Arc::new(volume), &OpenOptions::default()) {
            read_tree(&fs);
        }
    }
}

fn read_ubifs(image: Vec<u8>) {
    let Ok(device) = LebFile::new(image, LEB_SIZE, MIN_IO, None) else { return };
    if let Ok((fs, _)) = Ubifs::open(Arc::new(device), &OpenOptions::default()) {
        read_tree(&fs);
    }
}

/// Performs every query of a file system on its whole tree.
fn read_tree(fs: &dyn FileSystem) {
    let mut buf = vec![0; 64 << 10];
    let _ = fs.stat_fs();
    let mut visited = 0_u32;
    let _: std::result::Result<(), ()> = walk(fs, fs.root(), &mut |visit| {
        visited += 1;
        if let Visit::Entry { entry, .. } = visit {
            read_inode(fs, entry.ino, entry.kind, &mut buf);
        }
        if visited > 20_000 { Err(()) } else { Ok(Descend::Yes) }
    });
}

fn read_inode(fs: &dyn FileSystem, ino: u64, kind: FileKind, buf: &mut [u8]) {
    let Ok(attr) = fs.attr(ino) else { return };
    for name in fs.list_xattrs(ino).unwrap_or_default() {
        let _ = fs.xattr(ino, &name);
    }
    match kind {
        FileKind::Symlink => drop(fs.read_link(ino)),
        FileKind::Regular => {
            let mut offset = 0;
            while offset < attr.size.min(READ_MOST) {
                match fs.read(ino, offset, buf) {
                    Ok(0) => break,
                    Ok(len) => offset += len as u64,
                    Err(_) => offset += 4096,
                }
            }
            let _ = fs.read(ino, attr.size.saturating_sub(1), buf);
            let _ = fs.seek_data(ino, 0);
            let _ = fs.seek_hole(ino, 0);
        }
        _ => {}
    }
}

fn read_archive(image: &[u8]) {
    for read in [eraseblock_tree::tar::read_stream, eraseblock_tree::cpio::read_stream] {
        if let Ok((tree, _)) = read(Box::new(Cursor::new(image.to_vec()))) {
            for (_, node) in tree.nodes() {
                if let SourceKind::Regular(content) = &node.kind
                    && let Ok(bytes) = content.open()
                {
                    let _ = std::io::copy(&mut bytes.take(READ_MOST), &mut std::io::sink());
                }
            }
        }
    }
}

/// Processor time this process has used so far, all threads together.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let (seconds, rest) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), rest.unwrap_or_default())
}

/// Starts a new measurement of the peak of resident memory; returns the resident memory now, in
/// bytes.
fn reset_peak_memory() -> Result<u64> {
    std::fs::write("/proc/self/clear_refs", "5").context("resetting the peak of memory")?;
    peak_memory()
}

/// Returns the peak of resident memory since it was reset, in bytes.
fn peak_memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let Some(line) = status.lines().find(|line| line.starts_with("VmHWM:")) else {
        bail!("/proc/self/status has no VmHWM");
    };
    let kib: u64 = line.split_whitespace().nth(1).context("VmHWM has no number")?.parse()?;
    Ok(kib * 1024)
}
