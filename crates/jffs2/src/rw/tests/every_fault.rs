//! A device that fails at the n-th call of each of its operations, once or permanently, for every
//! n. The workload includes a remount and a mount.

use super::*;
use eraseblock_base::{ErrorClass, Location, Peb};
use eraseblock_mtd::{Mtd, MtdError, ReadOutcome, forward};
use eraseblock_nandsim::FaultPlan;
use eraseblock_vfs::{Background, FsError, FsErrorKind, SetAttr, XattrMode};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The operation that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Program,
    Erase,
    ReadOob,
    ProgramOob,
    MarkBad,
    IsBad,
    Sync,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Read,
        Self::Program,
        Self::Erase,
        Self::ReadOob,
        Self::ProgramOob,
        Self::MarkBad,
        Self::IsBad,
        Self::Sync,
    ];

    /// Returns whether a mount, which writes nothing, uses the operation.
    fn is_of_mounts(self) -> bool {
        matches!(self, Self::Read | Self::ReadOob | Self::IsBad)
    }

    /// Returns whether a failure makes a block unusable.
    fn wears(self) -> bool {
        matches!(self, Self::Program | Self::ProgramOob | Self::Erase)
    }
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: Kind,
    /// Number of successful calls before the failure.
    after: u64,
    /// Whether all later calls fail, too.
    for_good: bool,
}

/// A chip that fails according to a plan.
#[derive(Debug)]
struct Faulty {
    inner: Arc<Chip>,
    plan: Mutex<Option<Plan>>,
    /// Calls of each kind so far.
    counts: Mutex<[u64; Kind::ALL.len()]>,
    /// A block, and the number of its reads that fail after its next erase.
    deaf: Mutex<(Peb, u32)>,
    is_deaf: AtomicBool,
}

impl Faulty {
    fn new(inner: Arc<Chip>, plan: Option<Plan>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            plan: Mutex::new(plan),
            counts: Mutex::default(),
            deaf: Mutex::new((Peb::new(0), 0)),
            is_deaf: false.into(),
        })
    }

    fn step(&self, kind: Kind, addr: u64) -> Result<(), MtdError> {
        let mut counts = self.counts.lock().unwrap();
        let number = counts[kind as usize];
        counts[kind as usize] += 1;
        let fails = self.plan.lock().unwrap().is_some_and(|plan| {
            plan.kind == kind && (number == plan.after || plan.for_good && number > plan.after)
        });
        let operation = match kind {
            Kind::Read | Kind::ReadOob => "read",
            Kind::Program | Kind::ProgramOob => "program",
            Kind::Erase => "erase",
            Kind::MarkBad => "mark_bad",
            Kind::IsBad => "is_bad",
            Kind::Sync => "sync",
        };
        let at = Location::Byte(addr);
        if fails { Err(MtdError::Failed { at, operation }) } else { Ok(()) }
    }

    /// Returns the number of calls of a kind.
    fn count(&self, kind: Kind) -> u64 {
        self.counts.lock().unwrap()[kind as usize]
    }
}

impl Mtd for Faulty {
    forward!(geometry);

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        self.step(Kind::IsBad, self.geometry().address_of(peb))?;
        self.inner.is_bad(peb)
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.step(Kind::MarkBad, self.geometry().address_of(peb))?;
        self.inner.mark_bad(peb)
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.step(Kind::Sync, 0)?;
        self.inner.sync()
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.step(Kind::Read, addr)?;
        let (peb, left) = &mut *self.deaf.lock().unwrap();
        let start = self.geometry().address_of(*peb);
        let is_there = (start..start + u64::from(self.geometry().peb_size())).contains(&addr);
        if self.is_deaf.load(Ordering::Relaxed) && is_there && *left > 0 {
            *left -= 1;
            return Err(MtdError::Failed { at: Location::Byte(addr), operation: "read" });
        }
        self.inner.read(addr, buf)
    }

    /// A failing program writes a part of the data.
    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        let result = self.step(Kind::Program, addr);
        if result.is_err() {
            let half = (data.len() / 2) as u32;
            let part = half.next_multiple_of(self.geometry().min_io()).min(data.len() as u32);
            let mut torn = data[..part as usize].to_vec();
            torn.iter_mut().skip(20).for_each(|byte| *byte &= 0x5A);
            self.inner.program(addr, &torn)?;
            return result;
        }
        self.inner.program(addr, data)
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        let result = self.step(Kind::Erase, self.geometry().address_of(peb));
        if result.is_err() {
            // Every second failing erase has erased the block.
            if self.count(Kind::Erase).is_multiple_of(2) {
                self.inner.erase(peb)?;
            }
            return result;
        }
        if self.deaf.lock().unwrap().0 == peb {
            self.is_deaf.store(true, Ordering::Relaxed);
        }
        self.inner.erase(peb)
    }

    fn read_oob(&self, addr: u64, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.step(Kind::ReadOob, addr)?;
        self.inner.read_oob(addr, offset, buf)
    }

    fn program_oob(&self, addr: u64, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let result = self.step(Kind::ProgramOob, addr);
        if result.is_err() {
            self.inner.program_oob(addr, offset, &data[..data.len() / 2])?;
            return result;
        }
        self.inner.program_oob(addr, offset, data)
    }
}

