//! A device in use: recoveries, refusals, faults.

use crate::builder::*;
use eraseblock_base::{Geometry, Leb, MediumKind, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, MemoryMtd, Mtd, MtdError, ReadOutcome, forward};
use eraseblock_ubi::{NewVolume, OpenOptions, ReadOnlyReason, UbiDevice, UbiError};
use eraseblock_ubi_format::{Compat, HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

fn open(flash: &Flash) -> (Arc<MemoryMtd>, Result<UbiDevice, UbiError>) {
    let layout = &flash.layout;
    let (size, count) = (layout.peb_size(), flash.peb_count);
    let (min_io, unit) = (layout.min_io(), layout.header_unit());
    let geometry = Geometry::new(MediumKind::Nand, size, count, min_io, unit, 16).unwrap();
    let device = Arc::new(MemoryMtd::with_bytes(geometry, flash.bytes.clone()));
    let ubi = UbiDevice::open(device.clone(), layout, &OpenOptions::default());
    (device, ubi)
}

fn reopen(device: &Arc<MemoryMtd>, flash: &Flash) -> UbiDevice {
    UbiDevice::open(device.clone(), &flash.layout, &OpenOptions::default()).unwrap()
}

fn new_volume(name: &str, lebs: u32) -> NewVolume {
    NewVolume {
        id: None,
        name: VolumeName::new(name).unwrap(),
        kind: VolumeKind::Dynamic,
        lebs,
        alignment: 1,
        flags: VolumeFlags::default(),
    }
}

#[test]
fn a_lost_table_copy_is_written_again() {
    for lost in [0, 1] {
        let mut flash = Flash::standard();
        flash.poke(lost, flash.layout.data_offset(), &[0; 100]);
        let (device, ubi) = open(&flash);
        let ubi = ubi.unwrap();
        ubi.check_invariants().unwrap();
        assert_eq!(ubi.volumes().len(), 1);
        let before = device.to_bytes();
        drop(ubi);
        let ubi = reopen(&device, &flash);
        assert_eq!(device.to_bytes(), before, "the second attach writes nothing");
        ubi.flush().unwrap();
        assert_eq!(ubi.health().lists.erase, 0);
    }
}

#[test]
fn what_linux_refuses_is_refused_unless_forced() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &[1; 512]);
    flash.put_leb(6, &dynamic(0, 10), &[2; 512]);
    let (device, ubi) = open(&flash);
    assert!(matches!(ubi, Err(UbiError::Refused(_))));
    assert_eq!(device.to_bytes(), flash.bytes, "and nothing is written");
    let options = OpenOptions { force: true, ..OpenOptions::default() };
    let ubi = UbiDevice::open(device, &flash.layout, &options).unwrap();
    ubi.check_invariants().unwrap();
    let volume = ubi.volume(VolumeId::new(0)).unwrap();
    let mut buf = [0; 512];
    volume.read(Leb::new(0), 0, &mut buf).unwrap();
    assert_eq!(buf, [1; 512]);
}

#[test]
fn volumes_resize_themselves_at_attach() {
    let mut record = record("auto", VolumeKind::Dynamic, 9);
    record.flags = VolumeFlags::AUTORESIZE;
    let flash = Flash::with(&[(0, record)]);
    let (device, ubi) = open(&flash);
    let ubi = ubi.unwrap();
    // 128 blocks: 2 for the table, 2 reserves, 3 for bad blocks.
    assert_eq!(ubi.volumes()[0].reserved_lebs, 121);
    assert_eq!(ubi.available_lebs(), 0);
    let again = reopen(&device, &flash);
    assert_eq!(again.volumes()[0].reserved_lebs, 121);
    assert_eq!(again.volumes()[0].flags, VolumeFlags::default());
}

