//! Fastmaps: written, used, verified and discarded.

use eraseblock_base::{Geometry, Leb, MediumKind, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, MemoryMtd, Mtd, MtdError, ReadOutcome};
use eraseblock_ubi::{
    AttachOptions, Attachment, NewVolume, OpenOptions, PebState, ReadOnlyReason, UbiDevice, attach,
};
use eraseblock_ubi_format::constants::{FASTMAP_ANCHOR_VOLUME, FASTMAP_DATA_VOLUME};
use eraseblock_ubi_format::{
    Compat, EraseCount, HeaderLayout, HeaderState, ReadQuality, SqNum, VidHeader, VolumeFlags,
    VolumeKind, VolumeName, classify_vid,
};
use std::sync::Arc;

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
    let at = eraseblock_base::Location::peb(Peb::new(peb));
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
struct OldestFirst(Arc<MemoryMtd>);

impl OldestFirst {
    fn anchors(&self) -> Vec<(SqNum, u32)> {
        let anchors = holders(&self.0, FASTMAP_ANCHOR_VOLUME).into_iter();
        anchors.map(|peb| (vid(&self.0, peb).unwrap().sqnum, peb)).collect()
    }
}

impl Mtd for OldestFirst {
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.0.read(addr, buf)
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.0.program(addr, data)
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        let anchors = self.anchors();
        if anchors.iter().any(|anchor| anchor.1 == peb.get()) {
            assert_eq!(anchors.iter().min().unwrap().1, peb.get(), "of {anchors:?}");
        }
        self.0.erase(peb)
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        self.0.is_bad(peb)
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.0.mark_bad(peb)
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.0.sync()
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
    let device = Arc::new(OldestFirst(Arc::clone(&flash)));
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
    let device = Arc::new(OldestFirst(Arc::clone(&flash)));
    let (ubi, _) = UbiDevice::open_with_report(device, &layout(), &WITH).unwrap();
    let id = create(&ubi, "all", VolumeKind::Dynamic, ubi.available_lebs() - 2);
    let volume = ubi.volume(id).unwrap();
    for round in 0..400 {
        let byte = [u8::try_from(round % 251).unwrap(); 512];
        volume.change(Leb::new(round % volume.leb_count()), &byte).unwrap();
        if round % 9 == 0 {
            let name = VolumeName::new(format!("all-{round}")).unwrap();
            ubi.rename_volumes(&[(id, name)]).unwrap();
        }
    }
    ubi.check_invariants().unwrap();
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
/// that.
#[test]
fn a_block_with_another_leb_than_the_fastmap_says_ends_writing() {
    for is_change in [true, false] {
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
        let done = if is_change {
            volume.change(leb, &[1; 512])
        } else {
            volume.write(leb, 1024, &[1; 512])
        };
        assert!(done.is_err(), "{is_change}");
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
