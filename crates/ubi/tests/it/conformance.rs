//! The conformance table (spec: ubi 24), as far as it concerns attaching by scanning.

use crate::builder::*;
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, MemoryMtd, Mtd, MtdError, ReadOutcome, forward};
use eraseblock_ubi::{AttachOptions, PebState, Ubi};
use eraseblock_ubi_format::*;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

const OLD: [u8; 512] = [0xA0; 512];
const NEW: [u8; 512] = [0xB0; 512];
const VID: u32 = 256;
const DATA: u32 = 512;

fn state(ubi: &Ubi, peb: u32) -> PebState {
    ubi.attachment().peb(Peb::new(peb)).unwrap().state
}

fn refusal(ubi: &Ubi) -> Option<&'static str> {
    ubi.attachment().linux_refuses.as_ref().map(|refusal| refusal.code.name())
}

fn has(ubi: &Ubi, code: &str) -> bool {
    ubi.attachment().findings.iter().any(|finding| finding.code == code)
}

fn first_bytes(ubi: &Ubi, leb: u32) -> [u8; 512] {
    let mut buf = [0; 512];
    ubi.volume(VolumeId::new(0)).unwrap().read(Leb::new(leb), 0, &mut buf).unwrap();
    buf
}

/// Checks which block holds LEB 0, and the states of blocks 5 to 7.
fn check_duel(flash: &Flash, holder_of_0: u32, erased: &[u32], content: &[u8]) {
    let ubi = flash.attach();
    assert_eq!(refusal(&ubi), None);
    assert_eq!(holder(&ubi, 0), Some(holder_of_0));
    assert_eq!(state(&ubi, holder_of_0), PebState::Used);
    for peb in erased {
        assert_eq!(state(&ubi, *peb), PebState::Erase, "peb {peb}");
    }
    assert_eq!(first_bytes(&ubi, 0), content);
}

#[test]
fn the_newer_copy_wins_if_it_is_complete() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    flash.put_leb(6, &copy(0, 11, &NEW), &NEW);
    check_duel(&flash, 6, &[5], &NEW);
    // The order of the blocks does not matter.
    let mut flash = Flash::standard();
    flash.put_leb(6, &dynamic(0, 10), &OLD);
    flash.put_leb(5, &copy(0, 11, &NEW), &NEW);
    check_duel(&flash, 5, &[6], &NEW);
}

#[test]
fn an_incomplete_copy_loses_and_is_erased_first() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    flash.put_leb(6, &copy(0, 11, &NEW), &OLD);
    check_duel(&flash, 5, &[6], &OLD);
    let ubi = flash.attach();
    assert_eq!(ubi.attachment().erase_order().first(), Some(&Peb::new(6)));
    assert!(has(&ubi, "copy-incomplete"));
    assert_eq!(ubi.attachment().max_sqnum, SqNum::new(11), "a loser counts as well");
}

/// Flash of which a part cannot be read.
#[derive(Debug)]
struct Unreadable {
    inner: Arc<MemoryMtd>,
    part: Range<u64>,
}

impl Mtd for Unreadable {
    forward!(geometry, program, erase, is_bad, mark_bad, sync);

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        if addr < self.part.end && self.part.start < addr + buf.len() as u64 {
            return Err(MtdError::Failed { at: Location::Byte(addr), operation: "read" });
        }
        self.inner.read(addr, buf)
    }
}

/// The older block is used, and Linux, which does not attach at all, is not said to agree.
#[test]
fn a_copy_whose_data_cannot_be_read_loses_and_is_refused() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    flash.put_leb(6, &copy(0, 11, &NEW), &NEW);
    let start = u64::from(6 * flash.layout.peb_size() + flash.layout.data_offset());
    let device = Unreadable { inner: flash.device(), part: start..start + NEW.len() as u64 };
    let ubi = Ubi::attach(Arc::new(device), &flash.layout, &AttachOptions::default()).unwrap();
    assert_eq!(refusal(&ubi), Some("peb-unreadable"));
    assert!(has(&ubi, "peb-unreadable") && has(&ubi, "copy-incomplete"));
    assert_eq!((holder(&ubi, 0), first_bytes(&ubi, 0)), (Some(5), OLD));
}

