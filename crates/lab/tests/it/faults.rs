//! UBIFS on UBI on a chip that fails: the n-th page read, program, erase or bad-block mark, once or
//! permanently. Chip, UBI and file system must handle this together.

use eraseblock_base::{Geometry, Peb, VolumeId};
use eraseblock_lab::Shape;
use eraseblock_mtd::{Mtd, MtdError, ReadOutcome};
use eraseblock_nandsim::{Chip, Fault, FaultPlan, ReadFault, Snapshot};
use eraseblock_ubi::{NewVolume, OpenOptions, UbiDevice};
use eraseblock_ubi_format::{VolumeFlags, VolumeKind, VolumeName};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::{
    Caller, FileSystem, FsErrorKind, NewInode, NewKind, RenameMode, SetAttr, Timestamp,
    WritableFileSystem, XattrMode,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// The kind of operation that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A read: nothing is delivered.
    Read,
    /// A read: the delivered bytes could not be corrected.
    Decay,
    Program,
    Erase,
    /// A bad-block mark. To cause some, one block in eight no longer erases.
    Mark,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: Kind,
    /// Number of operations before the fault.
    after: u64,
    /// Whether all later operations fail, too.
    for_good: bool,
}

/// A chip that fails according to a plan. The chip determines what a failed operation leaves.
#[derive(Debug)]
struct Faulty {
    chip: Arc<Chip>,
    plan: Option<Plan>,
    /// Calls so far, by [`Kind`].
    counts: [AtomicU64; 5],
}

impl Faulty {
    fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }

    /// Counts a call; returns whether it fails.
    fn fails(&self, kind: Kind) -> bool {
        let number = self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
        self.plan.is_some_and(|plan| {
            plan.kind == kind && (number == plan.after || plan.for_good && number > plan.after)
        })
    }

    /// Makes one of the next `events` events fail.
    fn arm(&self, kind: Kind, events: u64) {
        let number = self.chip.next_event() + self.count(kind) % events.max(1);
        self.chip.set_plan(FaultPlan::new(number).with(number, Fault::Fail));
    }
}

impl Mtd for Faulty {
    fn geometry(&self) -> &Geometry {
        self.chip.geometry()
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let (fails, decays) = (self.fails(Kind::Read), self.fails(Kind::Decay));
        if fails || decays {
            let fault = if fails { ReadFault::Fail } else { ReadFault::Flips { bits: 400 } };
            let mut plan = FaultPlan::new(addr);
            plan.at_read.insert(self.chip.counters().page_reads, fault);
            self.chip.set_plan(plan);
        }
        self.chip.read(addr, buf)
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        if self.fails(Kind::Program) {
            let page = u64::from(self.chip.config().page());
            self.arm(Kind::Program, (addr % page + data.len() as u64).div_ceil(page));
        }
        self.chip.program(addr, data)
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        let is_worn = self.plan.is_some_and(|plan| plan.kind == Kind::Mark) && peb.get() % 8 == 3;
        if self.fails(Kind::Erase) || is_worn {
            self.arm(Kind::Erase, 1);
        }
        self.chip.erase(peb)
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        self.chip.is_bad(peb)
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        if self.fails(Kind::Mark) {
            self.arm(Kind::Mark, 1);
        }
        self.chip.mark_bad(peb)
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.chip.sync()
    }
}

fn device(chip: Arc<dyn Mtd>, shape: Shape) -> Result<UbiDevice, String> {
    let options = OpenOptions { fastmap: shape.uses_fastmap(), ..OpenOptions::default() };
    UbiDevice::open(chip, &shape.layout(), &options).map_err(|error| error.to_string())
}

fn mount(ubi: &UbiDevice) -> Result<UbifsMount, String> {
    let volume = ubi.volume(VolumeId::new(0)).map_err(|error| error.to_string())?;
    let mounted = UbifsMount::mount(Arc::new(volume), MountOptions::default());
    mounted.map(|(fs, _)| fs).map_err(|error| error.to_string())
}

/// Returns an empty file system.
fn base(shape: Shape) -> Snapshot {
    let chip = Arc::new(shape.chip());
    let ubi = device(Arc::clone(&chip) as _, shape).unwrap();
    let new = NewVolume {
        id: Some(VolumeId::new(0)),
        name: VolumeName::new("data").unwrap(),
        kind: VolumeKind::Dynamic,
        lebs: 30,
        alignment: 1,
        flags: VolumeFlags::default(),
    };
    ubi.create_volume(&new).unwrap();
    mount(&ubi).unwrap().unmount().unwrap();
    ubi.flush().unwrap();
    ubi.detach().unwrap();
    chip.snapshot()
}