/// Returns a small chip. If it can have bad blocks, one block cannot be erased, and another one
/// only once.
fn chip(kind: MediumKind) -> Arc<Chip> {
    let (page, oob) = if kind == MediumKind::Nand { (512, 16) } else { (1, 0) };
    let geometry = Geometry::new(kind, 8 << 10, 12, page, page, oob).unwrap();
    let chip = Chip::new(ChipConfig::of_geometry(geometry).unwrap());
    if kind == MediumKind::Nand {
        let failing_erases = BTreeMap::from([(3, 0), (7, 1)]);
        chip.set_plan(FaultPlan { failing_erases, ..FaultPlan::new(1) });
    }
    Arc::new(chip)
}

/// Returns incompressible content derived from a number.
fn bytes_of(number: u32, len: u32) -> Vec<u8> {
    let mut rng = eraseblock_base::random::SplitMix64::new(number.into());
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// The files that a run made durable: names and numbers of their contents.
type Kept = Vec<(String, u32)>;

/// A file system on a device that may fail; none between an unmount and a mount.
struct Rig {
    device: Arc<Faulty>,
    options: RwOptions,
    fs: Option<Jffs2Rw>,
}

impl Rig {
    fn new(device: &Arc<Faulty>, options: &RwOptions) -> Self {
        Self { device: Arc::clone(device), options: options.clone(), fs: None }
    }

    fn mount(&mut self) -> Result<(), FsError> {
        match Jffs2Rw::mount(Arc::clone(&self.device) as _, &self.options) {
            Ok((fs, _)) => {
                self.fs = Some(fs);
                Ok(())
            }
            Err(error) => {
                assert_eq!(error.class(), ErrorClass::Media, "{error}");
                Err(FsError::from_source(FsErrorKind::Io, error))
            }
        }
    }

    fn fs(&self) -> &Jffs2Rw {
        self.fs.as_ref().unwrap()
    }
}

/// Performs an operation, up to `tries` times if the device fails.
fn again(tries: u32, mut operation: impl FnMut() -> Result<(), FsError>) -> Result<(), FsError> {
    for _ in 1..tries {
        match operation() {
            Err(error) if error.kind() == FsErrorKind::Io => {}
            done => return done,
        }
    }
    operation()
}

/// Performs everything a file system does, including garbage collection, a remount and a mount.
fn work(rig: &mut Rig, kept: &mut Kept, tries: u32) -> Result<(), FsError> {
    again(tries, || rig.mount())?;
    for number in 0..12_u32 {
        match number {
            4 => {
                again(tries, || rig.fs().become_read_only())?;
                again(tries, || rig.fs().become_writable())?;
            }
            8 => {
                again(tries, || rig.fs().unmount())?;
                rig.fs = None;
                again(tries, || rig.mount())?;
            }
            _ => {}
        }
        round(rig.fs(), number, kept, tries)?;
    }
    again(tries, || rig.fs().unmount())
}

fn round(fs: &Jffs2Rw, number: u32, kept: &mut Kept, tries: u32) -> Result<(), FsError> {
    let keep = format!("keep-{number}");
    let churn = format!("churn-{number}");
    let find = |name: &str| fs.lookup(1, name.as_bytes());
    let make = |name: &str, data: &[u8]| {
        let ino = match find(name) {
            Err(error) if error.kind() == FsErrorKind::NotFound => {
                fs.create(1, name.as_bytes(), &FILE, &by(1))?
            }
            found => found?,
        };
        fs.write(ino, 0, data, &by(2))?;
        Ok(ino)
    };
    again(tries, || {
        let ino = make(&keep, &bytes_of(number, 700))?;
        fs.sync_file(ino)
    })?;
    kept.push((keep, number));
    again(tries, || {
        let ino = make(&churn, &bytes_of(100 + number, 5000))?;
        fs.set_xattr(ino, b"user.a", &[number as u8; 30], XattrMode::Either, &by(3))?;
        fs.read(ino, 0, &mut [0; 6000])?;
        let size = Some(4000 - u64::from(number));
        fs.set_attr(ino, &SetAttr { size, ..SetAttr::default() }, &by(3))
    })?;
    again(tries, || match (find(&churn), number % 3) {
        (Ok(_), 0) => fs.rename((1, churn.as_bytes()), (1, b"x"), RenameMode::Replace, &by(4)),
        (Ok(_), _) => fs.unlink(1, churn.as_bytes(), &by(4)),
        (Err(error), _) if error.kind() == FsErrorKind::NotFound => Ok(()),
        (Err(error), _) => Err(error),
    })?;
    again(tries, || {
        fs.sync()?;
        for _ in 0..20 {
            if fs.background_step()? == Background::Idle {
                break;
            }
        }
        Ok(())
    })
}

fn verify(fs: &Jffs2Rw, kept: &Kept, story: &str) {
    fs.check().unwrap_or_else(|error| panic!("{story}: {error}"));
    for (name, number) in kept {
        assert!(content(fs, name) == bytes_of(*number, 700), "{story}: {name}");
    }
}

/// Performs one run with a fault. When the device works again, everything that was durable must
/// exist, and writing must be possible: at once if the fault was temporary.
fn run(kind: MediumKind, plan: Plan, options: &RwOptions) {
    let chip = chip(kind);
    let device = Faulty::new(Arc::clone(&chip), Some(plan));
    let story = format!("{kind:?}, {plan:?}");
    let mut kept = Kept::new();
    let mut rig = Rig::new(&device, options);
    let done = work(&mut rig, &mut kept, if plan.for_good { 1 } else { 2 });
    match &done {
        Ok(()) => assert_eq!(kept.len(), 12, "{story}"),
        Err(error) => {
            let kinds = [FsErrorKind::Io, FsErrorKind::NoSpace, FsErrorKind::ReadOnly];
            assert!(kinds.contains(&error.kind()), "{story}: {error}");
            assert!(plan.for_good, "{story}: does not go on: {error}");
        }
    }
    if rig.fs.is_none() {
        assert!(plan.kind.is_of_mounts(), "{story}: a mount only reads: {done:?}");
    }
    if let Some(fs) = &rig.fs {
        let late = fs.create(1, b"late", &FILE, &by(5)).map_err(|error| error.kind());
        if done.is_err() && late == Err(FsErrorKind::ReadOnly) {
            assert!(fs.sync().is_err(), "{story}: what is lost is not called durable");
            let why = fs.why_read_only().unwrap_or_default();
            assert!(why.starts_with("peb "), "{story}: {why}");
        }
        *device.plan.lock().unwrap() = None;
        for (name, number) in &kept {
            assert!(content(fs, name) == bytes_of(*number, 700), "{story}: {name}");
        }
    }
    let (fs, _) = Jffs2Rw::mount(chip, options).unwrap_or_else(|error| panic!("{story}: {error}"));
    verify(&fs, &kept, &story);
    let ino = fs.create(1, b"after", &FILE, &by(5));
    // A chip whose blocks all failed has no space left.
    let is_worn = plan.for_good && plan.kind.wears();
    match ino.and_then(|ino| fs.write(ino, 0, b"alive", &by(5))) {
        Ok(()) => assert_eq!(content(&fs, "after"), b"alive", "{story}"),
        Err(error) => assert!(is_worn && error.kind() == FsErrorKind::NoSpace, "{story}: {error}"),
    }
}

/// Runs with every fault of a kind.
fn all(kind: MediumKind, what: Kind, for_good: bool, options: &RwOptions) -> u64 {
    let device = Faulty::new(chip(kind), None);
    work(&mut Rig::new(&device, options), &mut Kept::new(), 1).unwrap();
    let total = device.count(what);
    for after in 0..total {
        run(kind, Plan { kind: what, after, for_good }, options);
    }
    total
}

#[test]
fn any_call_may_fail_once_or_for_good() {
    let options = RwOptions::default();
    for kind in [MediumKind::Nor, MediumKind::Nand] {
        for what in Kind::ALL {
            let once = all(kind, what, false, &options);
            all(kind, what, true, &options);
            println!("{kind:?}: {once} times {what:?}");
            let fewest = match what {
                Kind::ReadOob | Kind::ProgramOob | Kind::MarkBad if kind == MediumKind::Nor => 0,
                Kind::MarkBad => 2,
                _ => 16,
            };
            assert!(once >= fewest && (once > 0) == (fewest > 0), "{kind:?} {what:?}: {once}");
        }
    }
}

/// A block that was erased but could not be read back stayed in use permanently.
#[test]
fn a_block_that_is_never_read_back_is_marked_bad() {
    for (failures, bad) in [(1, 0), (2, 0), (u32::MAX, 1)] {
        let chip = chip(MediumKind::Nand);
        let device = Faulty::new(Arc::clone(&chip), None);
        *device.deaf.lock().unwrap() = (Peb::new(5), failures);
        let options = RwOptions::default();
        let mut kept = Kept::new();
        work(&mut Rig::new(&device, &options), &mut kept, 3).unwrap();
        assert!(device.deaf.lock().unwrap().1 < failures, "the block was erased");
        assert_eq!(chip.is_bad(Peb::new(5)).unwrap(), bad == 1, "{failures} failures");
        assert_eq!(chip.wear_report().bad_blocks, 2 + bad, "{failures} failures");
        let (fs, _) = Jffs2Rw::mount(chip, &options).unwrap();
        verify(&fs, &kept, "after it");
    }
}

/// The power fails while a block that is never read back is marked bad: nothing may go on as if that
/// were done.
#[test]
fn a_cut_while_a_deaf_block_is_marked_bad_ends_the_work() {
    use crate::rw::blocks::List;
    use eraseblock_nandsim::{ArmedCut, Variant};

    let chip = chip(MediumKind::Nand);
    let device = Faulty::new(Arc::clone(&chip), None);
    let (fs, _) = Jffs2Rw::mount(Arc::clone(&device) as _, &RwOptions::default()).unwrap();
    let log = &mut fs.lock().writer.log;
    // One that can be read: the device is not at fault.
    assert!(log.erase_one().unwrap());
    let blocks = &mut log.tree.store.blocks;
    let block = blocks.first(List::ErasePending).unwrap();
    blocks.get_mut(block).unread = 1;
    *device.deaf.lock().unwrap() = (Peb::new(block), u32::MAX);
    let event = chip.next_event() + 2;
    let cut = ArmedCut { event, program: Variant::P1, erase: Variant::E1, seed: 1 };
    chip.set_plan(FaultPlan { cut: Some(cut), ..FaultPlan::new(1) });
    log.erase_one().unwrap_err();
    assert_eq!(chip.next_event(), event + 1, "two erases and the mark");
}

#[test]
fn a_device_that_cannot_read_makes_no_block_bad() {
    let chip = chip(MediumKind::Nand);
    let device = Faulty::new(Arc::clone(&chip), None);
    let options = RwOptions::default();
    let (fs, _) = Jffs2Rw::mount(Arc::clone(&device) as _, &options).unwrap();
    let ino = fs.create(1, b"file", &FILE, &by(1)).unwrap();
    let mut failed = 0;
    for round in 0..100 {
        let reads = Plan { kind: Kind::Read, after: device.count(Kind::Read), for_good: true };
        *device.plan.lock().unwrap() = None;
        fs.write(ino, 0, &bytes_of(round, 6000), &by(1)).unwrap();
        *device.plan.lock().unwrap() = Some(reads);
        for _ in 0..10 {
            failed += u32::from(fs.background_step().is_err());
        }
    }
    assert!(failed > 100, "{failed} erasures failed");
    assert_eq!(chip.wear_report().bad_blocks, 2, "the weak ones");
}

/// Three failures to read back an erased block, one after the other, make it bad. Two do not, even
/// if it was read back before.
#[test]
fn a_good_erase_leaves_no_count_of_failures() {
    let chip = chip(MediumKind::Nand);
    let device = Faulty::new(Arc::clone(&chip), None);
    *device.deaf.lock().unwrap() = (Peb::new(5), 0);
    let mut rig = Rig::new(&device, &RwOptions::default());
    rig.mount().unwrap();
    let (mut kept, mut rounds) = (Kept::new(), 0);
    let mut until = |is_done: &dyn Fn() -> bool| {
        while !is_done() {
            round(rig.fs(), rounds % 12, &mut kept, 3).unwrap();
            rounds += 1;
            assert!(rounds < 1000, "the block is never erased");
        }
    };
    until(&|| device.is_deaf.load(Ordering::Relaxed));
    device.is_deaf.store(false, Ordering::Relaxed);
    device.deaf.lock().unwrap().1 = 2;
    until(&|| device.deaf.lock().unwrap().1 == 0);
    assert!(!chip.is_bad(Peb::new(5)).unwrap());
}

/// Blocks that cannot be erased now are no reason to stop while enough others are free, and one to
/// stop when the rest is needed for collection.
#[test]
fn a_failing_erase_stops_a_write_that_would_need_the_reserve() {
    use crate::rw::blocks::List;

    for (missing, is_refused) in [(0, false), (1, true)] {
        let device = Faulty::new(chip(MediumKind::Nand), None);
        let options = RwOptions::default();
        let (fs, _) = Jffs2Rw::mount(Arc::clone(&device) as _, &options).unwrap();
        for round in 0..6 {
            let ino = fs.create(1, format!("{round}").as_bytes(), &FILE, &by(1)).unwrap();
            fs.write(ino, 0, &bytes_of(round, 3000), &by(1)).unwrap();
        }
        let last = {
            let log = &mut fs.lock().writer.log;
            while log.erase_one().unwrap() {}
            let store = &mut log.tree.store;
            let blocks = &mut store.blocks;
            let last = blocks.list(List::Free).back().copied().unwrap();
            blocks.file(last, List::ErasePending);
            store.reserves.write =
                blocks.len(List::Free) + blocks.len(List::ErasePending) + missing;
            last
        };
        *device.deaf.lock().unwrap() = (Peb::new(last), 2);
        let done = fs.create(1, b"another", &FILE, &by(1)).map_err(|error| error.kind());
        assert_eq!(done.err(), is_refused.then_some(FsErrorKind::Io), "{missing} missing");
    }
}

/// A NOR chip stopped in the middle of a node, and has cleared other bits than those of the node:
/// nothing is programmed over them, at once or later.
#[test]
fn a_torn_place_of_a_nor_chip_is_not_programmed_again() {
    let chip = chip(MediumKind::Nor);
    let device = Faulty::new(Arc::clone(&chip), None);
    let options = RwOptions::default();
    let (fs, _) = Jffs2Rw::mount(Arc::clone(&device) as _, &options).unwrap();
    let ino = fs.create(1, b"f", &FILE, &by(1)).unwrap();
    let after = device.count(Kind::Program);
    let plan = Plan { kind: Kind::Program, after, for_good: false };
    *device.plan.lock().unwrap() = Some(plan);
    fs.write(ino, 0, &bytes_of(1, 3000), &by(1)).unwrap();
    assert_eq!(device.count(Kind::Program), after + 2, "the node, twice");
    assert!(content(&fs, "f") == bytes_of(1, 3000));
    fs.unmount().unwrap();
    let (fs, _) = Jffs2Rw::mount(chip, &options).unwrap();
    assert!(content(&fs, "f") == bytes_of(1, 3000));
    fs.check().unwrap();
}
