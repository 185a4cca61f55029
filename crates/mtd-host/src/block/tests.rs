//! Tests on a simulated disk that counts, loses unflushed data, and stops at any write.
#![allow(clippy::cast_possible_truncation)] // disks and numbers of tests are small

use super::*;
use crate::block::volume::BlockVolume;
use eraseblock_base::crc::crc32;
use eraseblock_base::{Leb, MediumKind};
use eraseblock_mtd::{Access, LebDevice, MemoryMtd};
use proptest::prelude::*;
use std::sync::Arc;

const SECTOR: usize = 512;
const SHAPE: BlockShape = BlockShape { peb_size: 2048, unit: 512 };
/// Space for the metadata and 22 slots.
const DISK: usize = 128 << 10;

/// Which unflushed sectors survive a power cut.
#[derive(Clone, Copy, Debug)]
enum Keep {
    Nothing,
    Everything,
    Some(u32),
}

#[derive(Clone, Debug, Default)]
struct Sectors {
    durable: Vec<u8>,
    current: Vec<u8>,
    /// Sectors in the cache, in the order of writing.
    cached: Vec<(usize, Vec<u8>)>,
    /// Sector writes and flushes until the power cut.
    budget: Option<u64>,
    writes: u64,
    reads: u64,
    /// Sectors that cannot be read.
    unreadable: Vec<usize>,
    flushes_fail: bool,
}

#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<Sectors>>);

impl Disk {
    fn new(len: usize) -> Self {
        let bytes = vec![0x5A; len];
        Self::of(bytes)
    }