#[test]
fn impossible_requests_are_refused() {
    let (_, ubi) = open(&Flash::standard());
    let ubi = ubi.unwrap();
    let refused = |volume: &NewVolume| {
        assert!(matches!(ubi.create_volume(volume), Err(UbiError::Request { .. })), "{volume:?}");
    };
    refused(&new_volume("none", 0));
    refused(&NewVolume { alignment: 0, ..new_volume("a", 1) });
    refused(&NewVolume { alignment: 3, ..new_volume("a", 1) });
    refused(&NewVolume { id: Some(VolumeId::new(92)), ..new_volume("a", 1) });
    refused(&NewVolume { flags: VolumeFlags::SKIP_CHECK, ..new_volume("a", 1) });
    let exists = ubi.create_volume(&new_volume("vol", 1));
    assert!(matches!(exists, Err(UbiError::Exists { .. })));
    let taken = NewVolume { id: Some(VolumeId::new(0)), ..new_volume("a", 1) };
    assert!(matches!(ubi.create_volume(&taken), Err(UbiError::Exists { .. })));
    let large = ubi.create_volume(&new_volume("a", 1000));
    assert!(matches!(large, Err(UbiError::NoSpace { .. })));
    let id = VolumeId::new(0);
    let volume = ubi.volume(id).unwrap();
    assert!(matches!(ubi.remove_volume(id), Err(UbiError::Busy { .. })));
    assert!(matches!(ubi.resize_volume(id, 3), Err(UbiError::Busy { .. })));
    assert!(matches!(ubi.update_volume(id, 0, &mut &[][..]), Err(UbiError::Busy { .. })));
    assert!(matches!(volume.write(Leb::new(0), 1, &[0; 512]), Err(MtdError::Range { .. })));
    assert!(matches!(volume.write(Leb::new(10), 0, &[0; 512]), Err(MtdError::Range { .. })));
    assert!(matches!(volume.change(Leb::new(0), &vec![0; 16384]), Err(MtdError::Range { .. })));
    drop(volume);
    assert!(ubi.resize_volume(id, 0).is_err());
    assert!(ubi.update_volume(id, 1 << 40, &mut &[][..]).is_err());
    let name = |name: &str| VolumeName::new(name).unwrap();
    assert!(ubi.rename_volumes(&[(id, name("x")), (id, name("y"))]).is_err());
    assert!(ubi.rename_volumes(&[(VolumeId::new(5), name("x"))]).is_err());
    ubi.check_invariants().unwrap();
}

#[test]
fn a_renamed_volume_replaces_the_one_of_its_new_name() {
    let flash = Flash::standard();
    let (device, ubi) = open(&flash);
    let ubi = ubi.unwrap();
    let id = ubi.create_volume(&new_volume("new", 4)).unwrap();
    ubi.volume(id).unwrap().write(Leb::new(2), 0, &[7; 512]).unwrap();
    ubi.rename_volumes(&[(id, VolumeName::new("vol").unwrap())]).unwrap();
    ubi.check_invariants().unwrap();
    let again = reopen(&device, &flash);
    let volumes = again.volumes();
    assert_eq!((volumes.len(), volumes[0].id), (1, id));
    assert_eq!(volumes[0].name.as_bytes(), b"vol");
}

#[test]
fn an_update_that_breaks_off_leaves_the_marker() {
    let flash = Flash::standard();
    let (device, ubi) = open(&flash);
    let ubi = ubi.unwrap();
    let id = VolumeId::new(0);
    let short = ubi.update_volume(id, 40_000, &mut &vec![5; 20_000][..]);
    assert!(matches!(short, Err(UbiError::Content(_))));
    let again = reopen(&device, &flash);
    assert!(again.volumes()[0].upd_marker);
    let volume = again.volume(id).unwrap();
    assert!(volume.read(Leb::new(0), 0, &mut [0; 4]).is_err());
    assert!(volume.write(Leb::new(0), 0, &[0; 512]).is_err());
    drop(volume);
    again.update_volume(id, 0, &mut &[][..]).unwrap();
    assert!(!reopen(&device, &flash).volumes()[0].upd_marker);
}

