//! Fastmaps: written, used, verified and discarded.

use eraseblock_base::{Geometry, Leb, Location, MediumKind, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, MemoryMtd, Mtd, MtdError, ReadOutcome, forward};
use eraseblock_ubi::{
    AttachOptions, Attachment, NewVolume, OpenOptions, PebState, ReadOnlyReason, UbiDevice, attach,
};
use eraseblock_ubi_format::constants::{FASTMAP_ANCHOR_VOLUME, FASTMAP_DATA_VOLUME};
use eraseblock_ubi_format::{
    Compat, EraseCount, HeaderLayout, HeaderState, ReadQuality, SqNum, VidHeader, VolumeFlags,
    VolumeKind, VolumeName, classify_vid,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

const PEBS: u32 = 200;

pub(crate) fn layout() -> HeaderLayout {
    HeaderLayout::new(16_384, 512, 512, None).unwrap()
}

pub(crate) fn flash(pebs: u32) -> Arc<MemoryMtd> {
    let geometry = Geometry::new(MediumKind::Nand, 16_384, pebs, 512, 512, 16).unwrap();
    Arc::new(MemoryMtd::new(geometry))
}

pub(crate) const WITH: OpenOptions = OpenOptions {
    read_only: false,
    force: false,
    force_rw: false,
    bitflip_threshold: 1,
    wl_threshold: 4096,
    max_bad_blocks: None,
    image_seq: 1,
    fastmap: true,
};

pub(crate) fn open(flash: &Arc<MemoryMtd>, options: &OpenOptions) -> (UbiDevice, Attachment) {
    UbiDevice::open_with_report(flash.clone(), &layout(), options).unwrap()
}

pub(crate) fn create(ubi: &UbiDevice, name: &str, kind: VolumeKind, lebs: u32) -> VolumeId {
    let name = VolumeName::new(name).unwrap();
    let flags = VolumeFlags::default();
    ubi.create_volume(&NewVolume { id: None, name, kind, lebs, alignment: 1, flags }).unwrap()
}

pub(crate) fn vid(flash: &MemoryMtd, peb: u32) -> Option<VidHeader> {
    let mut bytes = [0; 64];
    flash.read(u64::from(peb) * 16_384 + 512, &mut bytes).unwrap();
    let at = Location::peb(Peb::new(peb));
    match classify_vid(&bytes, ReadQuality::Clean, &layout(), at) {
        HeaderState::Ok(header) => Some(header),
        _ => None,
    }
}

pub(crate) fn holders(flash: &MemoryMtd, volume: VolumeId) -> Vec<u32> {
    let holds = |peb: &u32| vid(flash, *peb).is_some_and(|header| header.volume == volume);
    (0..PEBS).filter(holds).collect()
}

fn first_byte(ubi: &UbiDevice, id: VolumeId, leb: u32) -> u8 {
    let mut byte = [0];
    ubi.volume(id).unwrap().read(Leb::new(leb), 0, &mut byte).unwrap();
    byte[0]
}

/// A device with a dynamic and a static volume, detached.
pub(crate) fn prepared() -> (Arc<MemoryMtd>, VolumeId, VolumeId) {
    let flash = flash(PEBS);
    let (ubi, attachment) = open(&flash, &WITH);
    assert!(!attachment.is_by_fastmap());
    let dynamic = create(&ubi, "dynamic", VolumeKind::Dynamic, 20);
    let fixed = create(&ubi, "static", VolumeKind::Static, 5);
    ubi.update_volume(fixed, 40_000, &mut std::io::repeat(0x77)).unwrap();
    let volume = ubi.volume(dynamic).unwrap();
    for leb in 0..10 {
        volume.change(Leb::new(leb), &[u8::try_from(leb).unwrap(); 512]).unwrap();
    }
    ubi.detach().unwrap();
    ubi.check_invariants().unwrap();
    (flash, dynamic, fixed)
}

#[test]
fn what_was_detached_is_attached_fast() {
    let (flash, dynamic, fixed) = prepared();
    for _ in 0..2 {
        let (ubi, attachment) = open(&flash, &WITH);
        assert!(attachment.is_by_fastmap(), "{:?}", attachment.findings);
        ubi.check_invariants().unwrap();
        ubi.verify_flash().unwrap();
        assert_eq!(ubi.health().lists.fastmap, 1);
        assert_eq!((first_byte(&ubi, dynamic, 9), first_byte(&ubi, fixed, 1)), (9, 0x77));
        assert!(ubi.check_volume(fixed).unwrap());
        assert_eq!(ubi.volume(fixed).unwrap().info().unwrap().used_bytes, 40_000);
    }
    let scanned = attach(&*flash, &layout(), &AttachOptions::default()).unwrap();
    let (fast, by_fastmap) = open(&flash, &WITH);
    assert!(by_fastmap.max_sqnum > scanned.max_sqnum);
    assert_eq!(by_fastmap.map(dynamic), scanned.map(dynamic));
    assert_eq!(by_fastmap.volumes, scanned.volumes);
    let counters = fast.erase_counters();
    for peb in (0..PEBS).map(Peb::new) {
        let known = scanned.peb(peb).unwrap().erase_count.map(EraseCount::get);
        assert_eq!(known, Some(counters[peb.index()]), "{peb:?}");
    }
}

#[test]
fn what_was_written_since_is_found_in_the_pools() {
    let (flash, dynamic, _) = prepared();
    let (ubi, _) = open(&flash, &WITH);
    let volume = ubi.volume(dynamic).unwrap();
    for leb in 0..30 {
        volume.change(Leb::new(leb % 15), &[0x40 + u8::try_from(leb).unwrap(); 1024]).unwrap();
        volume.unmap(Leb::new((leb + 7) % 20)).unwrap();
        while ubi.background_step().unwrap() {}
        let written = ubi.health().counters.fastmaps;
        let view: Vec<u8> = (0..20).map(|leb| first_byte(&ubi, dynamic, leb)).collect();
        // The device is in use: it must have no other writer.
        let (again, attachment) = open(&flash, &OpenOptions { read_only: true, ..WITH });
        assert!(attachment.is_by_fastmap(), "{leb} {written}: {:?}", attachment.findings);
        let found: Vec<u8> = (0..20).map(|leb| first_byte(&again, dynamic, leb)).collect();
        assert_eq!(view, found, "{leb}");
        again.check_invariants().unwrap();
        again.verify_flash().unwrap();
    }
    assert!(ubi.health().counters.fastmaps > 0, "the pools have run dry");
}

/// A LEB that the fastmap lists was unmapped since, and its block erased: the next attach erased this
/// block once more. A power cut in this erase left its EC header readable for a while. A scan then
/// found a free block, and the program into it failed (`ubi/subpage-fastmap/failing-82@2562.E4`).
#[test]
fn a_block_erased_since_the_fastmap_is_free_at_once() {
    let (flash, dynamic, _) = prepared();
    let (ubi, attachment) = open(&flash, &WITH);
    let peb = attachment.map(dynamic).unwrap().get(Leb::new(3)).unwrap();
    ubi.volume(dynamic).unwrap().erase(Leb::new(3)).unwrap();
    let counter = ubi.erase_counters()[peb.index()];
    drop(ubi);
    let (ubi, attachment) = open(&flash, &WITH);
    assert_eq!(attachment.map(dynamic).unwrap().get(Leb::new(3)), Some(peb), "as in the fastmap");
    assert!(!ubi.volume(dynamic).unwrap().is_mapped(Leb::new(3)).unwrap());
    ubi.flush().unwrap();
    assert_eq!(ubi.erase_counters()[peb.index()], counter, "not erased again");
    ubi.check_invariants().unwrap();
    ubi.verify_flash().unwrap();
    ubi.detach().unwrap();
    let (ubi, attachment) = open(&flash, &WITH);
    assert!(attachment.is_by_fastmap(), "{:?}", attachment.findings);
    ubi.check_invariants().unwrap();
    ubi.verify_flash().unwrap();
}

#[test]
fn without_the_option_fastmaps_are_erased_before_anything_is_written() {
    let (flash, dynamic, _) = prepared();
    let anchor = holders(&flash, FASTMAP_ANCHOR_VOLUME);
    assert_eq!(vid(&flash, anchor[0]).unwrap().compat, Compat::Delete);
    assert!(anchor[0] < 64);
    let scanned = attach(&*flash, &layout(), &AttachOptions::default()).unwrap();
    assert_eq!(scanned.peb(Peb::new(anchor[0])).unwrap().state, PebState::Fastmap);
    let (ubi, attachment) = open(&flash, &OpenOptions { fastmap: false, ..WITH });
    assert!(!attachment.is_by_fastmap());
    assert_eq!(holders(&flash, FASTMAP_ANCHOR_VOLUME), []);
    assert_eq!(first_byte(&ubi, dynamic, 3), 3);
    ubi.check_invariants().unwrap();
}

#[test]
fn a_damaged_fastmap_is_not_believed() {
    let (flash, dynamic, _) = prepared();
    let anchor = *holders(&flash, FASTMAP_ANCHOR_VOLUME).last().unwrap();
    let newest = (0..PEBS)
        .filter(|peb| vid(&flash, *peb).is_some_and(|h| h.volume == FASTMAP_ANCHOR_VOLUME))
        .max_by_key(|peb| vid(&flash, *peb).unwrap().sqnum)
        .unwrap_or(anchor);
    let mut bytes = vec![0; 16_384];
    flash.read(u64::from(newest) * 16_384, &mut bytes).unwrap();
    flash.erase(Peb::new(newest)).unwrap();
    bytes[1024 + 2443] ^= 1;
    flash.program(u64::from(newest) * 16_384, &bytes).unwrap();
    let (ubi, attachment) = open(&flash, &WITH);
    assert!(!attachment.is_by_fastmap());
    assert!(attachment.findings.iter().any(|finding| finding.code == "fastmap-unusable"));
    assert_eq!(first_byte(&ubi, dynamic, 3), 3);
    ubi.detach().unwrap();
    assert!(open(&flash, &WITH).1.is_by_fastmap());
    assert_eq!(holders(&flash, FASTMAP_DATA_VOLUME), []);
}

#[test]
fn volumes_come_and_go() {
    let (flash, dynamic, fixed) = prepared();
    let (ubi, _) = open(&flash, &WITH);
    ubi.resize_volume(dynamic, 7).unwrap();
    ubi.remove_volume(fixed).unwrap();
    let third = create(&ubi, "third", VolumeKind::Dynamic, 4);
    assert_eq!(third, fixed, "the number is used again");
    let (again, attachment) = open(&flash, &WITH);
    assert!(attachment.is_by_fastmap(), "{:?}", attachment.findings);
    again.verify_flash().unwrap();
    assert_eq!(again.volumes().len(), 2);
    assert_eq!((first_byte(&again, third, 0), first_byte(&again, dynamic, 6)), (0xFF, 6));
}

#[test]
fn small_devices_have_none() {
    let flash = flash(64);
    let (ubi, _) = open(&flash, &WITH);
    create(&ubi, "one", VolumeKind::Dynamic, 4);
    ubi.detach().unwrap();
    assert_eq!(ubi.health().counters.fastmaps, 0);
    assert!(!open(&flash, &WITH).1.is_by_fastmap());
}

#[test]
fn a_full_device_goes_on() {
    let flash = flash(PEBS);
    let (ubi, _) = open(&flash, &OpenOptions { wl_threshold: 3, ..WITH });
    let id = create(&ubi, "all", VolumeKind::Dynamic, ubi.available_lebs());
    let volume = ubi.volume(id).unwrap();
    for round in 0..600 {
        let leb = if round < 400 { round } else { round % 5 };
        let data = [u8::try_from(round % 200).unwrap(); 512];
        volume.change(Leb::new(leb % volume.leb_count()), &data).unwrap();
    }
    ubi.check_invariants().unwrap();
    ubi.verify_flash().unwrap();
    let mut view: Vec<u8> = Vec::new();
    for leb in 0..volume.leb_count() {
        view.push(first_byte(&ubi, id, leb));
    }
    let (again, attachment) = open(&flash, &WITH);
    assert!(attachment.is_by_fastmap(), "{:?}", attachment.findings);
    for (leb, byte) in (0..).zip(view) {
        assert_eq!(first_byte(&again, id, leb), byte, "{leb}");
    }
}

/// A device that panics when a fastmap is erased while an older one is there.
#[derive(Debug)]
struct OldestFirst {
    inner: Arc<MemoryMtd>,
    /// The number of erases of fastmaps that succeed before all of them fail.
    good_erases: AtomicI64,
    /// A block could not be marked bad: nothing may be written any more.
    is_over: AtomicBool,
}

impl OldestFirst {
    fn new(inner: &Arc<MemoryMtd>, good_erases: i64) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            good_erases: good_erases.into(),
            is_over: false.into(),
        })
    }

    fn anchors(&self) -> Vec<(SqNum, u32)> {
        let anchors = holders(&self.inner, FASTMAP_ANCHOR_VOLUME).into_iter();
        anchors.map(|peb| (vid(&self.inner, peb).unwrap().sqnum, peb)).collect()
    }
}

