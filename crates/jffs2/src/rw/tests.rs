//! The run time on simulated chips.

mod churn;
mod corners;
mod cuts;
mod every_fault;
mod faults;
mod figures;
mod full;
mod halves;
mod limits;
mod markers;
mod pieces;

use super::{Jffs2Rw, RwOptions};
use crate::{Jffs2, OpenOptions, Source};
use eraseblock_base::random::SplitMix64;
use eraseblock_base::{Geometry, MediumKind, Peb};
use eraseblock_jffs2_format::{ByteOrder, Dirent, Inode, encode};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_vfs::Caller;
use eraseblock_vfs::{
    FileSystem, NewInode, NewKind, RenameMode, SetAttr, Timestamp, WritableFileSystem,
};
use eraseblock_vfs_testkit::drive::{DriveOptions, DriveReport, Subject, drive};
use eraseblock_vfs_testkit::ops::{Op, strategy};
use eraseblock_vfs_testkit::{CompareOptions, ModelFs, ModelRules};
use proptest::prelude::*;
use std::sync::Arc;

const FILE: NewInode<'static> =
    NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
const DIR: NewInode<'static> =
    NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };

fn nor() -> Arc<Chip> {
    let geometry = Geometry::new(MediumKind::Nor, 16 << 10, 16, 1, 1, 0).unwrap();
    Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()))
}

fn nand() -> Arc<Chip> {
    let geometry = Geometry::new(MediumKind::Nand, 16 << 10, 16, 512, 512, 16).unwrap();
    Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()))
}

fn mount(chip: &Arc<Chip>) -> Jffs2Rw {
    let (fs, _) = Jffs2Rw::mount(chip.clone(), &RwOptions::default()).unwrap();
    fs
}