#[test]
fn damaged_static_data_is_noticed() {
    let flash = Flash::standard();
    let (device, ubi) = open(&flash);
    let ubi = ubi.unwrap();
    let id =
        ubi.create_volume(&NewVolume { kind: VolumeKind::Static, ..new_volume("s", 3) }).unwrap();
    ubi.update_volume(id, 20_000, &mut &vec![5; 20_000][..]).unwrap();
    assert_eq!(ubi.volumes()[1].used_bytes, 20_000);
    assert!(ubi.check_volume(id).unwrap());
    let place = device.to_bytes().windows(64).position(|bytes| *bytes == [5; 64]).unwrap();
    device.poke(place as u64, &[4]).unwrap();
    assert!(!ubi.check_volume(id).unwrap());
    assert!(ubi.volumes()[1].corrupted);
}

#[test]
fn bitflips_move_a_leb_and_wear_is_levelled() {
    let flash = Flash::standard();
    let (device, _) = open(&flash);
    let options = OpenOptions { wl_threshold: 5, ..OpenOptions::default() };
    let ubi = UbiDevice::open(device.clone(), &flash.layout, &options).unwrap();
    let volume = ubi.volume(VolumeId::new(0)).unwrap();
    volume.write(Leb::new(0), 0, &[1; 512]).unwrap();
    let place = device.to_bytes().windows(64).position(|bytes| *bytes == [1; 64]).unwrap() as u64;
    device.plant_outcome(place..place + 1, ReadOutcome { corrected_bits: 2, uncorrectable: false });
    volume.read(Leb::new(0), 0, &mut [0; 512]).unwrap();
    assert_eq!(ubi.health().lists.scrub, 1);
    ubi.flush().unwrap();
    let health = ubi.health();
    assert_eq!((health.lists.scrub, health.counters.moves, health.counters.scrubs), (0, 1, 1));
    for round in 0..3000_u32 {
        volume.change(Leb::new(1), &round.to_be_bytes().repeat(128)).unwrap();
        ubi.flush().unwrap();
    }
    ubi.check_invariants().unwrap();
    let health = ubi.health();
    assert!(health.counters.moves > 1, "static data has to move");
    // The target of a move is less than twice the threshold above the least worn free block.
    assert!(health.max_ec - health.min_ec <= 2 * 5 + 1, "{} to {}", health.min_ec, health.max_ec);
    let mut buf = [0; 512];
    volume.read(Leb::new(0), 0, &mut buf).unwrap();
    assert_eq!(buf, [1; 512]);
}

/// Flash on which the n-th program, or all erasures of one block, fail.
#[derive(Debug)]
struct Failing {
    inner: Arc<MemoryMtd>,
    programs_left: AtomicI64,
    worn_block: AtomicI64,
}

impl Mtd for Failing {
    forward!(geometry, read, is_bad, mark_bad, sync);

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        if self.programs_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            let peb = u32::try_from(addr / u64::from(self.geometry().peb_size())).unwrap();
            self.worn_block.store(peb.into(), Ordering::Relaxed);
            let at = eraseblock_base::Location::Byte(addr);
            return Err(MtdError::Failed { at, operation: "program" });
        }
        self.inner.program(addr, data)
    }
    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        if self.worn_block.load(Ordering::Relaxed) == i64::from(peb.get()) {
            let at = eraseblock_base::Location::peb(peb);
            return Err(MtdError::Failed { at, operation: "erase" });
        }
        self.inner.erase(peb)
    }
}