impl Mtd for OldestFirst {
    forward!(geometry, read, is_bad, sync);

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        assert!(!self.is_over.load(Ordering::Relaxed), "a program at {addr}");
        self.inner.program(addr, data)
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        assert!(!self.is_over.load(Ordering::Relaxed), "an erase of {peb:?}");
        let anchors = self.anchors();
        if anchors.iter().any(|anchor| anchor.1 == peb.get()) {
            assert_eq!(anchors.iter().min().unwrap().1, peb.get(), "of {anchors:?}");
            if self.good_erases.fetch_sub(1, Ordering::Relaxed) <= 0 {
                return Err(MtdError::Failed { at: Location::peb(peb), operation: "erase" });
            }
        }
        self.inner.erase(peb)
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        assert!(!self.is_over.swap(true, Ordering::Relaxed), "{peb:?} is given up, too");
        Err(MtdError::Failed { at: Location::peb(peb), operation: "mark_bad" })
    }
}

/// Writes the VID header of a fastmap without content, like that of another fastmap.
fn write_anchor(flash: &MemoryMtd, like: u32, peb: u32, sqnum: u64) {
    let header = VidHeader { sqnum: SqNum::new(sqnum), ..vid(flash, like).unwrap() };
    let mut bytes = [0xFF; 512];
    bytes[..64].copy_from_slice(&eraseblock_ubi_format::encode::encode_vid(&header));
    flash.program(u64::from(peb) * 16_384 + 512, &bytes).unwrap();
}

