//! Data that reads correctly once and not again: readers that cannot move it.

use eraseblock_base::align::is_erased;
use eraseblock_base::{Geometry, Leb, MediumKind, VolumeId};
use eraseblock_mtd::{LebDevice, Mtd};
use eraseblock_nandsim::{ArmedCut, Chip, ChipConfig, EventKind, Recorded, Snapshot, Variant};
use eraseblock_ubi::{AttachOptions, NewVolume, OpenOptions, Ubi, UbiDevice};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use std::sync::Arc;

const OLD: [u8; 3072] = [0x0D; 3072];
const NEW: [u8; 5120] = [0x1E; 5120];

fn layout() -> HeaderLayout {
    HeaderLayout::new(16_384, 512, 512, None).unwrap()
}

fn open(chip: &Arc<Chip>) -> UbiDevice {
    UbiDevice::open(chip.clone(), &layout(), &OpenOptions::default()).unwrap()
}

fn new_volume(id: u32) -> NewVolume {
    NewVolume {
        id: Some(VolumeId::new(id)),
        name: VolumeName::new("data").unwrap(),
        kind: VolumeKind::Dynamic,
        lebs: 4,
        alignment: 1,
        flags: VolumeFlags::default(),
    }
}

/// Returns a chip with a volume whose LEB 0 is old.
fn begun() -> Snapshot {
    begun_on(64, &open)
}

fn begun_on(pebs: u32, open: &dyn Fn(&Arc<Chip>) -> UbiDevice) -> Snapshot {
    let geometry = Geometry::new(MediumKind::Nand, 16_384, pebs, 512, 512, 16).unwrap();
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
    let ubi = open(&chip);
    ubi.create_volume(&new_volume(0)).unwrap();
    ubi.volume(VolumeId::new(0)).unwrap().change(Leb::new(0), &OLD).unwrap();
    ubi.flush().unwrap();
    drop(ubi);
    chip.snapshot()
}

/// Changes the LEB on a copy of the chip, cut off at event `number`, which then reads correctly
/// `good_reads` times. `None` if the change had fewer events.
fn cut_at(begun: &Snapshot, number: u64, good_reads: u16) -> Option<Arc<Chip>> {
    let chip = Arc::new(begun.to_chip());
    let ubi = open(&chip);
    let event = chip.next_event() + number;
    let (program, erase) = (Variant::P5 { good_reads }, Variant::E0);
    chip.arm_cut(Some(ArmedCut { event, program, erase, seed: 1 })).unwrap();
    let changed = ubi.volume(VolumeId::new(0)).unwrap().change(Leb::new(0), &NEW);
    if changed.is_ok() && chip.is_powered() {
        return None;
    }
    drop(ubi);
    chip.power_on();
    chip.arm_cut(None).unwrap();
    Some(chip)
}

/// Returns the content of LEB 0, if it can be read.
fn content(volume: &dyn LebDevice) -> Option<[u8; 6144]> {
    let mut bytes = [0; 6144];
    let outcome = volume.read(Leb::new(0), 0, &mut bytes).unwrap();
    (!outcome.uncorrectable).then_some(bytes)
}

/// Passes every chip that a cut of the change leaves to `story`, which returns whether the change
/// took effect.
fn judge(story: impl Fn(Arc<Chip>) -> [u8; 6144]) {
    let begun = begun();
    let mut seen = [0, 0];
    for good_reads in [1, 2, 5] {
        for chip in (0..).map_while(|number| cut_at(&begun, number, good_reads)) {
            let told = story(chip);
            let is_new = told.starts_with(&NEW);
            assert!(is_new || told.starts_with(&OLD), "a mixture");
            seen[usize::from(is_new)] += 1;
        }
    }
    assert!(seen[0] > 20 && seen[1] >= 3, "{seen:?}");
}

#[test]
fn a_reader_gets_one_story_however_often_it_asks() {
    judge(|chip| {
        let ubi = Ubi::attach(chip, &layout(), &AttachOptions::default()).unwrap();
        let volume = ubi.volume(VolumeId::new(0)).unwrap();
        let first = content(&volume).expect("what attaching found good");
        assert!((0..6).all(|_| content(&volume) == Some(first)), "another story");
        first
    });
}