#[test]
fn every_failing_program_is_survived_and_its_block_retired() {
    for failing in 0..14 {
        let flash = Flash::standard();
        let (inner, _) = open(&flash);
        let device = Arc::new(Failing {
            inner: inner.clone(),
            programs_left: AtomicI64::new(failing),
            worn_block: AtomicI64::new(-1),
        });
        let ubi = UbiDevice::open(device.clone(), &flash.layout, &OpenOptions::default()).unwrap();
        let volume = ubi.volume(VolumeId::new(0)).unwrap();
        volume.write(Leb::new(0), 0, &[1; 512]).unwrap();
        volume.write(Leb::new(0), 512, &[2; 1024]).unwrap();
        volume.change(Leb::new(1), &[3; 512]).unwrap();
        volume.change(Leb::new(1), &[4; 512]).unwrap();
        let id = ubi.create_volume(&new_volume("more", 2)).unwrap();
        ubi.flush().unwrap();
        ubi.check_invariants().unwrap();
        let mut buf = [0; 1536];
        volume.read(Leb::new(0), 0, &mut buf).unwrap();
        assert_eq!((buf[0], buf[512], buf[1535]), (1, 2, 2), "{failing}");
        let health = ubi.health();
        let failed = device.programs_left.load(Ordering::Relaxed) < 0;
        assert_eq!(health.errors.bad, u32::from(failed), "{failing}");
        assert_eq!(ubi.read_only(), None);
        drop((volume, ubi));
        let again = reopen(&inner, &flash);
        assert!(again.volume(id).is_ok());
        let volume = again.volume(VolumeId::new(0)).unwrap();
        volume.read(Leb::new(1), 0, &mut buf[..512]).unwrap();
        assert_eq!(buf[0], 4, "{failing}");
    }
}

#[test]
fn without_a_reserve_the_device_goes_read_only_and_comes_back() {
    let flash = Flash::standard();
    let (inner, _) = open(&flash);
    let device = Arc::new(Failing {
        inner,
        programs_left: AtomicI64::new(i64::MAX),
        worn_block: AtomicI64::new(-1),
    });
    let options = OpenOptions { max_bad_blocks: Some(0), ..OpenOptions::default() };
    let ubi = UbiDevice::open(device.clone(), &flash.layout, &options).unwrap();
    ubi.create_volume(&new_volume("all", ubi.available_lebs())).unwrap();
    ubi.flush().unwrap();
    let volume = ubi.volume(VolumeId::new(0)).unwrap();
    volume.change(Leb::new(0), &[1; 512]).unwrap();
    let place = (0..128).find(|peb| ubi.request_scrub(Peb::new(*peb))).unwrap();
    device.worn_block.store(place.into(), Ordering::Relaxed);
    assert!(ubi.flush().is_err());
    assert_eq!(ubi.read_only(), Some(ReadOnlyReason::NoReserve));
    assert!(matches!(volume.write(Leb::new(1), 0, &[0; 512]), Err(MtdError::ReadOnly { .. })));
    volume.read(Leb::new(0), 0, &mut [0; 512]).unwrap();
    ubi.force_rw().unwrap();
    volume.write(Leb::new(1), 0, &[0; 512]).unwrap();
    ubi.check_invariants().unwrap();
}

#[test]
fn formatting_keeps_the_erase_counters() {
    let mut flash = Flash::standard();
    for peb in 0..flash.peb_count {
        let header = flash.ec(peb % 7 + 3);
        flash.poke(peb, 0, &[0xFF; 64]);
        flash.put_ec(peb, &header);
    }
    flash.poke(9, 0, &[0; 64]);
    let (device, _) = open(&flash);
    let device: Arc<dyn Mtd> = device;
    let options = eraseblock_ubi::FormatOptions { image_seq: 5, ..Default::default() };
    let report = eraseblock_ubi::format(&device, &flash.layout, &options).unwrap();
    assert_eq!((report.formatted, report.counters_kept), (128, 127));
    let ubi = UbiDevice::open(device, &flash.layout, &OpenOptions::default()).unwrap();
    assert!(ubi.volumes().is_empty());
    let counters = ubi.erase_counters();
    // One erasure more; the one that was lost has the mean.
    assert_eq!((counters[20], counters[9]), (20 % 7 + 4, 5));
    ubi.check_invariants().unwrap();
}