/// The newest fastmap was damaged, and the power failed after it had been erased, before an older
/// one was: the next attach believed the older one, which knew nothing of what was written since.
#[test]
fn outdated_fastmaps_are_erased_before_newer_ones() {
    let (flash, dynamic, _) = prepared();
    let newest = holders(&flash, FASTMAP_ANCHOR_VOLUME)[0];
    let free: Vec<u32> = (0..64).filter(|peb| vid(&flash, *peb).is_none()).collect();
    let older = *free.iter().find(|peb| **peb > newest).unwrap();
    let torn = *free.iter().find(|peb| **peb < older).unwrap();
    write_anchor(&flash, newest, older, 1);
    write_anchor(&flash, newest, torn, 1 << 40);
    let device = OldestFirst::new(&flash, i64::MAX);
    let (ubi, attachment) = UbiDevice::open_with_report(device, &layout(), &WITH).unwrap();
    assert!(!attachment.is_by_fastmap(), "the newest is not complete");
    assert_eq!(holders(&flash, FASTMAP_ANCHOR_VOLUME), []);
    assert_eq!(first_byte(&ubi, dynamic, 3), 3);
}

/// Erases of old fastmaps wait in a queue. When the newest is erased to be written again, or because
/// none can be written, they come first.
#[test]
fn a_fastmap_is_never_erased_before_older_ones() {
    let flash = flash(PEBS);
    let device = OldestFirst::new(&flash, i64::MAX);
    let (ubi, _) = UbiDevice::open_with_report(device, &layout(), &WITH).unwrap();
    rename_and_change(&ubi).unwrap();
    ubi.check_invariants().unwrap();
}