    fn of(bytes: Vec<u8>) -> Self {
        let sectors = Sectors { durable: bytes.clone(), current: bytes, ..Sectors::default() };
        Self(Arc::new(Mutex::new(sectors)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sectors> {
        self.0.lock().unwrap()
    }

    /// Returns the bytes after the power cut.
    fn after_cut(&self, keep: Keep) -> Vec<u8> {
        let sectors = self.lock();
        let mut bytes = sectors.durable.clone();
        for (index, (at, data)) in sectors.cached.iter().enumerate() {
            let kept = match keep {
                Keep::Nothing => false,
                Keep::Everything => true,
                Keep::Some(seed) => {
                    crc32(&[seed.to_le_bytes(), (index as u32).to_le_bytes()].concat()) & 1 == 0
                }
            };
            if kept {
                bytes[*at..at + SECTOR].copy_from_slice(data);
            }
        }
        bytes
    }
}

impl Sectors {
    fn spend(&mut self) -> io::Result<()> {
        match &mut self.budget {
            Some(0) => Err(io::Error::other("power is off")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Backing for Disk {
    fn size(&self) -> io::Result<u64> {
        Ok(self.lock().current.len() as u64)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut sectors = self.lock();
        let at = offset as usize;
        assert!(at.is_multiple_of(SECTOR) && buf.len().is_multiple_of(SECTOR), "whole sectors");
        sectors.reads += 1;
        if sectors.unreadable.iter().any(|bad| (at..at + buf.len()).contains(bad)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        buf.copy_from_slice(&sectors.current[at..at + buf.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut sectors = self.lock();
        assert!(offset.is_multiple_of(SECTOR as u64) && data.len().is_multiple_of(SECTOR));
        for (index, sector) in data.chunks(SECTOR).enumerate() {
            sectors.spend()?;
            sectors.writes += 1;
            let at = offset as usize + index * SECTOR;
            sectors.current[at..at + SECTOR].copy_from_slice(sector);
            sectors.cached.push((at, sector.to_vec()));
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut sectors = self.lock();
        sectors.spend()?;
        if sectors.flushes_fail {
            return Err(io::Error::from_raw_os_error(5));
        }
        sectors.durable = sectors.current.clone();
        sectors.cached.clear();
        Ok(())
    }

    /// Discarded ranges may return anything.
    fn discard(&self, offset: u64, len: u64) {
        let mut sectors = self.lock();
        let range = offset as usize..(offset + len) as usize;
        sectors.current[range.clone()].fill(0xA5);
        sectors.durable[range].fill(0xA5);
    }
}

fn device() -> (BlockDevice<Disk>, Disk) {
    let disk = Disk::new(DISK);
    (BlockDevice::make(disk.clone(), &SHAPE).unwrap(), disk)
}

fn content(device: &dyn Mtd) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().size() as usize];
    assert_eq!(device.read(0, &mut bytes).unwrap(), ReadOutcome::CLEAN);
    bytes
}

fn reopened(disk: &Disk) -> BlockDevice<Disk> {
    BlockDevice::new(Disk::of(disk.after_cut(Keep::Nothing)), Access::Write).unwrap()
}

#[test]
fn a_new_flash_is_erased_and_remembers_what_is_written() {
    let (device, disk) = device();
    let geometry = *device.geometry();
    assert_eq!(
        (geometry.peb_size(), geometry.min_io(), geometry.kind()),
        (2048, 512, MediumKind::Nand)
    );
    assert!(content(&device).iter().all(|byte| *byte == 0xFF));
    device.program(2048 + 512, &[7; 1024]).unwrap();
    device.sync().unwrap();
    let mut expected = vec![0xFF; geometry.size() as usize];
    expected[2560..3584].fill(7);
    assert_eq!(content(&device), expected);
    assert_eq!(content(&reopened(&disk)), expected);
    device.erase(Peb::new(1)).unwrap();
    device.sync().unwrap();
    assert!(content(&reopened(&disk)).iter().all(|byte| *byte == 0xFF));
}

#[test]
fn erased_units_are_neither_read_nor_written() {
    let (device, disk) = device();
    let before = disk.lock().clone();
    device.program(0, &[0xFF; 2048]).unwrap();
    content(&device);
    device.erase(Peb::new(0)).unwrap();
    assert_eq!(disk.lock().writes, before.writes);
    assert_eq!(disk.lock().reads, before.reads);
    let mut data = [0xFF; 2048];
    data[700] = 1;
    device.program(0, &data).unwrap();
    assert_eq!(disk.lock().writes, before.writes + 1);
    let mut byte = [0];
    device.read(700, &mut byte).unwrap();
    assert_eq!((byte, disk.lock().reads), ([1], before.reads + 1));
}

#[test]
fn a_unit_is_written_once() {
    let (device, _) = device();
    device.program(512, &[1; 512]).unwrap();
    let error = device.program(0, &[2; 1024]).unwrap_err();
    assert!(matches!(error, MtdError::Rule { .. }), "{error}");
    let mut first = [0; 512];
    device.read(0, &mut first).unwrap();
    assert_eq!(first, [0xFF; 512]);
    for (addr, len) in [(1, 512), (0, 100), (device.geometry().size(), 512)] {
        assert!(matches!(device.program(addr, &vec![0; len]), Err(MtdError::Range { .. })));
    }
    assert!(matches!(device.erase(Peb::new(9999)), Err(MtdError::Range { .. })));
}

#[test]
fn batches_do_what_single_calls_do() {
    let (device, disk) = device();
    let data: Vec<Vec<u8>> = (0..20_u8).map(|salt| vec![salt; 512]).collect();
    let ranges: Vec<(u64, &[u8])> =
        data.iter().zip(0..).map(|(data, n): (_, u64)| (n * 1024, data.as_slice())).collect();
    device.program_batch(&ranges).unwrap();
    let mut buffers = vec![[0_u8; 512]; 20];
    let mut reads: Vec<(u64, &mut [u8])> = buffers
        .iter_mut()
        .zip(0..)
        .map(|(buf, n): (_, u64)| (n * 1024, buf.as_mut_slice()))
        .collect();
    assert_eq!(device.read_batch(&mut reads).unwrap(), vec![ReadOutcome::CLEAN; 20]);
    assert!(buffers.iter().zip(&data).all(|(found, wanted)| found == wanted.as_slice()));
    let twice: [(u64, &[u8]); 2] = [(512, &[1; 512]), (512, &[2; 512])];
    assert!(matches!(device.program_batch(&twice), Err(MtdError::Rule { .. })));
    device.sync().unwrap();
    let reopened = reopened(&disk);
    assert_eq!(content(&reopened), content(&device));
}

#[test]
fn bad_blocks_stay_bad() {
    let (device, disk) = device();
    device.mark_bad(Peb::new(3)).unwrap();
    assert!(matches!(device.erase(Peb::new(3)), Err(MtdError::Failed { .. })));
    let reopened = reopened(&disk);
    assert!(reopened.is_bad(Peb::new(3)).unwrap());
    assert!(!reopened.is_bad(Peb::new(2)).unwrap());
}

#[test]
fn what_the_disk_cannot_read_is_said() {
    let (device, disk) = device();
    device.program(0, &[9; 1024]).unwrap();
    let place = device.layout.slot_start(0) as usize;
    disk.lock().unreadable.push(place + 512);
    let mut buf = [1; 1024];
    let outcome = device.read(0, &mut buf).unwrap();
    assert!(outcome.uncorrectable);
    assert_eq!((buf[..512] == [9; 512], buf[512..] == [0; 512]), (true, true));
    assert_eq!(device.read(0, &mut buf[..512]).unwrap(), ReadOutcome::CLEAN);
    let mut some = [1; 3];
    assert!(device.read(1000, &mut some).unwrap().uncorrectable);
}

#[test]
fn after_a_failed_commit_nothing_is_written() {
    let (device, disk) = device();
    device.program(0, &[9; 512]).unwrap();
    disk.lock().flushes_fail = true;
    assert!(matches!(device.sync(), Err(MtdError::Io { .. })));
    disk.lock().flushes_fail = false;
    for refused in [device.sync(), device.program(512, &[1; 512]), device.erase(Peb::new(0))] {
        assert!(matches!(refused, Err(MtdError::ReadOnly { .. })));
    }
    assert!(content(&reopened(&disk)).iter().all(|byte| *byte == 0xFF));
}

#[test]
fn read_only_means_that() {
    let (device, disk) = device();
    device.program(0, &[9; 512]).unwrap();
    drop(device);
    let writes = disk.lock().writes;
    let device = BlockDevice::new(disk.clone(), Access::Read).unwrap();
    assert_eq!(content(&device)[..512], [9; 512]);
    for refused in
        [device.program(512, &[1; 512]), device.erase(Peb::new(0)), device.mark_bad(Peb::new(0))]
    {
        assert!(matches!(refused, Err(MtdError::ReadOnly { .. })));
    }
    device.sync().unwrap();
    drop(device);
    assert_eq!(disk.lock().writes, writes);
}

#[test]
fn a_damaged_superblock_has_a_copy_and_a_damaged_map_is_refused() {
    let (device, disk) = device();
    device.program(0, &[9; 512]).unwrap();
    device.sync().unwrap();
    let mut bytes = disk.after_cut(Keep::Nothing);
    bytes[20] ^= 1;
    let open = |bytes: &[u8]| BlockDevice::new(Disk::of(bytes.to_vec()), Access::Read);
    assert_eq!(content(&open(&bytes).unwrap()), content(&device));
    bytes[META + 20] ^= 1;
    assert!(matches!(open(&bytes), Err(BlockError::Damaged { .. })));
    assert!(matches!(open(&vec![0; DISK]), Err(BlockError::NoSuperblock)));
    assert!(matches!(open(&[0; 100]), Err(BlockError::NoSuperblock)));
    let mut bytes = disk.after_cut(Keep::Nothing);
    let shorter = open(&bytes[..DISK - 8192]);
    assert!(matches!(shorter, Err(BlockError::Shape { .. })));
    for area in 0..2 {
        bytes[device.layout.checkpoint_start(area) as usize + 30] ^= 1;
    }
    assert!(matches!(open(&bytes), Err(BlockError::Damaged { what: "both maps" })));
}

#[test]
fn impossible_shapes_are_refused() {
    let make =
        |len, peb_size, unit| BlockDevice::make(Disk::new(len), &BlockShape { peb_size, unit });
    for (len, peb, unit) in [
        (DISK, 2000, 512),
        (DISK, 2048, 256),
        (DISK, 512, 1024),
        (DISK, 1 << 17, 4096),
        (0, 2048, 512),
    ] {
        assert!(
            matches!(make(len, peb, unit), Err(BlockError::Shape { .. })),
            "{len} {peb} {unit}"
        );
    }
    let large = Layout::for_disk(4 << 30, 128 << 10, 4096).unwrap();
    assert!(large.peb_count > 32_000, "{large:?}");
    assert_eq!(Layout::decode(&large.encode(), 4 << 30).unwrap(), large);
}

#[test]
fn lebs_are_changed_atomically() {
    let (device, disk) = device();
    let device = Arc::new(device);
    let volume = BlockVolume::new(Arc::clone(&device));
    let leb = Leb::new(4);
    assert!(!volume.is_mapped(leb).unwrap());
    volume.map(leb).unwrap();
    assert!(volume.is_mapped(leb).unwrap() && volume.map(leb).is_err());
    volume.write(leb, 0, &[1; 512]).unwrap();
    volume.sync().unwrap();
    let before = disk.lock().clone();
    for budget in 0.. {
        let disk = Disk::of(before.durable.clone());
        let device = Arc::new(BlockDevice::new(disk.clone(), Access::Write).unwrap());
        disk.lock().budget = Some(budget);
        let done = BlockVolume::new(Arc::clone(&device)).change(leb, &[2; 1024]).is_ok();
        for keep in [Keep::Nothing, Keep::Everything, Keep::Some(1), Keep::Some(2)] {
            let again = BlockDevice::new(Disk::of(disk.after_cut(keep)), Access::Write).unwrap();
            let mut found = [0; 2048];
            again.read(4 * 2048, &mut found).unwrap();
            let is = |first: u8, len: usize| {
                found[..len].iter().all(|byte| *byte == first)
                    && found[len..].iter().all(|byte| *byte == 0xFF)
            };
            assert!(is(2, 1024) || (!done && is(1, 512)), "cut at {budget}, {keep:?}");
        }
        if done {
            break;
        }
    }
    volume.unmap(leb).unwrap();
    assert!(!volume.is_mapped(leb).unwrap());
    assert!(matches!(volume.change(leb, &[0; 4096]), Err(MtdError::Range { .. })));
    assert!(matches!(volume.read(Leb::new(999), 0, &mut [0]), Err(MtdError::Range { .. })));
}

/// An operation on a device and on its model.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Programs this many next units of a block with this content.
    Program(u32, u32, u8),
    Erase(u32),
    Change(u32, u32, u8),
    Sync,
}

/// The model of a device: next unit of each block, and the bytes.
struct Model {
    memory: MemoryMtd,
    next: Vec<u32>,
}

impl Model {
    fn new(geometry: Geometry) -> Self {
        Self { memory: MemoryMtd::new(geometry), next: vec![0; geometry.peb_count() as usize] }
    }

    /// Performs the step as calls that both support.
    fn both(&mut self, device: &BlockDevice<Disk>, step: Step) -> Result<(), MtdError> {
        let blocks = device.geometry().peb_count();
        match step {
            Step::Sync => device.sync(),
            Step::Erase(peb) => {
                let peb = Peb::new(peb % blocks);
                self.memory.erase(peb).unwrap();
                self.next[peb.get() as usize] = 0;
                device.erase(peb)
            }
            Step::Program(peb, units, byte) => {
                let peb = Peb::new(peb % blocks);
                let next = self.next[peb.get() as usize];
                let units = units.min(4 - next);
                let addr = device.geometry().address_of(peb) + u64::from(next * 512);
                let data = vec![byte; units as usize * 512];
                self.memory.program(addr, &data).unwrap();
                self.next[peb.get() as usize] += units;
                device.program(addr, &data)
            }
            Step::Change(peb, units, byte) => {
                let peb = Peb::new(peb % blocks);
                let data = vec![byte; units as usize * 512];
                self.memory.erase(peb).unwrap();
                self.memory.program(device.geometry().address_of(peb), &data).unwrap();
                self.next[peb.get() as usize] = units;
                device.change(peb, &data)
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..32_u32, 1..4_u32, prop_oneof![Just(0xFF_u8), 0..8_u8])
            .prop_map(|(peb, units, byte)| Step::Program(peb, units, byte)),
        4 => (0..32_u32).prop_map(Step::Erase),
        1 => (0..32_u32, 0..5_u32, 0..8_u8)
            .prop_map(|(peb, units, byte)| Step::Change(peb, units.min(4), byte)),
        1 => Just(Step::Sync),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_device_is_what_flash_in_memory_is(
        lives in prop::collection::vec(prop::collection::vec(step(), 1..60), 1..5)
    ) {
        let disk = Disk::new(DISK);
        let mut device = BlockDevice::make(disk.clone(), &SHAPE).unwrap();
        let mut model = Model::new(*device.geometry());
        for steps in lives {
            for step in steps {
                model.both(&device, step).unwrap();
            }
            prop_assert_eq!(content(&device), model.memory.to_bytes());
            device.sync().unwrap();
            drop(device);
            device = BlockDevice::new(Disk::of(disk.after_cut(Keep::Nothing)), Access::Write).unwrap();
            prop_assert_eq!(content(&device), model.memory.to_bytes());
            drop(device);
            device = BlockDevice::new(disk.clone(), Access::Write).unwrap();
        }
    }
}

/// Generates steps from a seed, many of them on few blocks, so that slots are exhausted and
/// released.
fn workload(seed: u32, len: u32) -> Vec<Step> {
    let draw = |n: u32| crc32(&[seed.to_le_bytes(), n.to_le_bytes()].concat());
    let step = |n: u32| {
        let (kind, rest) = (draw(n) % 12, draw(n + 100_000));
        let (peb, units, byte) = (rest % 7, 1 + (rest >> 8) % 3, (rest >> 16) as u8);
        match kind {
            0..6 => Step::Program(peb, units, byte),
            6..10 => Step::Erase(peb),
            10 => Step::Change(peb, units, byte),
            _ => Step::Sync,
        }
    };
    (0..len).map(step).collect()
}

/// Runs a workload until the power cut; returns the acceptable contents: those after each step
/// since the last one that guarantees durability.
fn run(disk: &Disk, device: &BlockDevice<Disk>, steps: &[Step], budget: u64) -> (Vec<u32>, bool) {
    let mut model = Model::new(*device.geometry());
    model.memory = MemoryMtd::with_bytes(*device.geometry(), content(device));
    let mut allowed = vec![crc32(&model.memory.to_bytes())];
    disk.lock().budget = Some(budget);
    for step in steps {
        let result = model.both(device, *step);
        allowed.push(crc32(&model.memory.to_bytes()));
        match result {
            Err(_) => return (allowed, true),
            Ok(()) if matches!(step, Step::Sync | Step::Change(..)) => {
                allowed.drain(..allowed.len() - 1);
            }
            Ok(()) => {}
        }
    }
    (allowed, false)
}

#[test]
fn a_power_cut_leaves_a_moment_after_the_last_sync() {
    let (first, base) = device();
    drop(first);
    let base = base.after_cut(Keep::Nothing);
    let mut states = 0;
    for seed in 0..3 {
        let steps = workload(seed, 160);
        for budget in 0.. {
            let disk = Disk::of(base.clone());
            let device = BlockDevice::new(disk.clone(), Access::Write).unwrap();
            let (allowed, was_cut) = run(&disk, &device, &steps, budget);
            for keep in [Keep::Nothing, Keep::Everything, Keep::Some(seed), Keep::Some(!seed)] {
                let after = Disk::of(disk.after_cut(keep));
                let found = BlockDevice::new(after.clone(), Access::Write).unwrap();
                let bytes = content(&found);
                assert!(allowed.contains(&crc32(&bytes)), "seed {seed}, cut {budget}, {keep:?}");
                second_life(&found, &after, &bytes);
                states += 1;
            }
            if !was_cut {
                break;
            }
        }
    }
    assert!(states > 4000, "{states} states");
}

#[test]
fn a_commit_of_many_blocks_is_whole_or_not_there() {
    let shape = BlockShape { peb_size: 512, unit: 512 };
    let base = Disk::new(2 << 20);
    let device = BlockDevice::make(base.clone(), &shape).unwrap();
    assert!(device.layout.journal_units > 3 && device.layout.entries_per_unit() < 300);
    device.mark_bad(Peb::new(900)).unwrap();
    let size = device.geometry().size() as usize;
    drop(device);
    let base = base.after_cut(Keep::Nothing);
    let data = vec![0x33; 700 * 512];
    let mut both = [false; 2];
    for budget in 695..=750 {
        let disk = Disk::of(base.clone());
        let device = BlockDevice::new(disk.clone(), Access::Write).unwrap();
        // From here on the map is in the journal, not in a checkpoint.
        device.mark_bad(Peb::new(901)).unwrap();
        disk.lock().budget = Some(budget);
        let _ = device.program(0, &data).and_then(|()| device.sync());
        for keep in [Keep::Nothing, Keep::Everything, Keep::Some(1), Keep::Some(2)] {
            let found = BlockDevice::new(Disk::of(disk.after_cut(keep)), Access::Read).unwrap();
            let (mut written, bytes) = (vec![0xFF; size], content(&found));
            let is_old = bytes == written;
            written[..data.len()].copy_from_slice(&data);
            assert!(is_old || bytes == written, "cut {budget}, {keep:?}");
            both[usize::from(is_old)] = true;
        }
    }
    assert_eq!(both, [true; 2]);
}

/// The device continues: its writes survive another cut, together with the earlier ones.
fn second_life(device: &BlockDevice<Disk>, disk: &Disk, bytes: &[u8]) {
    let mut expected = bytes.to_vec();
    device.change(Peb::new(5), &[0x77; 1024]).unwrap();
    expected[5 * 2048..6 * 2048].fill(0xFF);
    expected[5 * 2048..5 * 2048 + 1024].fill(0x77);
    assert_eq!(content(&reopened(disk)), expected);
}

#[test]
fn a_plain_file_is_a_disk() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4 << 20).unwrap();
    let shape = BlockShape { peb_size: 16 << 10, unit: 4096 };
    let device = BlockDevice::create(file.path(), &shape, false).unwrap();
    assert!(matches!(BlockDevice::open(file.path(), Access::Write), Err(HostError::Busy { .. })));
    device.program(4096, &[3; 8192]).unwrap();
    device.program_batch(&[(1 << 16, &[4; 4096]), (1 << 17, &[5; 4096])]).unwrap();
    let wanted = content(&device);
    drop(device);
    let device = BlockDevice::open(file.path(), Access::Read).unwrap();
    assert_eq!(content(&device), wanted);
    drop(device);
    let mut start = [0; 8];
    Backing::read(&HostDisk::open(file.path(), Access::Read).unwrap(), 0, &mut start).unwrap();
    assert!(is_block_flash(&start));
    let error = BlockDevice::create(file.path(), &shape, false).unwrap_err();
    assert!(matches!(&error, HostError::Block { source: BlockError::NotEmpty, .. }));
    BlockDevice::create(file.path(), &shape, true).unwrap();
    assert!(
        content(&BlockDevice::open(file.path(), Access::Read).unwrap()).iter().all(|b| *b == 0xFF)
    );
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        BlockDevice::open(folder.path(), Access::Read),
        Err(HostError::WrongKind { .. })
    ));
}
