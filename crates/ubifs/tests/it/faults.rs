//! A device that fails: the n-th read, program or erase, once or permanently, for every n.

use crate::big_lpt::{Model, volume_of};
use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::{StrictLeb, Torn};
use eraseblock_base::{ErrorClass, Leb, Location};
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{
    Caller, FileSystem, FsError, FsErrorKind, NewInode, NewKind, RenameMode, SetAttr, Timestamp,
    WritableFileSystem, XattrMode,
};
use eraseblock_vfs_testkit::{CompareOptions, same_tree};
use std::sync::{Arc, Mutex};

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// The kind of operation that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Program,
    Erase,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: Kind,
    /// Number of operations before the fault.
    after: u64,
    /// How many in a row fail.
    failures: u64,
}

impl Plan {
    /// Every operation is tried twice.
    fn is_survived(self) -> bool {
        self.failures < 2
    }
}

/// A volume that fails according to a plan.
#[derive(Debug)]
struct Faulty {
    below: Arc<StrictLeb>,
    plan: Mutex<Option<Plan>>,
    /// Reads, programs and erases so far.
    counts: Mutex<[u64; 3]>,
}

impl Faulty {
    fn new(below: Arc<StrictLeb>, plan: Option<Plan>) -> Arc<Self> {
        Arc::new(Self { below, plan: Mutex::new(plan), counts: Mutex::default() })
    }

    fn count(&self, kind: Kind) -> u64 {
        self.counts.lock().unwrap()[kind as usize]
    }

    fn step(&self, kind: Kind, leb: Leb, offset: u32) -> Result<(), MtdError> {
        let mut counts = self.counts.lock().unwrap();
        let number = counts[kind as usize];
        counts[kind as usize] += 1;
        let fails = self.plan.lock().unwrap().is_some_and(|plan| {
            let failing = plan.after..plan.after.saturating_add(plan.failures);
            plan.kind == kind && failing.contains(&number)
        });
        let operation = ["read", "program", "erase"][kind as usize];
        let at = Location::Leb(leb, offset);
        if fails { Err(MtdError::Failed { at, operation }) } else { Ok(()) }
    }
}

impl LebDevice for Faulty {
    fn leb_size(&self) -> u32 {
        self.below.leb_size()
    }

    fn min_io(&self) -> u32 {
        self.below.min_io()
    }

    fn max_write(&self) -> u32 {
        self.below.max_write()
    }

    fn leb_count(&self) -> u32 {
        self.below.leb_count()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.step(Kind::Read, leb, offset)?;
        self.below.read(leb, offset, buf)
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        self.below.is_mapped(leb)
    }