#[test]
fn what_one_attach_decides_holds_for_the_next() {
    judge(|chip| {
        let open = |chip: Snapshot| {
            let chip = Arc::new(chip.to_chip());
            chip.power_on();
            let ubi = open(&chip);
            let volume = ubi.volume(VolumeId::new(0)).unwrap();
            let told = content(&volume).expect("what attaching found good");
            let _ = content(&volume);
            // The power goes off again before any background work.
            (told, chip.snapshot())
        };
        let (first, mut left) = open(chip.snapshot());
        for _ in 0..6 {
            let (told, next) = open(left);
            assert!(told == first, "another story");
            left = next;
        }
        first
    });
}

/// Returns a chip with two volumes, the first of which has just been updated. More changes before
/// make the tables lie elsewhere.
fn with_two_volumes(changes: u8) -> Snapshot {
    let chip = Arc::new(begun().to_chip());
    let ubi = open(&chip);
    let name = VolumeName::new("other").unwrap();
    ubi.create_volume(&NewVolume { name, ..new_volume(1) }).unwrap();
    for change in 0..changes {
        ubi.volume(VolumeId::new(0)).unwrap().change(Leb::new(1), &[change; 512]).unwrap();
    }
    ubi.flush().unwrap();
    ubi.update_volume(VolumeId::new(0), 512, &mut &[1; 512][..]).unwrap();
    chip.snapshot()
}

/// Returns the chip after the power went off during the `number`-th program that `act` makes, which
/// then reads correctly `good_reads` times.
fn cut_while(
    start: &Snapshot,
    open: &dyn Fn(&Arc<Chip>) -> UbiDevice,
    (number, good_reads): (usize, u16),
    act: &dyn Fn(&UbiDevice),
) -> Option<Chip> {
    let chip = Arc::new(start.to_chip());
    let ubi = open(&chip);
    chip.set_recording(true);
    act(&ubi);
    let is_program = |event: &&Recorded| matches!(event.event.kind, EventKind::Program { .. });
    let events = chip.take_recording();
    let event = events.iter().filter(is_program).nth(number)?;
    Some(event.cut(Variant::P5 { good_reads }, 1).unwrap())
}

/// An update of volume 1 was cut while copy 0 of the table was written. Two older versions of copy
/// 0 still existed; the oldest had the marker of a long finished update of volume 0. The attach
/// found the newest copy good, and erased the other two in the order of their blocks. The power
/// went off when the direct predecessor was erased and the oldest was not. By then the newest could
/// not be read any more, and the next attach used the oldest: volume 0 was damaged.
#[test]
fn a_table_of_long_ago_does_not_come_back() {
    // The first program is that of the VID header.
    let last_of_copy_0 = (layout().table_size() / 512) as usize;
    for changes in 40..60 {
        let start = with_two_volumes(changes);
        let update = |ubi: &UbiDevice| {
            ubi.update_volume(VolumeId::new(1), 512, &mut &[7; 512][..]).unwrap();
        };
        let chip = Arc::new(cut_while(&start, &open, (last_of_copy_0, 1), &update).unwrap());
        chip.power_on();
        chip.set_recording(true);
        open(&chip).flush().unwrap();
        let is_erase = |one: &Recorded| matches!(one.event.kind, EventKind::Erase { .. });
        for erase in chip.take_recording().into_iter().filter(is_erase) {
            let chip = Arc::new(erase.cut(Variant::E1, 1).unwrap());
            chip.power_on();
            let volumes = open(&chip).volumes();
            let marked: Vec<u32> =
                volumes.iter().filter(|one| one.upd_marker).map(|one| one.id.get()).collect();
            let event = erase.event.number;
            assert!(marked.is_empty() || marked == [1], "{changes}, {event}: {marked:?}");
        }
    }
}

/// A volume that one attach shows is there at the next one, with the data written to it in between.
/// The copy of the table in which it was found might have been readable for the last time.
#[test]
fn a_volume_that_was_seen_keeps_what_is_written_to_it() {
    for fastmap in [false, true] {
        let options = OpenOptions { fastmap, ..OpenOptions::default() };
        let open = |chip: &Arc<Chip>| UbiDevice::open(chip.clone(), &layout(), &options).unwrap();
        let start = Arc::new(begun_on(120, &open).to_chip());
        open(&start).detach().unwrap();
        let opened = UbiDevice::open_with_report(start.clone(), &layout(), &options).unwrap();
        assert_eq!(opened.1.is_by_fastmap(), fastmap);
        drop(opened);
        let name = VolumeName::new("other").unwrap();
        let create = |ubi: &UbiDevice| {
            ubi.create_volume(&NewVolume { name: name.clone(), ..new_volume(1) }).unwrap();
        };
        let start = start.snapshot();
        let cuts = (0..)
            .map_while(|number| Some((number, cut_while(&start, &open, (number, 1), &create)?)));
        let mut seen = [0, 0];
        for (number, chip) in cuts {
            let chip = Arc::new(chip);
            chip.power_on();
            let ubi = open(&chip);
            let Ok(volume) = ubi.volume(VolumeId::new(1)) else {
                seen[0] += 1;
                continue;
            };
            seen[1] += 1;
            volume.change(Leb::new(0), &NEW).unwrap();
            // The power goes off again before any background work.
            for _ in 0..4 {
                chip.power_off();
                chip.power_on();
                let ubi = open(&chip);
                let volume = ubi.volume(VolumeId::new(1)).expect("the volume is there");
                let content = content(&volume).unwrap();
                assert!(content.starts_with(&NEW), "fastmap {fastmap}, cut at program {number}");
            }
        }
        assert!(seen[0] > 20 && seen[1] > 20, "{seen:?}");
    }
}