fn by(seconds: i64) -> Caller {
    Caller::owner(at(seconds))
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

/// Returns bytes that cannot be compressed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = SplitMix64::new(seed);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// Writes data that is dead at once.
fn churn_once(fs: &Jffs2Rw) {
    let ino = fs.create(1, b"churn", &FILE, &by(4)).unwrap();
    let bytes: Vec<u8> = (0..3000_u32).map(|byte| ((byte * byte) >> 7) as u8).collect();
    fs.write(ino, 0, &bytes, &by(4)).unwrap();
    fs.unlink(1, b"churn", &by(5)).unwrap();
}

fn content(fs: &dyn FileSystem, path: &str) -> Vec<u8> {
    let ino = fs.resolve(path.as_bytes()).unwrap();
    let mut buf = vec![0xAA; fs.attr(ino).unwrap().size as usize + 10];
    let len = fs.read(ino, 0, &mut buf).unwrap();
    buf.truncate(len);
    buf
}

#[test]
fn a_file_survives_on_both_media() {
    for chip in [nor(), nand()] {
        let fs = mount(&chip);
        let ino = fs.create(1, b"log", &FILE, &by(100)).unwrap();
        let mut text = Vec::new();
        for line in 0..300 {
            let line = format!("line {line}\n");
            fs.write(ino, text.len() as u64, line.as_bytes(), &by(200)).unwrap();
            text.extend_from_slice(line.as_bytes());
        }
        let dir = fs.create(1, b"dir", &DIR, &by(300)).unwrap();
        fs.rename((1, b"log"), (dir, b"moved"), RenameMode::Replace, &by(400)).unwrap();
        fs.create(dir, b"gone", &FILE, &by(500)).unwrap();
        fs.unlink(dir, b"gone", &by(600)).unwrap();
        fs.check().unwrap();
        assert_eq!(content(&fs, "dir/moved"), text);
        fs.unmount().unwrap();
        let again = mount(&chip);
        again.check().unwrap();
        assert_eq!(content(&again, "dir/moved"), text);
        assert!(again.resolve(b"dir/gone").is_err());
        let source = Source::Device(chip.clone());
        let (reader, _) = Jffs2::open(source, &OpenOptions::default()).unwrap();
        assert_eq!(content(&reader, "dir/moved"), text);
        assert_eq!(reader.attr(dir).unwrap(), again.attr(dir).unwrap());
    }
}

/// The nodes of a deleted file stay on NAND until their blocks are erased.
#[test]
fn a_mount_notes_inodes_that_lost_their_last_name() {
    let chip = nand();
    let fs = mount(&chip);
    let ino = fs.create(1, b"gone", &FILE, &by(1)).unwrap();
    fs.write(ino, 0, b"content", &by(1)).unwrap();
    fs.unlink(1, b"gone", &by(2)).unwrap();
    fs.unmount().unwrap();
    let (_, report) = Jffs2Rw::mount(chip, &RwOptions::default()).unwrap();
    assert!(report.findings.iter().any(|it| it.code == "orphans"), "{:?}", report.findings);
}

/// Returns the block of file `f`, inode 2, whose root directory has no node.
fn file_in_a_root_without_a_node() -> Vec<u8> {
    let inode = Inode { ino: 2, version: 1, mode: 0o100_644, ..Inode::default() };
    let entry = Dirent { pino: 1, version: 7, ino: 2, mctime: 50, file_type: 8, name: b"f" };
    let mut bytes = Vec::new();
    encode::cleanmarker(ByteOrder::Little, 12, &mut bytes);
    encode::inode(ByteOrder::Little, &inode, &[], &mut bytes);
    encode::dirent(ByteOrder::Little, &entry, &mut bytes);
    bytes
}

/// A root without a node of its own had the time of its newest name until it got one.
#[test]
fn a_root_without_a_node_has_no_times_until_they_are_written() {
    let chip = nor();
    chip.program(0, &file_in_a_root_without_a_node()).unwrap();
    let times = |fs: &dyn FileSystem| {
        let attr = fs.attr(1).unwrap();
        (attr.atime, attr.mtime, attr.ctime)
    };
    let none = Timestamp::default();
    let fs = mount(&chip);
    assert_eq!(times(&fs), (none, none, none));
    fs.check().unwrap();
    let change = SetAttr { permissions: Some(0o600), ..SetAttr::default() };
    fs.set_attr(2, &change, &by(60)).unwrap();
    drop(fs);
    let fs = mount(&chip);
    assert_eq!(times(&fs), (none, none, none), "the change was not one of the root");
    fs.unlink(1, b"f", &by(70)).unwrap();
    assert_eq!(times(&fs), (none, at(70), at(70)));
    drop(fs);
    assert_eq!(times(&mount(&chip)), (none, at(70), at(70)));
    let (reader, _) = Jffs2::open(Source::Device(chip), &OpenOptions::default()).unwrap();
    assert_eq!(times(&reader), (none, at(70), at(70)));
}

/// A file system on a chip, compared with the model.
struct Bench {
    chip: Arc<Chip>,
    options: RwOptions,
    fs: Jffs2Rw,
}

impl Bench {
    fn new(chip: Arc<Chip>, options: RwOptions) -> Self {
        let (fs, _) = Jffs2Rw::mount(chip.clone(), &options).unwrap();
        Self { chip, options, fs }
    }
}

impl Subject for Bench {
    fn fs(&self) -> &dyn WritableFileSystem {
        &self.fs
    }

    fn restart(&mut self) -> Result<(), String> {
        let (fs, _) =
            Jffs2Rw::mount(self.chip.clone(), &self.options).map_err(|error| error.to_string())?;
        self.fs = fs;
        Ok(())
    }

    fn power_cut(&mut self) -> Result<(), String> {
        self.restart()
    }

    fn check(&self) -> Result<(), String> {
        self.fs.check().map_err(|error| error.to_string())
    }
}

fn beside_the_model(
    chip: Arc<Chip>,
    options: RwOptions,
    ops: &[Op],
    may_be_full: bool,
) -> Result<DriveReport, String> {
    let ops: Vec<Op> = ops.iter().copied().filter(|op| !matches!(op, Op::Unnamed(..))).collect();
    let mut bench = Bench::new(chip, options);
    let model = ModelFs::new(ModelRules::JFFS2, Timestamp::default());
    let compare = CompareOptions { times: true, directory_sizes: true, ..CompareOptions::BASIC };
    let how =
        DriveOptions { compare, compare_every: if may_be_full { 50 } else { 1 }, may_be_full };
    drive(&mut bench, &model, &ops, &how).map_err(|found| found.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_does_what_the_model_does_on_nor(
        ops in strategy::ops(80), big in any::<bool>(), summary in any::<bool>(), seed: u64
    ) {
        let order = Some(if big { ByteOrder::Big } else { ByteOrder::Little });
        let options = RwOptions { order, summary, seed, ..RwOptions::default() };
        let done = beside_the_model(nor(), options, &ops, false);
        prop_assert!(done.is_ok(), "{}", done.unwrap_err());
    }

    #[test]
    fn it_does_what_the_model_does_on_nand(
        ops in strategy::ops(80), summary in any::<bool>(), seed: u64
    ) {
        let options = RwOptions { summary, seed, ..RwOptions::default() };
        let done = beside_the_model(nand(), options, &ops, false);
        prop_assert!(done.is_ok(), "{}", done.unwrap_err());
    }

    #[test]
    fn it_does_what_the_model_does_when_it_is_full(
        ops in strategy::ops_when_full(150..260, 400), is_nand in any::<bool>(), seed: u64
    ) {
        let chip = if is_nand { nand() } else { nor() };
        let options = RwOptions { seed, ..RwOptions::default() };
        let done = beside_the_model(chip, options, &ops, true);
        prop_assert!(done.is_ok(), "{}", done.unwrap_err());
    }
}
