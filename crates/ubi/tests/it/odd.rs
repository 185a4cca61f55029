//! Devices that no single writer makes: blocks of other images, lost tables, large fastmaps.

use crate::fastmap::{WITH, create, flash, holders, layout, open, prepared, vid};
use eraseblock_base::{Leb, Location, Peb};
use eraseblock_mtd::{LebDevice, MemoryMtd, Mtd};
use eraseblock_ubi::{AttachOptions, Ubi, UbiError, attach};
use eraseblock_ubi_format::constants::{FASTMAP_ANCHOR_VOLUME, FASTMAP_DATA_VOLUME, LAYOUT_VOLUME};
use eraseblock_ubi_format::{EcHeader, EraseCount, Fastmap, VolumeKind, encode};

const PEB: usize = 16_384;

/// Returns the bytes of a block.
fn block(flash: &MemoryMtd, peb: u32) -> Vec<u8> {
    let mut bytes = vec![0; PEB];
    flash.read(u64::from(peb) * PEB as u64, &mut bytes).unwrap();
    bytes
}

/// Writes a block anew.
fn renew(flash: &MemoryMtd, peb: u32, bytes: &[u8]) {
    flash.erase(Peb::new(peb)).unwrap();
    for (page, data) in (0..).zip(bytes.chunks(512)) {
        if data.iter().any(|byte| *byte != 0xFF) {
            flash.program(u64::from(peb) * PEB as u64 + page * 512, data).unwrap();
        }
    }
}

/// Makes a block one of another image.
fn of_image(flash: &MemoryMtd, peb: u32, image_seq: u32) {
    let mut bytes = block(flash, peb);
    let header = EcHeader {
        erase_count: EraseCount::new(1).unwrap(),
        vid_hdr_offset: 512,
        data_offset: 1024,
        image_seq,
        end_mark: false,
    };
    bytes[..64].copy_from_slice(&encode::encode_ec(&header));
    renew(flash, peb, &bytes);
}

/// Blocks of older images may be left where an image was flashed without erasing everything: the
/// image of most blocks counts, wherever the others lie.
#[test]
fn the_image_of_most_blocks_counts() {
    let (flash, ..) = prepared();
    for (peb, image) in [(0, 5), (1, 7), (2, 5), (3, 5), (9, 7), (199, 9)] {
        of_image(&flash, peb, image);
    }
    let found = attach(&*flash, &layout(), &AttachOptions::default()).unwrap();
    assert_eq!(found.image_seq, 1);
    let foreign = found.findings.iter().filter(|it| it.code == "image-seq-differs").count();
    assert_eq!(foreign, 6, "{:?}", found.findings);
}

/// A free block of a fastmap's pool that belongs to another image shows that the chip was written
/// by somebody else since: Linux scans then. A block without a number fits every image.
#[test]
fn a_pool_with_a_block_of_another_image_is_not_trusted() {
    let (flash, dynamic, _) = prepared();
    let free: Vec<u32> = (0..200).filter(|peb| vid(&flash, *peb).is_none()).collect();
    let scans = |image_seq| {
        let scans = free.iter().filter(|peb| {
            let before = block(&flash, **peb);
            of_image(&flash, **peb, image_seq);
            let options = AttachOptions { fastmap: true, ..AttachOptions::default() };
            let attachment = attach(&*flash, &layout(), &options).unwrap();
            assert_eq!(attachment.volume(dynamic).unwrap().mapped_lebs, 10);
            renew(&flash, **peb, &before);
            !attachment.is_by_fastmap()
        });
        scans.count()
    };
    assert!((1..free.len()).contains(&scans(6)), "blocks of pools are read, others are not");
    assert_eq!(scans(0), 0);
}

/// Without a table, a static volume still says how many LEBs and bytes it holds.
#[test]
fn a_static_volume_without_a_table_has_the_size_of_its_content() {
    let (flash, dynamic, fixed) = prepared();
    for peb in holders(&flash, LAYOUT_VOLUME) {
        flash.erase(Peb::new(peb)).unwrap();
    }
    let found = attach(&*flash, &layout(), &AttachOptions::default()).unwrap();
    let volume = found.volume(fixed).unwrap();
    assert!(volume.synthesised && !volume.corrupted, "{volume:?}");
    assert_eq!((volume.used_lebs, volume.used_bytes), (3, 40_000));
    assert_eq!(found.volume(dynamic).unwrap().mapped_lebs, 10);
}