/// The erasure of a block was cut, and its VID header could not be read at the next attach, which
/// gave its sequence number to a new copy of the same LEB. Wrong bits fall elsewhere in the next
/// read: the header was there again, and the device was refused for two equal numbers
/// (found as `ubi/mini/4@1706.P5r5+1707.E4`).
#[test]
fn a_header_that_comes_back_is_not_the_newest() {
    const NEWER: [u8; 5120] = [0x2F; 5120];
    let change = |ubi: &UbiDevice| {
        ubi.volume(VolumeId::new(0)).unwrap().change(Leb::new(0), &NEW).unwrap();
    };
    // The new copy has to lie below the one that is erased, to be compared with it.
    for changes in 48..64 {
        let start = with_two_volumes(changes);
        // The copy is not complete: it is the first block to be erased.
        let chip = Arc::new(cut_while(&start, &open, (1, 5), &change).unwrap());
        chip.power_on();
        chip.set_recording(true);
        open(&chip).flush().unwrap();
        let events = chip.take_recording();
        let erase = &events[0];
        assert!(matches!(erase.event.kind, EventKind::Erase { .. }));
        for seed in 0..60 {
            let chip = Arc::new(erase.cut(Variant::E4, seed).unwrap());
            // An attach reads each header once or twice: some more make all pages decay.
            for _ in 0..seed % 4 {
                chip.power_on();
                drop(open(&chip));
                chip.power_off();
            }
            chip.power_on();
            let ubi = open(&chip);
            ubi.volume(VolumeId::new(0)).unwrap().change(Leb::new(0), &NEWER).unwrap();
            for _ in 0..4 {
                chip.power_off();
                chip.power_on();
                let ubi = open(&chip);
                let content = content(&ubi.volume(VolumeId::new(0)).unwrap()).unwrap();
                assert!(content.starts_with(&NEWER), "{changes}, seed {seed}");
            }
        }
    }
}

/// A fastmap listed blocks to be erased, and they were erased after it was written. The next attach
/// erased them again, and this erase was cut: the EC header still read well once, a scan took the
/// block for a free one, and it could not be programmed
/// (found as `ubi/subpage-fastmap/full-50003@1644.P0+1693.E4`).
#[test]
fn what_was_erased_after_the_fastmap_is_not_erased_again() {
    let options = OpenOptions { fastmap: true, ..OpenOptions::default() };
    let open = |chip: &Arc<Chip>| UbiDevice::open(chip.clone(), &layout(), &options).unwrap();
    let mut listed = 0;
    for changes in 1..40 {
        let chip = Arc::new(begun_on(120, &open).to_chip());
        let ubi = open(&chip);
        let volume = ubi.volume(VolumeId::new(0)).unwrap();
        for _ in 0..changes {
            volume.change(Leb::new(1), &NEW).unwrap();
        }
        ubi.flush().unwrap();
        drop(ubi);
        chip.set_recording(true);
        let opened = UbiDevice::open_with_report(chip.clone(), &layout(), &options).unwrap();
        listed += opened.1.counts.erase;
        opened.0.flush().unwrap();
        for erase in chip.take_recording() {
            let EventKind::Erase { peb, .. } = erase.event.kind else { continue };
            let before = erase.cut(Variant::E0, 1).unwrap();
            before.power_on();
            let mut pages = [0; 1024];
            before.read(before.geometry().address_of(peb), &mut pages).unwrap();
            let [ec, vid] = [&pages[..512], &pages[512..]].map(is_erased);
            assert!(ec || !vid, "after {changes} changes, {peb:?} was free");
        }
    }
    assert!(listed > 20, "{listed} blocks waited");
}