/// They were erased in the order of their blocks: a cut in between left the oldest, which came back
/// when the newest could not be read again.
#[test]
fn of_those_given_up_the_older_is_erased_first() {
    for pebs in [[5, 6, 7], [5, 7, 6], [6, 5, 7], [6, 7, 5], [7, 5, 6], [7, 6, 5]] {
        let mut flash = Flash::standard();
        flash.put_leb(pebs[0], &dynamic(0, 10), &OLD);
        flash.put_leb(pebs[1], &copy(0, 11, &OLD), &OLD);
        flash.put_leb(pebs[2], &copy(0, 12, &NEW), &NEW);
        check_duel(&flash, pebs[2], &pebs[..2], &NEW);
        let ubi = flash.attach();
        let ours = |peb: &&Peb| pebs.contains(&peb.get());
        let order: Vec<u32> =
            ubi.attachment().erase_order().iter().filter(ours).map(|peb| peb.get()).collect();
        assert_eq!(order, pebs[..2], "{pebs:?}");
    }
}

#[test]
fn a_newer_first_write_wins_without_a_look_at_its_data() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    flash.put_leb(6, &dynamic(0, 11), &[]);
    check_duel(&flash, 6, &[5], &[0xFF; 512]);
}

#[test]
fn equal_sequence_numbers_are_refused_and_the_first_is_kept() {
    for sqnum in [10, 0] {
        let mut flash = Flash::standard();
        flash.put_leb(5, &dynamic(0, sqnum), &OLD);
        flash.put_leb(6, &dynamic(0, sqnum), &NEW);
        let ubi = flash.attach();
        assert_eq!(refusal(&ubi), Some("equal-sequence-numbers"));
        assert_eq!((holder(&ubi, 0), state(&ubi, 6)), (Some(5), PebState::Foreign));
    }
}

#[test]
fn three_blocks_are_compared_in_pairs() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    flash.put_leb(6, &copy(0, 12, &NEW), &OLD);
    flash.put_leb(7, &dynamic(0, 11), &NEW);
    check_duel(&flash, 7, &[5, 6], &NEW);
}

#[test]
fn a_lone_copy_is_used_whatever_its_checksum() {
    let mut flash = Flash::standard();
    flash.put_leb(6, &copy(0, 12, &NEW), &OLD);
    check_duel(&flash, 6, &[], &OLD);
}

#[test]
fn image_numbers_must_be_equal_or_zero() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    flash.put_ec(5, &EcHeader { image_seq: 0, ..flash.ec(1) });
    assert_eq!(refusal(&flash.attach()), None);
    flash.put_ec(5, &EcHeader { image_seq: 5, ..flash.ec(1) });
    let ubi = flash.attach();
    assert_eq!(refusal(&ubi), Some("image-seq-differs"));
    assert_eq!((holder(&ubi, 0), state(&ubi, 5)), (None, PebState::Foreign));
    assert_eq!(ubi.attachment().image_seq, 77);
    // The majority decides, even if the odd one comes first.
    flash.put_ec(5, &flash.ec(1));
    flash.put_ec(0, &EcHeader { image_seq: 5, ..flash.ec(1) });
    let ubi = flash.attach();
    assert_eq!((ubi.attachment().image_seq, holder(&ubi, 0)), (77, Some(5)));
}