/// Writes many fastmaps on a full device.
fn rename_and_change(ubi: &UbiDevice) -> Result<(), String> {
    let id = create(ubi, "all", VolumeKind::Dynamic, ubi.available_lebs() - 2);
    let volume = ubi.volume(id).unwrap();
    for round in 0..400 {
        let byte = [u8::try_from(round % 251).unwrap(); 512];
        let leb = Leb::new(round % volume.leb_count());
        volume.change(leb, &byte).map_err(|error| error.to_string())?;
        if round % 9 == 0 {
            let name = VolumeName::new(format!("all-{round}")).unwrap();
            ubi.rename_volumes(&[(id, name)]).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// A fastmap can be neither erased nor given up, because no block can be marked bad any more: the
/// device is read-only at once. It went on, and erased the newest fastmap while an older one stayed,
/// which the next attach would have believed.
#[test]
fn nothing_is_written_after_a_fastmap_could_not_be_erased() {
    let mut several = 0;
    for good_erases in 0..30 {
        let flash = flash(PEBS);
        let device = OldestFirst::new(&flash, good_erases);
        let (ubi, _) = UbiDevice::open_with_report(device.clone(), &layout(), &WITH).unwrap();
        rename_and_change(&ubi).unwrap_err();
        assert!(ubi.read_only().is_some());
        assert!(!device.anchors().is_empty());
        several += u32::from(device.anchors().len() > 1);
    }
    assert!(several > 0 && several < 30, "{several} with more than one fastmap");
}

/// A block that cannot be read is not moved any more. No fastmap listed it, so that every attach
/// refused the fastmap, scanned, and erased it again.
#[test]
fn a_block_that_cannot_be_read_does_not_spoil_the_fastmap() {
    let (flash, dynamic, _) = prepared();
    let (ubi, _) = open(&flash, &WITH);
    // Not an atomic change, whose checksum would prove the data.
    let leb = Leb::new(15);
    ubi.volume(dynamic).unwrap().write(leb, 0, &[7; 512]).unwrap();
    let is_it = |peb: &u32| vid(&flash, *peb).unwrap().leb == leb;
    let peb = holders(&flash, dynamic).into_iter().find(is_it).unwrap();
    let at = u64::from(peb) * 16_384 + 1024;
    flash.plant_outcome(at..at + 1, ReadOutcome { corrected_bits: 0, uncorrectable: true });
    assert!(ubi.request_scrub(Peb::new(peb)));
    ubi.flush().unwrap();
    assert_eq!(ubi.health().errors.erroneous, 1);
    ubi.detach().unwrap();
    let (again, attachment) = open(&flash, &WITH);
    assert!(attachment.is_by_fastmap(), "{:?}", attachment.findings);
    assert_eq!(attachment.map(dynamic).unwrap().get(leb), Some(Peb::new(peb)));
    again.check_invariants().unwrap();
}

/// Another LEB is in a block than the fastmap says. A write to it, or an atomic change, must not hide
/// that, and a read must not deliver the other LEB's data.
#[test]
fn a_block_with_another_leb_than_the_fastmap_says_ends_writing() {
    for what in ["change", "write", "read"] {
        let (flash, dynamic, _) = prepared();
        let is_it = |peb: &u32| vid(&flash, *peb).unwrap().leb == Leb::new(3);
        let peb = holders(&flash, dynamic).into_iter().find(is_it).unwrap();
        let header = VidHeader { leb: Leb::new(19), ..vid(&flash, peb).unwrap() };
        let bytes = eraseblock_ubi_format::encode::encode_vid(&header);
        flash.poke(u64::from(peb) * 16_384 + 512, &bytes).unwrap();
        let (ubi, attachment) = open(&flash, &WITH);
        assert!(attachment.is_by_fastmap(), "{:?}", attachment.findings);
        let volume = ubi.volume(dynamic).unwrap();
        let leb = Leb::new(3);
        let done = match what {
            "change" => volume.change(leb, &[1; 512]),
            "write" => volume.write(leb, 1024, &[1; 512]),
            _ => volume.read(leb, 0, &mut [0; 512]).map(drop),
        };
        assert!(done.is_err(), "{what}");
        assert_eq!(ubi.read_only(), Some(ReadOnlyReason::Fastmap));
    }
}

/// A fastmap written since the device was opened listed a volume that is gone. Its number was used
/// again, and the next attach would give the LEBs of the old volume to the new one.
#[test]
fn a_new_volume_has_nothing_of_one_that_a_fastmap_still_lists() {
    let flash = flash(PEBS);
    let (ubi, _) = open(&flash, &WITH);
    let old = create(&ubi, "old", VolumeKind::Dynamic, 5);
    ubi.volume(old).unwrap().write(Leb::new(2), 0, &[7; 512]).unwrap();
    ubi.detach().unwrap();
    ubi.remove_volume(old).unwrap();
    let new = create(&ubi, "new", VolumeKind::Dynamic, 5);
    assert_eq!(old, new, "the number is used again");
    drop(ubi);
    let (ubi, attachment) = open(&flash, &WITH);
    assert!(attachment.is_by_fastmap(), "{:?}", attachment.findings);
    assert_eq!(first_byte(&ubi, new, 2), 0xFF);
    ubi.verify_flash().unwrap();
}

/// A block of the first ones is newer than the fastmap that lists it, or is not empty although it
/// is listed as free: something was written that the fastmap does not know.
#[test]
fn a_fastmap_that_the_first_blocks_contradict_is_not_believed() {
    for is_free in [false, true] {
        let (flash, dynamic, _) = prepared();
        let is_low = |peb: &u32| *peb < 64;
        let used = holders(&flash, dynamic).into_iter().find(is_low).unwrap();
        let peb = if is_free {
            let (_, attachment) = open(&flash, &OpenOptions { read_only: true, ..WITH });
            assert!(attachment.is_by_fastmap());
            let state = |peb: &u32| attachment.peb(Peb::new(*peb)).unwrap().state;
            // The last one: the pools have the first ones.
            (0..64).rev().find(|peb| state(peb) == PebState::Free).unwrap()
        } else {
            used
        };
        let sqnum = SqNum::new(if is_free { 1 } else { 1 << 40 });
        let header = VidHeader { sqnum, leb: Leb::new(18), ..vid(&flash, used).unwrap() };
        let bytes = eraseblock_ubi_format::encode::encode_vid(&header);
        flash.poke(u64::from(peb) * 16_384 + 512, &bytes).unwrap();
        let (_, attachment) = open(&flash, &WITH);
        assert!(!attachment.is_by_fastmap(), "free: {is_free}");
        assert!(attachment.findings.iter().any(|finding| finding.code == "fastmap-unusable"));
    }
}

/// A device with blocks that are bad, or fail once they are erased again.
#[derive(Debug)]
struct Worn {
    inner: Arc<MemoryMtd>,
    bad: Mutex<BTreeSet<Peb>>,
    /// The number of erases that fail; UBI tries each four times.
    failing: AtomicI64,
}

impl Worn {
    fn new(inner: Arc<MemoryMtd>, bad: &[Peb]) -> Arc<Self> {
        let bad = Mutex::new(bad.iter().copied().collect());
        Arc::new(Self { inner, bad, failing: 0.into() })
    }

    fn open(self: &Arc<Self>, options: &OpenOptions) -> (UbiDevice, Attachment) {
        UbiDevice::open_with_report(self.clone(), &layout(), options).unwrap()
    }
}

impl Mtd for Worn {
    forward!(geometry, read, program, sync);

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        if self.failing.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Err(MtdError::Failed { at: Location::peb(peb), operation: "erase" });
        }
        self.inner.erase(peb)
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        Ok(self.bad.lock().unwrap().contains(&peb))
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.bad.lock().unwrap().insert(peb);
        Ok(())
    }
}

/// A block that was bad when the fastmap was written is good: what it holds is unknown.
#[test]
fn a_fastmap_that_misses_a_good_block_is_not_believed() {
    let peb = Peb::new(150);
    let device = Worn::new(flash(PEBS), &[peb]);
    let (ubi, _) = device.open(&WITH);
    create(&ubi, "one", VolumeKind::Dynamic, 5);
    ubi.detach().unwrap();
    drop(ubi);
    let (_, attachment) = device.open(&OpenOptions { read_only: true, ..WITH });
    assert!(attachment.is_by_fastmap());
    device.bad.lock().unwrap().remove(&peb);
    let (_, attachment) = device.open(&WITH);
    assert!(!attachment.is_by_fastmap());
    assert!(attachment.findings.iter().any(|finding| finding.code == "fastmap-unusable"));
}

/// A block was marked bad since the fastmap was written: it is neither free, nor does it hold a LEB,
/// and the fastmap is lost if it is a part of that.
#[test]
fn a_block_marked_bad_since_the_fastmap_is_not_used() {
    let (flash, dynamic, _) = prepared();
    let states = |peb: Peb| {
        let device =
            Worn::new(Arc::new(MemoryMtd::with_bytes(*flash.geometry(), flash.to_bytes())), &[peb]);
        let (ubi, attachment) = device.open(&WITH);
        ubi.check_invariants().unwrap();
        let lists = attachment.map(dynamic).unwrap().get(Leb::new(3)) == Some(peb);
        (attachment.is_by_fastmap(), attachment.peb(peb).unwrap().state, lists)
    };
    let holds = |peb: &u32| vid(&flash, *peb).unwrap().leb == Leb::new(3);
    let used = holders(&flash, dynamic).into_iter().find(holds).unwrap();
    let anchors = holders(&flash, FASTMAP_ANCHOR_VOLUME).into_iter();
    let anchor = anchors.max_by_key(|peb| vid(&flash, *peb).unwrap().sqnum).unwrap();
    // Not in a pool: these are read, and a bad one contradicts the fastmap.
    let free = (100..PEBS).find(|peb| vid(&flash, *peb).is_none()).unwrap();
    for (peb, is_by_fastmap) in [(used, true), (free, true), (anchor, false)] {
        let expected = (is_by_fastmap, PebState::Bad, false);
        assert_eq!(states(Peb::new(peb)), expected, "{peb}");
    }
}

/// Blocks of the reserve have replaced bad ones, so that it is smaller: what it kept from moves is
/// free for them.
#[test]
fn a_smaller_reserve_leaves_blocks_for_moves() {
    let device = Worn::new(flash(PEBS), &[]);
    let (ubi, _) = device.open(&OpenOptions { max_bad_blocks: Some(40), ..WITH });
    let id = create(&ubi, "all", VolumeKind::Dynamic, ubi.available_lebs());
    let volume = ubi.volume(id).unwrap();
    for leb in 0..volume.leb_count() {
        volume.change(Leb::new(leb), &[1; 512]).unwrap();
    }
    device.failing.store(4 * 20, Ordering::Relaxed);
    for leb in 0..40 {
        volume.change(Leb::new(leb), &[2; 512]).unwrap();
        ubi.flush().unwrap();
    }
    assert_eq!(ubi.health().bad_block_reserve.0, 20);
    let before = ubi.health().counters.moves;
    let peb = holders(&device.inner, id).last().copied().unwrap();
    assert!(ubi.request_scrub(Peb::new(peb)));
    for leb in 0..40 {
        volume.change(Leb::new(leb), &[3; 512]).unwrap();
        while ubi.background_step().unwrap() {}
    }
    assert!(ubi.health().counters.moves > before);
    assert_eq!(ubi.health().lists.scrub, 0);
    ubi.check_invariants().unwrap();
}

/// A device whose power fails after a number of changes.
#[derive(Debug)]
struct Cut {
    inner: Arc<MemoryMtd>,
    left: AtomicI64,
}

impl Cut {
    fn step(&self) -> Result<(), MtdError> {
        let is_on = self.left.fetch_sub(1, Ordering::Relaxed) > 0;
        if is_on { Ok(()) } else { Err(MtdError::PowerOff) }
    }
}

impl Mtd for Cut {
    forward!(geometry, read, is_bad, mark_bad, sync);

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.step()?;
        self.inner.program(addr, data)
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.step()?;
        self.inner.erase(peb)
    }
}