/// The power went off when the last data of a static LEB was programmed and its ECC was not. The
/// LEB's own checksum proves the data; the padding of the last unit was zero, regardless of what is
/// read now.
#[test]
fn a_static_leb_whose_last_unit_lost_its_correction_code_is_proved_by_its_checksum() {
    const LEN: usize = 3 * 512 + 100;
    let lost = ReadOutcome { corrected_bits: 0, uncorrectable: true };
    let flash = Flash::standard();
    let (device, ubi) = open(&flash);
    let ubi = ubi.unwrap();
    let kind = VolumeKind::Static;
    let id = ubi.create_volume(&NewVolume { kind, ..new_volume("s", 1) }).unwrap();
    let content: Vec<u8> = (0..LEN).map(|at| u8::try_from(at % 251).unwrap()).collect();
    ubi.update_volume(id, LEN as u64, &mut &content[..]).unwrap();
    let is_start = |bytes: &[u8]| bytes == &content[..512];
    let start = device.to_bytes().windows(512).position(is_start).unwrap();
    let unit = (start + 3 * 512) as u64..(start + 4 * 512) as u64;
    device.plant_outcome(unit, lost);
    // The padding may read as anything.
    device.poke((start + LEN) as u64, &[0xEE; 300]).unwrap();

    let volume = ubi.volume(id).unwrap();
    let size = volume.leb_size() as usize;
    let mut expected = content.clone();
    expected.resize(4 * 512, 0);
    expected.resize(size, 0xFF);
    for (from, to) in [(0, size), (0, LEN), (0, 4 * 512), (3 * 512, LEN), (1000, LEN + 7)] {
        let mut found = vec![0x77; to - from];
        let offset = u32::try_from(from).unwrap();
        let outcome = volume.read(Leb::new(0), offset, &mut found).unwrap();
        assert!(!outcome.uncorrectable && outcome.corrected_bits > 0, "{from}..{to}");
        assert!(found == expected[from..to], "{from}..{to}");
    }
    // It must be written again, with working ECC.
    assert_eq!(ubi.health().lists.scrub, 1);

    // Nothing proves the padding alone, nor data after it, nor data that differs from what was
    // written.
    let read = |offset, len| volume.read(Leb::new(0), offset, &mut vec![0; len]).unwrap();
    assert!(read(u32::try_from(LEN).unwrap(), 50).uncorrectable);
    let behind = (start + 4 * 512) as u64;
    device.plant_outcome(behind..behind + 1, lost);
    assert!(read(0, size).uncorrectable && !read(0, 4 * 512).uncorrectable);
    device.poke((start + 5) as u64, &[0]).unwrap();
    assert!(read(0, LEN).uncorrectable);
}

#[test]
fn an_unknown_internal_volume_makes_the_device_read_only_unless_forced() {
    let mut flash = Flash::standard();
    flash.put_leb(9, &internal(Compat::ReadOnly), &[9; 512]);
    let (device, ubi) = open(&flash);
    let ubi = ubi.unwrap();
    let reason = ReadOnlyReason::InternalVolume;
    assert_eq!(ubi.read_only(), Some(reason));
    assert!(matches!(ubi.force_rw(), Err(UbiError::ReadOnly { reason: found }) if found == reason));
    ubi.check_invariants().unwrap();
    drop(ubi);
    let options = OpenOptions { force_rw: true, wl_threshold: 2, ..OpenOptions::default() };
    let ubi = UbiDevice::open(device.clone(), &flash.layout, &options).unwrap();
    assert_eq!(ubi.read_only(), None);
    let volume = ubi.volume(VolumeId::new(0)).unwrap();
    for round in 0..1000_u32 {
        volume.change(Leb::new(round % 10), &round.to_be_bytes().repeat(128)).unwrap();
        ubi.flush().unwrap();
    }
    ubi.check_invariants().unwrap();
    let block = |bytes: &[u8]| bytes[9 * 16_384..10 * 16_384].to_vec();
    assert!(block(&device.to_bytes()) == block(&flash.bytes), "its block is left as it is");
}

fn failing(inner: Arc<MemoryMtd>) -> Arc<Failing> {
    let (programs_left, worn_block) = (AtomicI64::new(i64::MAX), AtomicI64::new(-1));
    Arc::new(Failing { inner, programs_left, worn_block })
}