#[test]
fn a_torn_vid_header_frees_the_block_unless_there_is_data() {
    let mut flash = Flash::standard();
    let all = flash.attach().attachment().available_lebs;
    flash.put_leb(5, &dynamic(0, 10), &[]);
    flash.poke(5, VID + 20, &[1]);
    let ubi = flash.attach();
    assert_eq!((state(&ubi, 5), ubi.attachment().available_lebs), (PebState::Erase, all));
    flash.poke(5, DATA, &OLD);
    let ubi = flash.attach();
    assert_eq!((refusal(&ubi), state(&ubi, 5)), (None, PebState::Corrupted));
    assert_eq!(ubi.attachment().available_lebs, all.map(|lebs| lebs - 1));
    // Data that cannot be read cleanly is the trace of an erase.
    let device = flash.device();
    let outcome = ReadOutcome { corrected_bits: 1, uncorrectable: false };
    device.plant_outcome(5 * 16_384 + 4000..5 * 16_384 + 4001, outcome);
    let ubi = Ubi::attach(device, &flash.layout, &AttachOptions::default()).unwrap();
    assert_eq!(state(&ubi, 5), PebState::Erase);
}

#[test]
fn a_damaged_ec_header_loses_only_the_counter() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    flash.poke(5, 9, &[1]);
    let ubi = flash.attach();
    assert_eq!((refusal(&ubi), first_bytes(&ubi, 0)), (None, OLD));
    let info = ubi.attachment().peb(Peb::new(5)).unwrap();
    assert!(info.scrub && info.erase_count.is_none());
    assert_eq!(ubi.attachment().erase_counters.known, 127);
    assert_eq!(ubi.attachment().erase_counters.mean, 1);
    // Both damaged: nothing is left, even if there is data.
    flash.poke(5, VID + 20, &[1]);
    let ubi = flash.attach();
    assert_eq!(state(&ubi, 5), PebState::Erase);
    assert!(has(&ubi, "no-ubi-headers"));
}

#[test]
fn nothing_is_looked_for_behind_an_empty_ec_header() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    flash.poke(5, 0, &[0xFF; 64]);
    let ubi = flash.attach();
    assert_eq!((state(&ubi, 5), holder(&ubi, 0)), (PebState::Erase, None));
    assert_eq!(ubi.attachment().counts.empty, 1);
}

#[test]
fn the_version_of_a_vid_header_is_not_looked_at() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    flash.forge(5, VID, 4, &[2]);
    check_duel(&flash, 5, &[], &OLD);
}

#[test]
fn illegal_headers_are_refused() {
    for (header, field, bytes, code) in [
        (0, 4, &[2][..], "ec-header-illegal"),
        (0, 12, &[0x80, 0, 0, 0], "ec-header-illegal"),
        (0, 20, &[0, 0, 4, 0], "ec-header-illegal"),
        (0, 16, &[0, 0, 2, 0], "ec-header-illegal"),
        (VID, 7, &[1], "vid-header-illegal"),
        (VID, 7, &[3], "vid-header-illegal"),
    ] {
        let mut flash = Flash::standard();
        flash.put_leb(5, &dynamic(0, 10), &OLD);
        flash.forge(5, header, field, bytes);
        let ubi = flash.attach();
        assert_eq!(refusal(&ubi), Some(code), "{header} {field}");
        assert_eq!(first_bytes(&ubi, 0), OLD, "salvaged nevertheless");
    }
    let mut flash = Flash::standard();
    flash.put_leb(5, &internal(Compat::Reject), &OLD);
    flash.forge(5, VID, 7, &[3]);
    let ubi = flash.attach();
    assert_eq!((refusal(&ubi), state(&ubi, 5)), (Some("vid-header-illegal"), PebState::Foreign));
}