/// The number of a removed volume is used again. Whenever the power fails, the new volume has no
/// LEB of the old one, which a fastmap may still list.
#[test]
fn a_new_volume_is_empty_after_any_power_cut() {
    let mut created = 0;
    for left in 0.. {
        let flash = flash(PEBS);
        let device = Arc::new(Cut { inner: Arc::clone(&flash), left: i64::MAX.into() });
        let (ubi, _) = UbiDevice::open_with_report(device.clone(), &layout(), &WITH).unwrap();
        let old = create(&ubi, "old", VolumeKind::Dynamic, 5);
        ubi.volume(old).unwrap().write(Leb::new(2), 0, &[7; 512]).unwrap();
        ubi.remove_volume(create(&ubi, "other", VolumeKind::Dynamic, 5)).unwrap();
        device.left.store(left, Ordering::Relaxed);
        let new = NewVolume {
            id: Some(old),
            name: VolumeName::new("new").unwrap(),
            kind: VolumeKind::Dynamic,
            lebs: 5,
            alignment: 1,
            flags: VolumeFlags::default(),
        };
        let is_done = ubi.remove_volume(old).and_then(|()| ubi.create_volume(&new)).is_ok();
        drop(ubi);
        let (ubi, _) = open(&flash, &WITH);
        if let Ok(volume) = ubi.volume_named(b"new") {
            created += 1;
            let mut byte = [0];
            volume.read(Leb::new(2), 0, &mut byte).unwrap();
            assert_eq!(byte, [0xFF], "cut after {left} changes");
        }
        if is_done {
            break;
        }
    }
    assert!(created > 1, "{created} cuts after the volume was created");
}

/// The fastmap on flash does not list the old volume any more: none is written to forget it.
#[test]
fn a_number_used_again_costs_no_further_fastmap() {
    let (flash, _, fixed) = prepared();
    let (ubi, attachment) = open(&flash, &WITH);
    assert!(attachment.is_by_fastmap());
    ubi.remove_volume(fixed).unwrap();
    let before = ubi.health().counters.fastmaps;
    assert_eq!(create(&ubi, "again", VolumeKind::Dynamic, 5), fixed);
    assert_eq!(ubi.health().counters.fastmaps, before + 1);
}