/// NOR flash has no bad blocks: what fails there is not the block.
#[test]
fn a_failed_append_on_nor_ends_writing() {
    let layout = HeaderLayout::new(16_384, 1, 1, None).unwrap();
    let geometry = Geometry::new(MediumKind::Nor, 16_384, 16, 1, 1, 0).unwrap();
    let device = failing(Arc::new(MemoryMtd::new(geometry)));
    let ubi = UbiDevice::open(device.clone(), &layout, &OpenOptions::default()).unwrap();
    let id = ubi.create_volume(&new_volume("v", 4)).unwrap();
    let volume = ubi.volume(id).unwrap();
    volume.write(Leb::new(0), 0, &[1; 100]).unwrap();
    device.programs_left.store(0, Ordering::Relaxed);
    assert!(volume.write(Leb::new(0), 100, &[2; 100]).is_err());
    assert_eq!(ubi.read_only(), Some(ReadOnlyReason::WriteFailed));
    let mut buf = [0; 100];
    volume.read(Leb::new(0), 0, &mut buf).unwrap();
    assert_eq!(buf, [1; 100]);
    ubi.check_invariants().unwrap();
}

/// A program fails, and the erase that follows succeeds. The block must pass a test before UBI uses
/// it again.
#[test]
fn a_block_whose_program_failed_is_tested_before_it_is_used_again() {
    for failing_program in 0..8 {
        let flash = Flash::standard();
        let (inner, _) = open(&flash);
        let device = failing(inner);
        let ubi = UbiDevice::open(device.clone(), &flash.layout, &OpenOptions::default()).unwrap();
        ubi.flush().unwrap();
        let before = ubi.erase_counters();
        let volume = ubi.volume(VolumeId::new(0)).unwrap();
        device.programs_left.store(failing_program, Ordering::Relaxed);
        for leb in 0..4 {
            volume.write(Leb::new(leb), 0, &[1; 512]).unwrap();
            volume.write(Leb::new(leb), 512, &[2; 512]).unwrap();
        }
        device.worn_block.store(-1, Ordering::Relaxed);
        ubi.flush().unwrap();
        let health = ubi.health();
        assert_eq!((health.errors.bad, health.counters.tortures), (0, 1), "{failing_program}");
        assert_eq!(health.counters.write_errors, 1, "{failing_program}");
        let after = ubi.erase_counters().into_iter().zip(before).map(|(now, then)| now - then);
        let mut after: Vec<u32> = after.filter(|more| *more > 0).collect();
        after.sort_unstable();
        // Three erases of the test, and one of the block that is free again.
        assert_eq!(after, [4], "{failing_program}");
        ubi.check_invariants().unwrap();
        ubi.verify_flash().unwrap();
    }
}

/// A program to the target of a move fails, and so does its erase. UBI must choose another target.
#[test]
fn a_move_to_a_block_that_fails_is_tried_again_elsewhere() {
    let flash = Flash::standard();
    let (inner, _) = open(&flash);
    let device = failing(inner);
    let ubi = UbiDevice::open(device.clone(), &flash.layout, &OpenOptions::default()).unwrap();
    let volume = ubi.volume(VolumeId::new(0)).unwrap();
    volume.change(Leb::new(0), &[1; 512]).unwrap();
    ubi.flush().unwrap();
    let place = device.inner.to_bytes().windows(64).position(|bytes| *bytes == [1; 64]).unwrap();
    assert!(ubi.request_scrub(Peb::new(u32::try_from(place / 16_384).unwrap())));
    device.programs_left.store(0, Ordering::Relaxed);
    ubi.flush().unwrap();
    let health = ubi.health();
    assert_eq!((health.lists.scrub, health.errors.bad, health.counters.moves), (0, 1, 1));
    ubi.check_invariants().unwrap();
}

