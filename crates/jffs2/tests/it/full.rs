//! Full media: filled in every way, emptied, filled again, without losing space.

use eraseblock_base::{Geometry, MediumKind};
use eraseblock_jffs2::{Jffs2Rw, RwOptions};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_vfs::ops::{Texture, data_of};
use eraseblock_vfs::{
    FileKind, FileSystem, FsError, FsErrorKind, Ino, NewInode, NewKind, RenameMode, SetAttr,
    Timestamp, WritableFileSystem, XattrMode,
};
use std::sync::Arc;

const NOW: Timestamp = Timestamp::from_seconds(1_000_000);
const CYCLES: u64 = 200;

/// Does step `number` of a way to fill the medium.
type Fill = fn(&Jffs2Rw, u64) -> Result<(), FsError>;

fn name(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

fn make(fs: &Jffs2Rw, number: u64, kind: NewKind<'_>) -> Result<Ino, FsError> {
    fs.create(1, &name(number), &NewInode { kind, permissions: 0o755, uid: 0, gid: 0 }, NOW)
}

/// The file that many steps work on.
fn shared(fs: &Jffs2Rw) -> Result<Ino, FsError> {
    match fs.lookup(1, b"shared") {
        Err(error) if error.kind() == FsErrorKind::NotFound => {
            let kind = NewKind::Regular;
            let file = NewInode { kind, permissions: 0o644, uid: 0, gid: 0 };
            fs.create(1, b"shared", &file, NOW)
        }
        found => found,
    }
}

fn random(number: u64, len: u32) -> Vec<u8> {
    data_of(number, 0, len, Texture::Random)
}

const FILLS: [(&str, Fill); 9] = [
    ("one file", |fs, number| fs.write(shared(fs)?, number * 8192, &random(number, 8192), NOW)),
    ("small files", |fs, number| {
        let ino = make(fs, number, NewKind::Regular)?;
        fs.write(ino, 0, &random(number, 700), NOW)
    }),
    ("directories", |fs, number| make(fs, number, NewKind::Directory).map(drop)),
    ("symbolic links", |fs, number| make(fs, number, NewKind::Symlink(&[b'x'; 250])).map(drop)),
    ("hard links", |fs, number| {
        fs.link(shared(fs)?, 1, &[&name(number)[..], &[b'l'; 240]].concat(), NOW)
    }),
    ("attributes", |fs, number| {
        let ino = make(fs, number, NewKind::Regular)?;
        fs.set_xattr(ino, b"user.a", &random(number, 1500), XattrMode::Either, NOW)
    }),
    ("renames", |fs, number| {
        let from = [&name(number)[..], &[b'r'; 200]].concat();
        let made = make(fs, number, NewKind::Regular)?;
        fs.write(made, 0, &random(number, 300), NOW)?;
        fs.rename((1, &name(number)), (1, &from), RenameMode::Replace, NOW)
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
];

/// Does steps until there is no space; how many succeeded.
fn fill(fs: &Jffs2Rw, what: &str, step: Fill) -> u64 {
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
fn clear(fs: &Jffs2Rw, what: &str) {
    for entry in fs.entries(1).unwrap() {
        let removed = match entry.kind {
            FileKind::Directory => fs.remove_dir(1, &entry.name, NOW),
            _ => fs.unlink(1, &entry.name, NOW),
        };
        removed.unwrap_or_else(|error| panic!("{what}: deletion was refused: {error}"));
    }
}

fn mount(chip: &Arc<Chip>) -> Jffs2Rw {
    Jffs2Rw::mount(Arc::clone(chip) as _, &RwOptions::default()).unwrap().0
}

fn fill_and_empty(geometry: Geometry) {
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
    let mut fs = mount(&chip);
    let mut done = [const { Vec::new() }; FILLS.len()];
    for cycle in 0..CYCLES {
        let kind = usize::try_from(cycle).unwrap() % FILLS.len();
        let (what, step) = FILLS[kind];
        let what = format!("{:?}, cycle {cycle}, {what}", geometry.kind());
        let steps = fill(&fs, &what, step);
        if cycle % 7 == 3 {
            fs.check().unwrap_or_else(|error| panic!("{what}: {error}"));
            // Full and mounted anew it must be possible to delete, too.
            fs.unmount().unwrap_or_else(|error| panic!("{what}: {error}"));
            fs = mount(&chip);
        }
        clear(&fs, &what);
        fs.sync().unwrap_or_else(|error| panic!("{what}: {error}"));
        fs.check().unwrap_or_else(|error| panic!("{what}: {error}"));
        done[kind].push(steps);
    }
    // How much is dead, but not collected yet, differs from one time to the next.
    for ((what, _), steps) in FILLS.iter().zip(done) {
        let (first, last) = (&steps[..5], &steps[steps.len() - 5..]);
        let (first, last) = (first.iter().max().unwrap(), last.iter().max().unwrap());
        assert!(last * 10 >= first * 9, "{:?}, {what}: {steps:?}", geometry.kind());
    }
}

#[test]
fn nor_is_two_hundred_times_full_and_empty() {
    fill_and_empty(Geometry::new(MediumKind::Nor, 16 << 10, 24, 1, 1, 0).unwrap());
}

#[test]
fn nand_is_two_hundred_times_full_and_empty() {
    fill_and_empty(Geometry::new(MediumKind::Nand, 16 << 10, 24, 512, 512, 16).unwrap());
}