fn file() -> NewInode<'static> {
    NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 1, gid: 2 }
}

/// Content that belongs to a number.
fn content(number: u8) -> Vec<u8> {
    (0..3000_u32).map(|at| (at.wrapping_mul(at) >> 5).to_le_bytes()[0] ^ number).collect()
}

fn keep_name(number: u8) -> String {
    format!("keep-{number}")
}

const FILES: u8 = 24;

/// Performs everything a file system does, with commits, garbage collection and UBI's background
/// work; `kept` is the number of files made durable so far.
fn work(fs: &UbifsMount, ubi: &UbiDevice, kept: &mut u8) -> Result<(), (FsErrorKind, String)> {
    let told = |error: eraseblock_vfs::FsError| (error.kind(), error.to_string());
    for number in 0..FILES {
        let keep = fs.create(1, keep_name(number).as_bytes(), &file(), NOW).map_err(told)?;
        fs.write(keep, 0, &content(number), NOW).map_err(told)?;
        fs.sync_file(keep).map_err(told)?;
        *kept = number + 1;
        churn(fs, number).map_err(told)?;
        // The next operation must report errors of background work.
        let _ = ubi.flush();
    }
    for number in 0..FILES {
        let name = format!("churn-{number}");
        if fs.lookup(1, name.as_bytes()).is_ok() {
            fs.unlink(1, name.as_bytes(), NOW).map_err(told)?;
        }
    }
    fs.unmount().map_err(told)
}

fn churn(fs: &UbifsMount, number: u8) -> Result<(), eraseblock_vfs::FsError> {
    let churn = fs.create(1, format!("churn-{number}").as_bytes(), &file(), NOW)?;
    fs.write(churn, 0, &vec![number; 20_000], NOW)?;
    fs.write(churn, 40_000, &content(number), NOW)?;
    fs.set_xattr(churn, b"user.a", &[number; 300], XattrMode::Either, NOW)?;
    fs.read(churn, 0, &mut vec![0; 30_000])?;
    if let Some(old) = number.checked_sub(4).map(|old| format!("churn-{old}"))
        && fs.lookup(1, old.as_bytes()).is_ok()
    {
        fs.unlink(1, old.as_bytes(), NOW)?;
    }
    if number % 3 == 1 {
        fs.sync()?;
        let dir = NewInode { kind: NewKind::Directory, ..file() };
        let dir = fs.create(1, format!("dir-{number}").as_bytes(), &dir, NOW)?;
        let old = format!("churn-{}", number - 1);
        fs.rename((1, old.as_bytes()), (dir, b"moved"), RenameMode::Replace, NOW)?;
        fs.set_attr(churn, &SetAttr { size: Some(10_001), ..SetAttr::default() }, NOW)?;
        fs.unlink(dir, b"moved", NOW)?;
    }
    Ok(())
}

/// The result of a run.
#[derive(Debug)]
struct Told {
    /// Files that were durable.
    kept: u8,
    error: Option<(FsErrorKind, String)>,
}

/// Attaches, mounts and works until an error is reported.
fn use_it(device_below: &Arc<Faulty>, shape: Shape) -> Told {
    let mut told = Told { kept: 0, error: None };
    let io = |error: String| Some((FsErrorKind::Io, error));
    let ubi = match device(Arc::clone(device_below) as _, shape) {
        Ok(ubi) => ubi,
        Err(error) => return Told { error: io(error), ..told },
    };
    let fs = match mount(&ubi) {
        Ok(fs) => fs,
        Err(error) => return Told { error: io(error), ..told },
    };
    told.error = work(&fs, &ubi, &mut told.kept).err();
    if told.error.is_some() && fs.why_read_only().is_some() {
        let late = fs.create(1, b"late", &file(), NOW).unwrap_err();
        assert_eq!(late.kind(), FsErrorKind::ReadOnly, "{late}");
    }
    told
}