#[test]
fn a_volume_that_is_only_read_says_which_lebs_are_mapped() {
    let (flash, dynamic, _) = prepared();
    let ubi = Ubi::attach(flash, &layout(), &AttachOptions::default()).unwrap();
    let volume = ubi.volume(dynamic).unwrap();
    let mapped: Vec<bool> =
        [0, 9, 10, 19].map(|leb| volume.is_mapped(Leb::new(leb)).unwrap()).into();
    assert_eq!(mapped, [true, true, false, false]);
    assert!(volume.is_mapped(Leb::new(20)).is_err());
}

/// Linux puts these two numbers, which mean nothing, into the entry of the volume table.
#[test]
fn a_fastmap_lists_the_volume_table_as_linux_does() {
    let (flash, ..) = prepared();
    let anchor = holders(&flash, FASTMAP_ANCHOR_VOLUME)[0];
    let bytes = block(&flash, anchor);
    let map = Fastmap::decode(&bytes[1024..], Location::peb(Peb::new(anchor))).unwrap();
    let table = map.volumes.last().unwrap();
    assert_eq!((table.id, table.used_lebs, table.last_leb_bytes), (LAYOUT_VOLUME, 2, 2));
}

/// 2,000 blocks need a fastmap of two: each of them is written, found again, and kept free for the
/// next one.
#[test]
fn a_large_device_has_a_fastmap_of_several_blocks() {
    let flash = flash(2000);
    let (ubi, _) = open(&flash, &WITH);
    let id = create(&ubi, "data", VolumeKind::Dynamic, 10);
    let volume = ubi.volume(id).unwrap();
    (0..10).for_each(|leb| volume.change(Leb::new(leb), &[7; 512]).unwrap());
    drop(volume);
    ubi.detach().unwrap();
    let (ubi, attachment) = open(&flash, &WITH);
    assert!(attachment.is_by_fastmap(), "{:?}", attachment.findings);
    let parts = (0..2000)
        .filter(|peb| vid(&flash, *peb).is_some_and(|header| header.volume == FASTMAP_DATA_VOLUME));
    assert!(parts.count() > 0);
    let blocks = ubi.health().lists.fastmap;
    assert!(blocks > 1, "{blocks} blocks");
    let small = prepared().0;
    let (small, _) = open(&small, &WITH);
    assert_eq!(small.health().lists.fastmap, 1);
    ubi.check_invariants().unwrap();
}

/// An update that broke off leaves nothing that counts as content.
#[test]
fn a_static_volume_whose_update_broke_off_holds_nothing() {
    let (flash, _, fixed) = prepared();
    let (ubi, _) = open(&flash, &WITH);
    let broken = ubi.update_volume(fixed, 60_000, &mut &vec![1; 20_000][..]);
    assert!(matches!(broken, Err(UbiError::Content(_))), "{broken:?}");
    let info = ubi.volume(fixed).unwrap().info().unwrap();
    assert!(info.upd_marker);
    assert_eq!(info.used_lebs, 0, "{info:?}");
}

/// What a monitor sees: one fastmap more for each that is written.
#[test]
fn fastmaps_are_counted_one_by_one() {
    let (flash, dynamic, _) = prepared();
    let (ubi, _) = open(&flash, &WITH);
    let volume = ubi.volume(dynamic).unwrap();
    let (mut known, mut seen) = (holders(&flash, FASTMAP_ANCHOR_VOLUME), 0);
    let before = ubi.health().counters.fastmaps;
    for round in 0..200_u8 {
        volume.change(Leb::new(u32::from(round % 10)), &[round; 512]).unwrap();
        let anchors = holders(&flash, FASTMAP_ANCHOR_VOLUME);
        let newest = anchors.iter().max_by_key(|peb| vid(&flash, **peb).unwrap().sqnum).copied();
        let sqnum = newest.and_then(|peb| vid(&flash, peb)).map(|header| header.sqnum);
        let is_new = known != [newest.unwrap()] || sqnum.is_none();
        seen += u64::from(is_new);
        known = vec![newest.unwrap()];
    }
    let counted = ubi.health().counters.fastmaps - before;
    assert!(seen > 0 && counted >= seen && counted < 2 * seen.max(1), "{counted} of {seen}");
}