#[test]
fn unknown_internal_volumes_say_what_to_do_with_them() {
    for (compat, expected, read_only, code) in [
        (Compat::Delete, PebState::Erase, false, None),
        (Compat::ReadOnly, PebState::Used, true, None),
        (Compat::Preserve, PebState::Alien, false, None),
        (Compat::Reject, PebState::Alien, false, Some("internal-volume-rejects")),
    ] {
        let mut flash = Flash::standard();
        flash.put_leb(5, &internal(compat), &OLD);
        let ubi = flash.attach();
        assert_eq!((state(&ubi, 5), refusal(&ubi)), (expected, code), "{compat:?}");
        assert_eq!(ubi.attachment().linux_read_only, read_only);
        assert!(has(&ubi, code.unwrap_or("internal-volume")));
        assert_eq!(ubi.attachment().volumes.len(), 1);
    }
}

#[test]
fn a_fastmap_is_to_be_erased() {
    let mut flash = Flash::standard();
    let anchor = VidHeader { volume: VolumeId::new(0x7FFF_F000), ..internal(Compat::Delete) };
    flash.put_leb(5, &anchor, &OLD);
    let ubi = flash.attach();
    assert_eq!((refusal(&ubi), state(&ubi, 5)), (None, PebState::Fastmap));
    assert_eq!((ubi.attachment().counts.fastmap, ubi.attachment().erase_order().len()), (1, 1));
    assert_eq!(ubi.attachment().max_sqnum, SqNum::new(2), "dead fastmaps do not count");
}

#[test]
fn either_copy_of_the_table_will_do() {
    for (peb, damage, code) in [
        (0, true, "table-copy-lost"),
        (0, false, "table-copy-lost"),
        (1, true, "table-copy-differs"),
        (1, false, "table-copy-differs"),
    ] {
        let mut flash = Flash::standard();
        if damage {
            flash.poke(peb, DATA + 5, &[9]);
        } else {
            flash.clear(peb);
        }
        let ubi = flash.attach();
        assert_eq!(refusal(&ubi), None, "{peb} {damage}");
        assert!(has(&ubi, code), "{peb} {damage}");
        assert_eq!(ubi.attachment().volumes[0].reserved_lebs, 10);
    }
    // A valid but different copy 1 does not matter.
    let mut flash = Flash::standard();
    flash.put_table(1, 1, 2, &[(0, record("other", VolumeKind::Dynamic, 11))]);
    let ubi = flash.attach();
    assert!(has(&ubi, "table-copy-differs"));
    assert_eq!(ubi.attachment().volumes[0].name.to_string(), "vol");
}

#[test]
fn without_a_table_volumes_are_named_after_their_numbers() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(3, 10), &OLD);
    flash.poke(0, DATA + 5, &[9]);
    flash.poke(1, DATA + 5, &[9]);
    let ubi = flash.attach();
    assert_eq!(refusal(&ubi), Some("volume-table-unusable"));
    let volume = &ubi.attachment().volumes[0];
    assert_eq!((volume.name.to_string(), volume.reserved_lebs), ("volume-0".to_owned(), 4));
    assert!(volume.synthesised);
    assert_eq!(first_bytes(&ubi, 3), OLD);

    let mut flash = Flash::without_table();
    flash.put_leb(5, &dynamic(3, 10), &OLD);
    let ubi = flash.attach();
    assert_eq!(refusal(&ubi), Some("no-layout-volume"));
    assert_eq!(first_bytes(&ubi, 3), OLD);
}

#[test]
fn an_illegal_record_is_refused_though_the_other_copy_is_good() {
    let mut flash = Flash::standard();
    let wrong = VolumeRecord { data_pad: 3, ..record("vol", VolumeKind::Dynamic, 10) };
    flash.put_table(0, 0, 1, &[(0, wrong)]);
    let ubi = flash.attach();
    assert_eq!(refusal(&ubi), Some("volume-table-unusable"));
    assert_eq!(ubi.attachment().volumes[0].data_pad, 0, "taken from the good copy");
    let resizing =
        VolumeRecord { flags: VolumeFlags::AUTORESIZE, ..record("a", VolumeKind::Dynamic, 10) };
    let twice = [
        (0, resizing.clone()),
        (1, VolumeRecord { name: VolumeName::new("b").unwrap(), ..resizing }),
    ];
    assert_eq!(refusal(&Flash::with(&twice).attach()), Some("volume-table-unusable"));
}