/// Checks that with the chip working again everything is right, and `kept` files are there.
fn heal(chip: &Chip, shape: Shape, kept: u8) -> Result<(), String> {
    let chip = Arc::new(chip.snapshot().to_chip());
    chip.set_plan(FaultPlan::default());
    let ubi = device(chip, shape)?;
    ubi.check_invariants()?;
    let fs = mount(&ubi)?;
    let findings = fs.check().map_err(|error| error.to_string())?;
    if let Some(first) = findings.iter().next() {
        return Err(format!("{}: {}", first.at, first.message));
    }
    for number in 0..kept {
        let wrong = |error: &dyn ToString| format!("{number} of {kept}: {}", error.to_string());
        let ino = fs.lookup(1, keep_name(number).as_bytes()).map_err(|error| wrong(&error))?;
        let mut back = vec![0; 3001];
        let len = fs.read(ino, 0, &mut back).map_err(|error| wrong(&error))?;
        if len != 3000 || back[..3000] != content(number) {
            return Err(wrong(&"other content"));
        }
    }
    fs.create(1, b"alive", &file(), NOW).map_err(|error| error.to_string())?;
    fs.unmount().map_err(|error| error.to_string())?;
    ubi.flush().map_err(|error| error.to_string())?;
    ubi.verify_flash().map_err(|error| error.to_string())
}

/// Checks the properties of an error.
fn judge(plan: Plan, shape: Shape, kind: FsErrorKind, error: &str) -> Result<(), String> {
    let is_nand = shape.chip().geometry().can_have_bad_blocks();
    // Linux's UBI gives up a block only if it can be marked bad, and otherwise the device.
    let may_be_told = plan.for_good || plan.kind == Kind::Mark || !is_nand;
    if !may_be_told {
        return Err(format!("reported: {kind:?} {error}"));
    }
    let is_right = match kind {
        FsErrorKind::Io | FsErrorKind::ReadOnly => true,
        FsErrorKind::Corrupted => plan.kind == Kind::Decay,
        _ => false,
    };
    // If both copies of the volume table decay, there is no single place.
    let has_place = ["leb ", "peb ", "volume table"].iter().any(|word| error.contains(word));
    if is_right && has_place { Ok(()) } else { Err(format!("wrong error: {kind:?} {error}")) }
}

/// Performs one run, with a fault or without.
fn run(base: &Snapshot, shape: Shape, plan: Option<Plan>) -> Result<Arc<Faulty>, String> {
    let chip = Arc::new(base.to_chip());
    let faulty = Arc::new(Faulty { chip, plan, counts: Default::default() });
    let told = use_it(&faulty, shape);
    match (&told.error, plan) {
        (Some((kind, error)), Some(plan)) => judge(plan, shape, *kind, error)?,
        (Some((kind, error)), None) => return Err(format!("{kind:?} {error}")),
        (None, _) if told.kept != FILES => return Err(format!("only {} kept", told.kept)),
        (None, _) => {}
    }
    heal(&faulty.chip, shape, told.kept).map_err(|error| format!("{told:?}, then {error}"))?;
    Ok(faulty)
}

/// Runs with every `step`-th number of each kind of fault; returns the number of runs.
fn explore(shape: Shape, kinds: &[Kind], step: usize) -> usize {
    let base = base(shape);
    let whole = run(&base, shape, None).unwrap();
    let mut runs = 0;
    for kind in kinds.iter().copied() {
        // No block goes bad in the run without faults.
        let count = if kind == Kind::Mark { 4 } else { whole.count(kind) };
        let step = step.min(usize::try_from(count / 4).unwrap());
        println!("{shape:?}, {kind:?}: every {step} of {count}");
        for for_good in [false, true] {
            for after in (0..count).step_by(step) {
                let plan = Plan { kind, after, for_good };
                if let Err(error) = run(&base, shape, Some(plan)) {
                    panic!("{shape:?} {plan:?}: {error}");
                }
                runs += 1;
            }
        }
    }
    runs
}

#[test]
fn a_nand_chip_may_fail_anywhere() {
    let kinds = [Kind::Read, Kind::Decay, Kind::Program, Kind::Erase, Kind::Mark];
    let runs = explore(Shape::Mini, &kinds, 3) + explore(Shape::MiniFastmap, &kinds, 9);
    println!("{runs} runs");
    assert!(runs > 800, "{runs}");
}

#[test]
fn a_nor_chip_may_fail_anywhere() {
    let runs = explore(Shape::Nor, &[Kind::Read, Kind::Program, Kind::Erase], 9);
    println!("{runs} runs");
    assert!(runs > 300, "{runs}");
}
