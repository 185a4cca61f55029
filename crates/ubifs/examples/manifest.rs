//! Prints the manifest of a bare UBIFS image, or reads everything and prints how long it took:
//! `manifest IMAGE LEB_SIZE MIN_IO LEBS [time]`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use eraseblock_base::{Leb, Location};
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome};
use eraseblock_ubifs::{OpenOptions, Ubifs};
use eraseblock_vfs::FileSystem;
use eraseblock_vfs::walk::{Descend, Visit, walk};
use std::sync::Arc;

/// An image in memory.
#[derive(Debug)]
struct Image {
    bytes: Vec<u8>,
    leb_size: u32,
    min_io: u32,
    lebs: u32,
}

impl LebDevice for Image {
    fn leb_size(&self) -> u32 {
        self.leb_size
    }
    fn min_io(&self) -> u32 {
        self.min_io
    }
    fn max_write(&self) -> u32 {
        self.min_io
    }
    fn leb_count(&self) -> u32 {
        self.lebs
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let start = leb.index() * self.leb_size as usize + offset as usize;
        match self.bytes.get(start..start + buf.len()) {
            Some(bytes) => buf.copy_from_slice(bytes),
            None => buf.fill(0xFF),
        }
        Ok(ReadOutcome::CLEAN)
    }
    fn is_mapped(&self, _: Leb) -> Result<bool, MtdError> {
        Ok(true)
    }
    fn write(&self, leb: Leb, _: u32, _: &[u8]) -> Result<(), MtdError> {
        Err(MtdError::ReadOnly { at: Location::leb(leb), operation: "write" })
    }
    fn change(&self, leb: Leb, _: &[u8]) -> Result<(), MtdError> {
        self.write(leb, 0, &[])
    }
    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.write(leb, 0, &[])
    }
    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.write(leb, 0, &[])
    }
    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| args[index].parse::<u32>().expect("a number");
    let bytes = std::fs::read(&args[0]).expect("an image");
    let image = Image { bytes, leb_size: number(1), min_io: number(2), lebs: number(3) };
    let start = std::time::Instant::now();
    let strict = args.iter().any(|arg| arg == "strict");
    let (fs, findings) =
        Ubifs::open(Arc::new(image), &OpenOptions { strict }).expect("a file system");
    for finding in &findings {
        eprintln!("{finding}");
    }
    eprintln!("{:?} {:?}", fs.info(), fs.stat_fs());
    eprintln!("open {:?}", start.elapsed());
    if args.get(4).is_some_and(|word| word == "time") {
        let start = std::time::Instant::now();
        let (mut total, mut entries) = (0, 0);
        let mut buf = vec![0; 1 << 20];
        walk(&fs, fs.root(), &mut |visit| {
            if let Visit::Entry { entry, .. } = visit {
                entries += 1;
                let attr = fs.attr(entry.ino).expect("an inode");
                if attr.kind == eraseblock_vfs::FileKind::Regular {
                    let mut at = 0;
                    while at < attr.size.min(1 << 30) {
                        at += fs.read(entry.ino, at, &mut buf).expect("content") as u64;
                    }
                    total += at;
                }
            }
            Ok::<_, ()>(Descend::Yes)
        })
        .expect("no error");
        let seconds = start.elapsed().as_secs_f64();
        let rate = total as f64 / seconds / 1e6;
        eprintln!("{entries} entries, {total} bytes, {seconds:.2} s, {rate:.0} MB/s");
    } else {
        for line in eraseblock_vfs::manifest::manifest_of(&fs, &mut |path, error| {
            eprintln!("{}: {error}", String::from_utf8_lossy(path));
        }) {
            println!("{line}");
        }
    }
    for finding in &fs.late_findings() {
        eprintln!("late: {finding}");
    }
}