#[test]
fn a_third_leb_of_the_layout_volume_is_refused() {
    let mut flash = Flash::standard();
    flash.put_table(5, 2, 9, &[]);
    let ubi = flash.attach();
    assert_eq!(refusal(&ubi), Some("layout-volume-too-large"));
    assert_eq!(ubi.attachment().volumes.len(), 1);
}

#[test]
fn lebs_without_a_record_are_erased() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &VidHeader { volume: VolumeId::new(1), ..dynamic(0, 10) }, &OLD);
    let ubi = flash.attach();
    assert_eq!((refusal(&ubi), state(&ubi, 5)), (None, PebState::Erase));
    assert!(has(&ubi, "volume-without-record"));
    flash.put_leb(5, &VidHeader { volume: VolumeId::new(120), ..dynamic(0, 10) }, &OLD);
    assert_eq!(refusal(&flash.attach()), Some("volume-id-too-large"));
}

#[test]
fn a_volume_larger_than_its_record_is_refused() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(9, 10), &OLD);
    flash.put_leb(6, &dynamic(10, 11), &OLD);
    let ubi = flash.attach();
    assert_eq!(refusal(&ubi), Some("volume-larger-than-record"));
    assert_eq!((holder(&ubi, 9), holder(&ubi, 10)), (Some(5), None));
    assert!(ubi.volume(VolumeId::new(0)).unwrap().is_mapped(Leb::new(10)).is_err());
}

#[test]
fn lebs_of_another_kind_than_the_record_are_refused() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &fixed(0, 1, &OLD), &OLD);
    let ubi = flash.attach();
    assert_eq!(refusal(&ubi), Some("volume-differs"));
    assert_eq!(ubi.attachment().volumes[0].kind, VolumeKind::Static);
    let mut flash = Flash::standard();
    flash.put_leb(5, &VidHeader { data_pad: 512, ..dynamic(0, 10) }, &OLD);
    assert_eq!(refusal(&flash.attach()), Some("volume-differs"));
}

fn static_flash() -> (Flash, Vec<u8>) {
    let mut flash = Flash::with(&[(0, record("vol", VolumeKind::Static, 10))]);
    let full: Vec<u8> = (0..=255).cycle().take(flash.layout.leb_size() as usize).collect();
    flash.put_leb(5, &fixed(0, 3, &full), &full);
    flash.put_leb(6, &fixed(1, 3, &full), &full);
    flash.put_leb(7, &fixed(2, 3, &OLD), &OLD);
    let content = [&full[..], &full, &OLD].concat();
    (flash, content)
}

#[test]
fn a_static_volume_is_read_to_its_last_byte() {
    let (flash, content) = static_flash();
    let ubi = flash.attach();
    assert_eq!(refusal(&ubi), None);
    assert!(!ubi.attachment().findings.has_problems());
    let volume = ubi.volume_named(b"vol").unwrap();
    let mut read = Vec::new();
    volume.reader().read_to_end(&mut read).unwrap();
    assert_eq!(read, content);
    assert!((0..10).all(|leb| volume.check_leb(Leb::new(leb)).is_ok()));
}