    /// A failing program leaves a part of it.
    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let result = self.step(Kind::Program, leb, offset);
        if result.is_err() {
            let mut part = data.to_vec();
            part.truncate((data.len() / 2).next_multiple_of(self.min_io() as usize));
            part.iter_mut().rev().take(100).for_each(|byte| *byte ^= 0x5A);
            self.below.write(leb, offset, &part)?;
            return result;
        }
        self.below.write(leb, offset, data)
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        self.step(Kind::Program, leb, 0)?;
        self.below.change(leb, data)
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.step(Kind::Program, leb, 0)?;
        self.below.map(leb)
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.step(Kind::Erase, leb, 0)?;
        self.below.unmap(leb)
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

/// Content that belongs to a number.
fn content(number: u8) -> Vec<u8> {
    (0..9000_u32).map(|at| (at.wrapping_mul(at) >> 5) as u8 ^ number).collect()
}

fn keep_name(number: u8) -> String {
    format!("keep-{number}")
}

/// Performs everything a file system does, with commits and garbage collection; `kept` is the
/// number of files made durable so far.
fn work(fs: &UbifsMount, kept: &mut u8) -> Result<(), FsError> {
    for number in 0..10_u8 {
        let keep = fs.create(1, keep_name(number).as_bytes(), &file(), NOW)?;
        fs.write(keep, 0, &content(number), NOW)?;
        fs.sync_file(keep)?;
        *kept = number + 1;
        let churn = fs.create(1, format!("churn-{number}").as_bytes(), &file(), NOW)?;
        fs.write(churn, 0, &vec![number; 20_000], NOW)?;
        fs.write(churn, 40_000, &content(number), NOW)?;
        fs.set_xattr(churn, b"user.a", &[number; 300], XattrMode::Either, NOW)?;
        fs.read(churn, 0, &mut vec![0; 30_000])?;
        let flags = Some(InodeFlags { sync: number % 2 == 0, ..InodeFlags::default() });
        fs.set_attr(churn, &SetAttr { flags, ..SetAttr::default() }, NOW)?;
        fs.set_xattr(churn, b"user.a", &[number; 200], XattrMode::Replace, NOW)?;
        fs.set_xattr(churn, b"user.b", &[number; 20], XattrMode::Create, NOW)?;
        fs.remove_xattr(churn, b"user.b", NOW)?;
        if number % 3 == 1 {
            fs.sync()?;
            let dir = NewInode { kind: NewKind::Directory, ..file() };
            let dir = fs.create(1, format!("dir-{number}").as_bytes(), &dir, NOW)?;
            let old = format!("churn-{}", number - 1);
            fs.rename((1, old.as_bytes()), (dir, b"moved"), RenameMode::Replace, NOW)?;
            fs.set_attr(churn, &SetAttr { size: Some(10_001), ..SetAttr::default() }, NOW)?;
            fs.unlink(dir, b"moved", NOW)?;
        }
    }
    for number in 0..10_u8 {
        let name = format!("churn-{number}");
        if fs.lookup(1, name.as_bytes()).is_ok() {
            fs.unlink(1, name.as_bytes(), NOW)?;
        }
    }
    fs.unmount()
}

/// Performs one run with a fault. Data that was durable before must be there when the device works
/// again.
fn run(base: &StrictLeb, plan: Option<Plan>) -> Arc<Faulty> {
    let volume = Arc::new(base.with(base.lebs()));
    let device = Faulty::new(Arc::clone(&volume), plan);
    let mut kept = 0;
    let story = format!("{plan:?}");
    match UbifsMount::mount(Arc::clone(&device) as _, MountOptions::default()) {
        Err(error) => {
            assert!(plan.is_some_and(|plan| !plan.is_survived()), "{story}: {error}");
            assert_eq!(error.class(), ErrorClass::Media, "{story}: {error}");
            assert!(error.to_string().contains("leb "), "{story}: {error}");
        }
        Ok((fs, _)) => {
            if let Err(error) = work(&fs, &mut kept) {
                assert!(plan.is_some_and(|plan| !plan.is_survived()), "{story}: {error}");
                assert_eq!(error.kind(), FsErrorKind::Io, "{story}: {error}");
                assert!(error.to_string().contains("leb "), "{story}: {error}");
                if plan.is_some_and(|plan| plan.kind != Kind::Read) {
                    let why = fs.why_read_only().unwrap_or_default();
                    assert!(why.contains("leb "), "{story}: {why}");
                    let late = fs.create(1, b"late", &file(), NOW).unwrap_err();
                    assert_eq!(late.kind(), FsErrorKind::ReadOnly, "{story}: {late}");
                }
            } else {
                assert_eq!(kept, 10);
                assert!(fs.why_read_only().is_none(), "{story}");
            }
        }
    }
    let volume = Arc::new(volume.with(volume.lebs()));
    let fs = mount(&volume).unwrap_or_else(|error| panic!("{story}: {error}"));
    checked(&fs).unwrap_or_else(|error| panic!("{story}: {error}"));
    for number in 0..kept {
        let ino = fs.lookup(1, keep_name(number).as_bytes()).unwrap_or_else(|error| {
            panic!("{story}: {number} of {kept}: {error}");
        });
        let mut back = vec![0; 9001];
        assert_eq!(fs.read(ino, 0, &mut back).unwrap(), 9000, "{story}: {number}");
        assert!(back[..9000] == content(number), "{story}: {number}");
    }
    fs.create(1, b"alive", &file(), NOW).unwrap();
    fs.unmount().unwrap();
    device
}

#[test]
fn what_fails_once_is_done_again() {
    let base = empty(40);
    let whole = run(&base, None);
    for kind in [Kind::Read, Kind::Program, Kind::Erase] {
        assert!(whole.count(kind) > 20, "{kind:?}: {}", whole.count(kind));
        for after in 0..whole.count(kind) {
            run(&base, Some(Plan { kind, after, failures: 1 }));
        }
    }
}

#[test]
fn what_fails_for_good_is_told_and_keeps_what_was_durable() {
    let base = empty(40);
    let whole = run(&base, None);
    for kind in [Kind::Read, Kind::Program, Kind::Erase] {
        for after in 0..whole.count(kind) {
            run(&base, Some(Plan { kind, after, failures: u64::MAX }));
        }
    }
}

/// The operation in which the flash fails must fail, also if it fails in the commit that the
/// operation makes due.
#[test]
fn an_operation_fails_if_its_commit_does() {
    let base = empty(40);
    let device = |after| {
        let plan = Plan { kind: Kind::Program, after, failures: u64::MAX };
        Faulty::new(Arc::new(base.with(base.lebs())), Some(plan))
    };
    let mut commits = 0;
    for after in 20..140 {
        let mounted = UbifsMount::mount(device(after) as _, MountOptions::default());
        let (fs, _) = mounted.unwrap();
        let failed = (0..200_u32).find_map(|number| {
            let ino = fs.create(1, format!("file-{number}").as_bytes(), &file(), NOW);
            let done = ino.and_then(|ino| {
                fs.write(ino, 0, &content(number as u8), NOW)?;
                fs.sync_file(ino)
            });
            done.err()
        });
        let error = failed.expect("the flash fails sooner or later");
        assert_eq!(error.kind(), FsErrorKind::Io, "after {after}: {error}");
        commits += fs.activity().commits;
    }
    assert!(commits > 120, "{commits} commits");
}

/// One operation of a user, or a few.
type Operation = fn(&UbifsMount) -> Result<(), FsError>;

fn find(fs: &UbifsMount, path: &str) -> Result<u64, FsError> {
    fs.resolve(path.as_bytes())
}

/// What is done on [`furnished`].
const OPERATIONS: [(&str, Operation); 17] = [
    ("create", |fs| fs.create(1, b"new", &file(), NOW).map(drop)),
    ("create and sync", |fs| {
        if fs.lookup(1, b"new").is_err() {
            fs.create(1, b"new", &file(), NOW)?;
        }
        fs.sync()
    }),
    ("link", |fs| fs.link(find(fs, "dir/one")?, 1, b"linked", NOW)),
    ("unlink", |fs| fs.unlink(find(fs, "dir")?, b"one", NOW)),
    ("removed directory", |fs| fs.remove_dir(1, b"empty", NOW)),
    ("rename over a file", |fs| {
        let dir = find(fs, "dir")?;
        fs.rename((dir, b"one"), (dir, b"two"), RenameMode::Replace, NOW)
    }),
    ("rename of a directory", |fs| {
        fs.rename((1, b"empty"), (find(fs, "dir")?, b"moved"), RenameMode::Replace, NOW)
    }),
    ("rename with a whiteout", |fs| {
        fs.rename((1, b"file-7"), (find(fs, "dir")?, b"moved"), RenameMode::Whiteout, NOW)
    }),
    ("exchange", |fs| {
        let mode = RenameMode::Exchange;
        let is_done = fs.attr(find(fs, "file-7")?)?.size != 7;
        if is_done { Ok(()) } else { fs.rename((1, b"file-7"), (1, b"file-30"), mode, NOW) }
    }),
    ("write", |fs| {
        let ino = find(fs, "dir/one")?;
        fs.write(ino, 5000, &[9; 100], NOW)?;
        fs.sync_file(ino)
    }),
    ("write to the ends of two blocks", |fs| {
        let ino = find(fs, "dir/one")?;
        fs.write(ino, 4000, &[9; 200], NOW)?;
        fs.sync_file(ino)
    }),
    ("truncate", |fs| {
        let ino = find(fs, "dir/one")?;
        fs.set_attr(ino, &SetAttr { size: Some(5001), ..SetAttr::default() }, NOW)?;
        fs.sync_file(ino)
    }),
    ("new attribute", |fs| {
        fs.set_xattr(find(fs, "dir/two")?, b"user.new", b"1", XattrMode::Either, NOW)
    }),
    ("changed attribute", |fs| {
        fs.set_xattr(find(fs, "dir/one")?, b"user.a", b"2", XattrMode::Replace, NOW)
    }),
    ("removed attribute", |fs| fs.remove_xattr(find(fs, "dir/one")?, b"user.a", NOW)),
    ("times and sync", |fs| {
        let change = SetAttr { permissions: Some(0o600), ..SetAttr::default() };
        fs.set_attr(find(fs, "dir/two")?, &change, NOW)?;
        fs.sync()
    }),
    ("unmount", UbifsMount::unmount),
];

/// Returns a volume with files, directories and an index of several levels.
fn furnished() -> Arc<StrictLeb> {
    let volume = empty(60);
    let fs = mount(&volume).unwrap();
    let kind = NewInode { kind: NewKind::Directory, ..file() };
    let dir = fs.create(1, b"dir", &kind, NOW).unwrap();
    fs.create(1, b"empty", &kind, NOW).unwrap();
    for name in [b"one", b"two"] {
        let ino = fs.create(dir, name, &file(), NOW).unwrap();
        fs.write(ino, 0, &content(name[0]), NOW).unwrap();
        fs.set_xattr(ino, b"user.a", b"1", XattrMode::Either, NOW).unwrap();
    }
    for number in 0..60_u32 {
        let ino = fs.create(1, format!("file-{number}").as_bytes(), &file(), NOW).unwrap();
        fs.write(ino, 0, &vec![number as u8; number as usize], NOW).unwrap();
    }
    fs.unmount().unwrap();
    volume
}

fn same(one: &UbifsMount, two: &UbifsMount) -> bool {
    same_tree(one, two, &CompareOptions::BASIC).is_empty()
}

/// Reads that fail for a while: what an operation said is so, and nothing is half done. A write that
/// could not read the rest of a block kept the space that was reserved for it until the next mount.
#[test]
fn an_operation_that_cannot_read_does_nothing_or_ends_writing() {
    let base = furnished();
    let (mut failed, mut ended) = (0, 0);
    for (name, operation) in OPERATIONS {
        let open = |device: &Arc<Faulty>| {
            UbifsMount::mount(Arc::clone(device) as _, MountOptions::default()).unwrap().0
        };
        let fresh = || Faulty::new(Arc::new(base.with(base.lebs())), None);
        let before = mount(&Arc::new(base.with(base.lebs()))).unwrap();
        let whole = fresh();
        let fs = open(&whole);
        let first = whole.count(Kind::Read);
        operation(&fs).unwrap();
        let reads = whole.count(Kind::Read) - first;
        if name != "unmount" {
            fs.sync().unwrap();
        }
        drop(fs);
        let done = mount(&Arc::new(whole.below.with(whole.below.lebs()))).unwrap();
        for after in 0..reads {
            let story = format!("{name}, read {after} of {reads}");
            let device = fresh();
            let fs = open(&device);
            assert_eq!(device.count(Kind::Read), first, "{story}");
            *device.plan.lock().unwrap() =
                Some(Plan { kind: Kind::Read, after: first + after, failures: 2 });
            let mut result = operation(&fs);
            *device.plan.lock().unwrap() = None;
            failed += u32::from(result.is_err());
            if fs.why_read_only().is_none() {
                if result.is_err() {
                    // Only the deletion of the inode after that of its name may have failed.
                    result = operation(&fs);
                    let is_possible = result.is_ok() || same(&fs, &done);
                    assert!(is_possible, "{story}: not possible any more: {result:?}");
                }
                if name != "unmount" {
                    checked(&fs).unwrap_or_else(|why| panic!("{story}: {why}"));
                    fs.sync().unwrap();
                }
            } else {
                ended += 1;
                assert!(result.is_err(), "{story}: done, but {:?}", fs.why_read_only());
            }
            drop(fs);
            let fs = mount(&Arc::new(device.below.with(device.below.lebs())))
                .unwrap_or_else(|why| panic!("{story}: {why}"));
            checked(&fs).unwrap_or_else(|why| panic!("{story}, mounted again: {why}"));
            let is_done = same(&fs, &done);
            assert!(is_done || result.is_err() && same(&fs, &before), "{story}: {result:?}");
        }
    }
    assert!(failed > 100 && ended > 10, "{failed} failed, {ended} ended writing");
}

/// A mount after a power cut writes again what it reads. If it cannot read, it must not write.
#[test]
fn a_recovery_that_cannot_read_destroys_nothing() {
    let base = furnished();
    let fs = mount(&base).unwrap();
    let ino = fs.create(1, b"late", &file(), NOW).unwrap();
    fs.write(ino, 0, &content(3), NOW).unwrap();
    fs.sync().unwrap();
    fs.create(1, b"later", &file(), NOW).unwrap();
    fs.open(find(&fs, "dir/one").unwrap()).unwrap();
    fs.unlink(find(&fs, "dir").unwrap(), b"one", NOW).unwrap();
    fs.sync_file(1).unwrap();
    drop(fs);
    let expected = mount(&Arc::new(base.with(base.lebs()))).unwrap();
    let mut failed = 0;
    for after in 0.. {
        let volume = Arc::new(base.with(base.lebs()));
        let device =
            Faulty::new(Arc::clone(&volume), Some(Plan { kind: Kind::Read, after, failures: 2 }));
        let mounted = UbifsMount::mount(Arc::clone(&device) as _, MountOptions::default());
        let is_over = device.count(Kind::Read) <= after;
        failed += u32::from(mounted.is_err());
        drop(mounted);
        let fs = mount(&Arc::new(volume.with(volume.lebs())))
            .unwrap_or_else(|why| panic!("read {after}: {why}"));
        checked(&fs).unwrap_or_else(|why| panic!("read {after}: {why}"));
        assert!(same(&fs, &expected), "read {after}");
        if is_over {
            break;
        }
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_flush_that_fails_says_so() {
    let device = Faulty::new(empty(40), None);
    let mounted = UbifsMount::mount(Arc::clone(&device) as _, MountOptions::default());
    let (fs, _) = mounted.unwrap();
    fs.create(1, b"f", &file(), NOW).unwrap();
    let after = device.count(Kind::Program);
    *device.plan.lock().unwrap() = Some(Plan { kind: Kind::Program, after, failures: u64::MAX });
    assert_eq!(fs.flush().unwrap_err().kind(), FsErrorKind::Io);
    assert!(fs.why_read_only().is_some());
}

/// A device that fails may name the place or not. The reason names it once.
#[test]
fn the_reason_why_writing_ended_has_one_place() {
    let reason = |device: Arc<dyn LebDevice>, fail: &dyn Fn()| {
        let (fs, _) = UbifsMount::mount(device, MountOptions::default()).unwrap();
        fs.create(1, b"f", &file(), NOW).unwrap();
        fail();
        fs.flush().unwrap_err();
        fs.why_read_only().unwrap()
    };
    let device = Faulty::new(empty(40), None);
    let fails = || {
        let after = device.count(Kind::Program);
        *device.plan.lock().unwrap() = Some(Plan { kind: Kind::Program, after, failures: 9 });
    };
    let named = reason(Arc::clone(&device) as _, &fails);
    let volume = empty(40);
    let unnamed = reason(Arc::clone(&volume) as _, &|| volume.cut_after(0, Torn::Before));
    assert_ne!(named, unnamed);
    for reason in [named, unnamed] {
        assert_eq!(reason.matches("leb ").count(), 1, "{reason}");
    }
}

/// A commit that moves the nodes of the LPT reads those that are not in memory. What it cannot read
/// must neither be written as empty nor stay where it is, unnoticed, until no space is left.
#[test]
fn a_commit_that_cannot_read_leb_properties_fails() {
    let step = |fs: &UbifsMount, number: u8| {
        fs.write(fs.lookup(1, b"moving").unwrap(), 0, &[number; 3000], NOW).unwrap();
    };
    // More LEBs than a save table names, so that a mount does not load all properties.
    for (model, lebs) in [(Model::Small, 64), (Model::Big, 500)] {
        let volume = volume_of(lebs, model);
        let mut failed = 0;
        for number in 0..60 {
            // The reads of the whole commit are counted before each of them fails.
            let mut reads = 0;
            for failing in (0..).map(|step: u64| step.checked_sub(1)) {
                let device = Faulty::new(Arc::new(volume.with(volume.lebs())), None);
                let mounted = UbifsMount::mount(Arc::clone(&device) as _, MountOptions::default());
                let (fs, _) = mounted.unwrap();
                step(&fs, number);
                let first = device.count(Kind::Read);
                let Some(failing) = failing else {
                    fs.sync().unwrap();
                    reads = device.count(Kind::Read) - first;
                    continue;
                };
                if failing == reads {
                    break;
                }
                *device.plan.lock().unwrap() =
                    Some(Plan { kind: Kind::Read, after: first + failing, failures: 2 });
                let story = format!("{model:?}, commit {number}, read {failing} of {reads}");
                let error = fs.sync().expect_err(&story);
                assert_eq!(error.kind(), FsErrorKind::Io, "{story}: {error}");
                failed += 1;
                let below = Arc::new(volume.with(device.below.lebs()));
                checked(&mount(&below).unwrap()).unwrap_or_else(|why| panic!("{story}: {why}"));
            }
            let fs = mount(&volume).unwrap();
            step(&fs, number);
            fs.unmount().unwrap();
        }
        assert!(failed > 0, "{model:?}: no commit read anything");
    }
}
