//! Full volumes: filled in every way, emptied, filled again, without losing space.

use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::StrictLeb;
use eraseblock_ubifs::UbifsMount;
use eraseblock_vfs::ops::{Texture, data_of};
use eraseblock_vfs::{
    FileKind, FileSystem, FsError, FsErrorKind, Ino, NewInode, NewKind, RenameMode, SetAttr,
    Timestamp, WritableFileSystem, XattrMode,
};
use std::sync::Arc;

const NOW: Timestamp = Timestamp::from_seconds(1_000_000);
const CYCLES: u64 = 200;

/// Does step `number` of a way to fill the volume.
type Fill = fn(&UbifsMount, u64) -> Result<(), FsError>;

fn name(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

fn make(fs: &UbifsMount, number: u64, kind: NewKind<'_>) -> Result<Ino, FsError> {
    fs.create(1, &name(number), &NewInode { kind, ..file() }, NOW)
}

/// The file that many steps work on.
fn shared(fs: &UbifsMount) -> Result<Ino, FsError> {
    match fs.lookup(1, b"shared") {
        Err(error) if error.kind() == FsErrorKind::NotFound => {
            fs.create(1, b"shared", &file(), NOW)
        }
        found => found,
    }
}

fn random(number: u64, len: u32) -> Vec<u8> {
    data_of(number, 0, len, Texture::Random)
}

const FILLS: [(&str, Fill); 10] = [
    ("one file", |fs, number| fs.write(shared(fs)?, number * 8192, &random(number, 8192), NOW)),
    ("small files", |fs, number| {
        let ino = make(fs, number, NewKind::Regular)?;
        fs.write(ino, 0, &random(number, 700), NOW)
    }),
    ("directories", |fs, number| make(fs, number, NewKind::Directory).map(drop)),
    ("symbolic links", |fs, number| make(fs, number, NewKind::Symlink(&[b'x'; 900])).map(drop)),
    ("hard links", |fs, number| {
        fs.link(shared(fs)?, 1, &[&name(number)[..], &[b'l'; 240]].concat(), NOW)
    }),
    ("attributes", |fs, number| {
        let ino = make(fs, number, NewKind::Regular)?;
        fs.set_xattr(ino, b"user.a", &random(number, 1500), XattrMode::Either, NOW)
    }),
    ("whiteouts", |fs, number| {
        let from = [&name(number)[..], &[b'w'; 200]].concat();
        fs.create(1, &from, &file(), NOW)?;
        fs.rename((1, &from), (1, &name(number)), RenameMode::Whiteout, NOW)
    }),
    ("pieces in the middle", |fs, number| {
        let ino = shared(fs)?;
        fs.write(ino, number * 5000, &random(number, 1000), NOW)?;
        fs.sync_file(ino)
    }),
    ("cut and grown", |fs, number| {
        let ino = make(fs, number, NewKind::Regular)?;
        fs.write(ino, 0, &random(number, 9000), NOW)?;
        fs.set_attr(ino, &SetAttr { size: Some(5000), ..SetAttr::default() }, NOW)?;
        fs.set_attr(ino, &SetAttr { size: Some(20_000), ..SetAttr::default() }, NOW)
    }),
    ("nameless, then named", |fs, number| {
        let ino = fs.create_unnamed(1, &file(), NOW)?;
        let filled = fs
            .write(ino, 0, &random(number, 6000), NOW)
            .and_then(|()| fs.link(ino, 1, &name(number), NOW));
        fs.release(ino)?;
        filled
    }),
];

/// Does steps until there is no space; how many succeeded.
fn fill(fs: &UbifsMount, what: &str, step: Fill) -> u64 {
    for number in 0.. {
        match step(fs, number) {
            Ok(()) => {}
            Err(error) if error.kind() == FsErrorKind::NoSpace => return number,
            Err(error) => panic!("{what}, step {number}: {error}"),
        }
        assert!(number < 100_000, "{what}: never full");
    }
    unreachable!("the loop above ends by returning")
}

/// Removes everything.
fn clear(fs: &UbifsMount, what: &str) {
    for entry in fs.entries(1).unwrap() {
        let removed = match entry.kind {
            FileKind::Directory => fs.remove_dir(1, &entry.name, NOW),
            _ => fs.unlink(1, &entry.name, NOW),
        };
        removed.unwrap_or_else(|error| panic!("{what}: deletion was refused: {error}"));
    }
}

#[test]
fn two_hundred_times_full_and_empty() {
    let volume = empty(48);
    let mut fs = mount(&volume).unwrap();
    fs.sync().unwrap();
    let free = fs.stat_fs().unwrap().blocks_free;
    let mut first = [0; FILLS.len()];
    for cycle in 0..CYCLES {
        let kind = cycle as usize % FILLS.len();
        let (what, step) = FILLS[kind];
        let what = format!("cycle {cycle}, {what}");
        let steps = fill(&fs, &what, step);
        if cycle % 7 == 3 {
            checked(&fs).unwrap_or_else(|error| panic!("{what}: {error}"));
            // Full and mounted anew it must be possible to delete, too.
            fs.unmount().unwrap_or_else(|error| panic!("{what}: {error}"));
            fs = mount(&volume).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        clear(&fs, &what);
        fs.sync().unwrap_or_else(|error| panic!("{what}: {error}"));
        if cycle % 10 == 0 {
            checked(&fs).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let now = fs.stat_fs().unwrap().blocks_free;
        // Where the heads of the journal stand makes a block or two.
        assert!(now + 3 >= free, "{what}: {now} blocks free, {free} in the beginning");
        if first[kind] == 0 {
            first[kind] = steps;
        }
        assert!(steps * 10 >= first[kind] * 9, "{what}: {steps} steps, {} at first", first[kind]);
    }
}

/// An empty volume on a chip of 32 MiB: 2,048 blocks of 16 KiB, pages of 512 bytes.
fn chip_of_32_mib() -> UbifsMount {
    let volume = Arc::new(StrictLeb::new(15_872, 512, 512, 2024));
    mount(&volume).unwrap()
}

/// Content that files of so many bytes hold when nothing more fits.
fn capacity(len: u32) -> u64 {
    let fs = chip_of_32_mib();
    let mut total = 0;
    for number in 0.. {
        let Ok(ino) = make(&fs, number, NewKind::Regular) else { break };
        let mut left = len;
        while left > 0 {
            let now = left.min(4096);
            let content = random(number, now);
            if fs.write(ino, (len - left).into(), &content, NOW).is_err() {
                return total;
            }
            total += u64::from(now);
            left -= now;
        }
    }
    total
}

/// What Linux 6.1 shows for such a volume, and what an evaluation of 2009 saw fit.
#[test]
fn a_small_chip_holds_what_linux_holds() {
    let stat = chip_of_32_mib().stat_fs().unwrap();
    let kib = |blocks: u64| blocks * 4;
    let used = stat.blocks - stat.blocks_free;
    let shown = (kib(stat.blocks), kib(used), kib(stat.blocks_available));
    assert_eq!(shown, (22_936, 24, 21_444), "{stat:?}");
    for (len, least) in
        [(1 << 20, 23_500_000), (4096, 22_100_000), (512, 13_600_000), (256, 8_600_000)]
    {
        let found = capacity(len);
        assert!(found >= least, "files of {len} bytes: {found} bytes, expected {least}");
    }
}