#[test]
fn static_volumes_with_missing_or_damaged_lebs_are_corrupted() {
    let (mut flash, content) = static_flash();
    flash.clear(6);
    let ubi = flash.attach();
    assert_eq!((refusal(&ubi), ubi.attachment().volumes[0].corrupted), (None, true));
    assert!(has(&ubi, "static-volume-incomplete"));
    let mut read = Vec::new();
    ubi.volume(VolumeId::new(0)).unwrap().reader().read_to_end(&mut read).unwrap();
    assert_eq!(read.len(), content.len(), "what is there is delivered");

    let (mut flash, _) = static_flash();
    flash.poke(6, DATA + 77, &[0]);
    let ubi = flash.attach();
    assert_eq!((refusal(&ubi), ubi.attachment().volumes[0].corrupted), (None, true));
    assert!(has(&ubi, "static-data-corrupt"));
    let volume = ubi.volume(VolumeId::new(0)).unwrap();
    assert!(volume.check_leb(Leb::new(0)).is_ok());
    assert!(volume.check_leb(Leb::new(1)).is_err());
    let unverified = Ubi::attach(flash.device(), &flash.layout, &AttachOptions::default()).unwrap();
    assert!(!unverified.attachment().volumes[0].corrupted, "only looked at on request");
}

#[test]
fn lebs_of_one_volume_must_agree() {
    let (mut flash, _) = static_flash();
    flash.put_leb(7, &fixed(3, 4, &OLD), &OLD);
    let ubi = flash.attach();
    assert_eq!(refusal(&ubi), Some("leb-disagrees"));
    assert_eq!((state(&ubi, 7), holder(&ubi, 1)), (PebState::Foreign, Some(6)));
    // An outdated LEB that is found after its successor is not compared.
    let (mut flash, _) = static_flash();
    let old = VidHeader { sqnum: SqNum::new(3), ..fixed(2, 4, &vec![1; 15_872]) };
    flash.put_leb(9, &old, &OLD);
    assert_eq!(refusal(&flash.attach()), None);
}

#[test]
fn an_update_marker_is_told() {
    let marked = VolumeRecord { upd_marker: true, ..record("vol", VolumeKind::Dynamic, 10) };
    let ubi = Flash::with(&[(0, marked)]).attach();
    assert_eq!(refusal(&ubi), None);
    assert!(ubi.attachment().volumes[0].upd_marker);
}

#[test]
fn too_many_corrupted_blocks_are_refused() {
    for (count, code) in [(5, None), (6, Some("too-many-corrupted-pebs"))] {
        let mut flash = Flash::standard();
        for peb in 10..10 + count {
            flash.put_leb(peb, &dynamic(peb, 10), &OLD);
            flash.poke(peb, VID + 20, &[1]);
        }
        let ubi = flash.attach();
        assert_eq!((refusal(&ubi), ubi.attachment().counts.corrupted), (code, count));
    }
}

#[test]
fn an_empty_device_is_formatted_and_a_garbage_one_refused() {
    let mut flash = Flash::standard();
    flash.bytes.fill(0xFF);
    let ubi = flash.attach();
    assert!(ubi.attachment().is_empty);
    assert_eq!(refusal(&ubi), None);
    flash.poke(3, 0, &[0; 16_384]);
    let ubi = flash.attach();
    assert!(!ubi.attachment().is_empty);
    assert_eq!(refusal(&ubi), Some("no-layout-volume"));
    // Blocks that cannot be corrected may be damaged empty ones, two of them at most.
    for (count, code) in [(2, None), (3, Some("garbage-device"))] {
        flash.bytes.fill(0xFF);
        let device = flash.device();
        let outcome = ReadOutcome { corrected_bits: 0, uncorrectable: true };
        (0..count).for_each(|peb| device.plant_outcome(peb * 16_384..(peb + 1) * 16_384, outcome));
        let ubi = Ubi::attach(device, &flash.layout, &AttachOptions::default()).unwrap();
        assert_eq!((refusal(&ubi), ubi.attachment().is_empty), (code, code.is_none()));
    }
}