#[test]
fn every_failing_program_is_survived_with_fastmaps_and_its_block_retired() {
    let options = OpenOptions { fastmap: true, ..OpenOptions::default() };
    let mut retired = 0;
    for failing_program in 0..40 {
        let flash = Flash::standard();
        let (inner, _) = open(&flash);
        let device = failing(inner.clone());
        let ubi = UbiDevice::open(device.clone(), &flash.layout, &options).unwrap();
        let volume = ubi.volume(VolumeId::new(0)).unwrap();
        device.programs_left.store(failing_program, Ordering::Relaxed);
        for round in 0..6_u8 {
            volume.change(Leb::new(round.into()), &[round + 1; 512]).unwrap();
            ubi.detach().unwrap();
        }
        ubi.flush().unwrap();
        ubi.check_invariants().unwrap();
        ubi.verify_flash().unwrap();
        let failed = device.programs_left.load(Ordering::Relaxed) < 0;
        device.programs_left.store(-1, Ordering::Relaxed);
        assert_eq!(ubi.health().errors.bad, u32::from(failed), "{failing_program}");
        retired += u32::from(failed);
        assert_eq!(ubi.read_only(), None);
        ubi.detach().unwrap();
        drop((volume, ubi));
        let (again, attachment) =
            UbiDevice::open_with_report(inner, &flash.layout, &options).unwrap();
        assert!(attachment.is_by_fastmap(), "{failing_program}: {:?}", attachment.findings);
        let volume = again.volume(VolumeId::new(0)).unwrap();
        for round in 0..6_u8 {
            let mut buf = [0; 512];
            volume.read(Leb::new(round.into()), 0, &mut buf).unwrap();
            assert_eq!(buf, [round + 1; 512], "{failing_program}");
        }
    }
    assert!(retired > 20, "{retired}");
}

/// Writing goes on after a failure only if the flash is as the device believes.
#[test]
fn a_header_or_a_table_that_has_changed_is_noticed() {
    let flash = Flash::standard();
    let (inner, _) = open(&flash);
    let device = failing(inner.clone());
    let options = OpenOptions { max_bad_blocks: Some(0), ..OpenOptions::default() };
    let ubi = UbiDevice::open(device.clone(), &flash.layout, &options).unwrap();
    ubi.create_volume(&new_volume("all", ubi.available_lebs())).unwrap();
    ubi.flush().unwrap();
    let volume = ubi.volume(VolumeId::new(0)).unwrap();
    volume.change(Leb::new(0), &[1; 512]).unwrap();
    ubi.verify_flash().unwrap();
    let place = inner.to_bytes().windows(64).position(|bytes| *bytes == [1; 64]).unwrap();
    let peb = u32::try_from(place / 16_384).unwrap();
    device.worn_block.store(peb.into(), Ordering::Relaxed);
    assert!(ubi.request_scrub(Peb::new(peb)));
    assert!(ubi.flush().is_err());
    assert_eq!(ubi.read_only(), Some(ReadOnlyReason::NoReserve));

    let bytes = inner.to_bytes();
    let holds = |block: &&[u8]| block.windows(64).any(|bytes| *bytes == [1; 64]);
    let blocks = bytes.chunks(16_384).enumerate().filter(|(_, block)| holds(block));
    let moved = blocks.map(|(number, _)| number as u64).find(|number| *number != u64::from(peb));
    let moved = moved.unwrap() * 16_384;
    let table = bytes.windows(5).position(|bytes| bytes == b"\0\x03vol").unwrap() as u64;
    for at in [moved + 256 + 15, table + 4] {
        let byte = bytes[usize::try_from(at).unwrap()];
        inner.poke(at, &[byte ^ 1]).unwrap();
        assert!(ubi.verify_flash().is_err(), "{at}");
        assert!(ubi.force_rw().is_err(), "{at}");
        inner.poke(at, &[byte]).unwrap();
    }
    ubi.verify_flash().unwrap();
    ubi.force_rw().unwrap();
}

#[test]
fn the_lebs_of_a_static_volume_are_not_written_one_by_one() {
    let (_, ubi) = open(&Flash::standard());
    let ubi = ubi.unwrap();
    let kind = VolumeKind::Static;
    let id = ubi.create_volume(&NewVolume { kind, ..new_volume("s", 3) }).unwrap();
    ubi.update_volume(id, 20_000, &mut &vec![5; 20_000][..]).unwrap();
    let volume = ubi.volume(id).unwrap();
    assert!(volume.write(Leb::new(2), 0, &[0; 512]).is_err());
    assert!(volume.change(Leb::new(0), &[0; 512]).is_err());
    assert!(ubi.check_volume(id).unwrap());
}