#[test]
fn accounting_is_that_of_a_linux_without_fastmap() {
    let ubi = Flash::standard().attach();
    // 128 less 10 + 2 for the volumes, 1 to move, 1 to change, 3 for bad blocks.
    assert_eq!(ubi.attachment().available_lebs, Some(111));
    let too_large = Flash::with(&[(0, record("vol", VolumeKind::Dynamic, 125))]);
    assert_eq!(refusal(&too_large.attach()), Some("not-enough-pebs"));
    let impossible = Flash::with(&[(0, record("vol", VolumeKind::Dynamic, 129))]);
    assert_eq!(refusal(&impossible.attach()), Some("volume-table-unusable"));
    let image = Ubi::attach(impossible.device(), &impossible.layout, &AttachOptions::default());
    assert_eq!(refusal(&image.unwrap()), None, "an image may be smaller than its flash");
}

#[test]
fn bad_blocks_are_counted_and_not_read() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    let device = flash.device();
    device.mark_bad(Peb::new(5)).unwrap();
    let ubi = Ubi::attach(device, &flash.layout, &AttachOptions::default()).unwrap();
    assert_eq!((state(&ubi, 5), holder(&ubi, 0)), (PebState::Bad, None));
    assert_eq!(ubi.attachment().counts.bad, 1);
}

#[test]
fn bit_flips_ask_for_a_move_or_an_erasure() {
    let mut flash = Flash::standard();
    flash.put_leb(5, &dynamic(0, 10), &OLD);
    let device = flash.device();
    let outcome = ReadOutcome { corrected_bits: 1, uncorrectable: false };
    device.plant_outcome(5 * 16_384..5 * 16_384 + 64, outcome);
    device.plant_outcome(6 * 16_384..6 * 16_384 + 64, outcome);
    let ubi = Ubi::attach(device, &flash.layout, &AttachOptions::default()).unwrap();
    assert!(ubi.attachment().peb(Peb::new(5)).unwrap().scrub);
    assert_eq!(state(&ubi, 6), PebState::Erase);
    assert_eq!(state(&ubi, 7), PebState::Free);
}

#[test]
fn a_read_only_volume_refuses_to_be_changed() {
    let volume = Flash::standard().attach().volume(VolumeId::new(0)).unwrap();
    let leb = Leb::new(0);
    for result in [
        volume.write(leb, 0, &[]),
        volume.change(leb, &[]),
        LebDevice::map(&volume, leb),
        volume.unmap(leb),
    ] {
        assert!(result.unwrap_err().to_string().contains("read-only"));
    }
    let mut buf = [0; 600];
    volume.read(leb, 15_872 - 600, &mut buf).unwrap();
    assert!(volume.read(leb, 15_872 - 599, &mut buf).is_err());
    assert!(volume.read(Leb::new(10), 0, &mut buf).is_err());
    assert!(Flash::standard().attach().volume(VolumeId::new(1)).is_err());
}

#[test]
fn of_blocks_that_disagree_about_their_volume_the_most_frequent_kind_counts() {
    let mut flash = Flash::standard();
    let pad = |leb: u32, data_pad| VidHeader { data_pad, ..dynamic(leb, 10 + u64::from(leb)) };
    // Never two of a kind in a row.
    for (leb, data_pad) in (0..).zip([512, 0, 512, 0, 1024, 0]) {
        flash.put_leb(5 + leb, &pad(leb, data_pad), &OLD);
    }
    let ubi = flash.attach();
    let found: Vec<Option<u32>> = (0..6).map(|leb| holder(&ubi, leb)).collect();
    assert_eq!(found, [None, Some(6), None, Some(8), None, Some(10)]);
}

#[test]
fn bad_blocks_take_from_the_reserve_first() {
    let flash = Flash::standard();
    let available = |bad: u32| {
        let device = flash.device();
        (0..bad).for_each(|number| device.mark_bad(Peb::new(127 - number)).unwrap());
        let options = AttachOptions { whole_device: true, ..AttachOptions::default() };
        let ubi = Ubi::attach(device, &flash.layout, &options).unwrap();
        ubi.attachment().available_lebs.unwrap()
    };
    // Three are reserved for bad ones.
    let all = available(0);
    assert_eq!([1, 3, 4, 9].map(available), [all, all, all - 1, all - 6]);
}
