//! Finding UBI in images of unknown origin.

use eraseblock_base::{Geometry, Leb, MediumKind, VolumeId};
use eraseblock_mtd::MemoryMtd;
use eraseblock_ubi::{Hints, detect, detect_layout};
use eraseblock_ubi_format::encode::{encode_ec, encode_vid};
use eraseblock_ubi_format::*;

fn image(layout: &HeaderLayout, count: u32) -> Vec<u8> {
    let size = layout.peb_size() as usize;
    let mut bytes = vec![0xFF; size * count as usize];
    for (leb, block) in (0..).zip(bytes.chunks_exact_mut(size)) {
        let ec = EcHeader {
            erase_count: EraseCount::new(3).unwrap(),
            vid_hdr_offset: layout.vid_hdr_offset(),
            data_offset: layout.data_offset(),
            image_seq: 9,
            end_mark: false,
        };
        let vid = VidHeader {
            kind: VolumeKind::Dynamic,
            copy_flag: false,
            compat: Compat::None,
            volume: VolumeId::new(0),
            leb: Leb::new(leb),
            data_size: 0,
            used_lebs: 0,
            data_pad: 0,
            data_crc: 0,
            sqnum: SqNum::new(0),
        };
        block[..64].copy_from_slice(&encode_ec(&ec));
        let offset = layout.vid_hdr_offset() as usize;
        block[offset..offset + 64].copy_from_slice(&encode_vid(&vid));
        block[layout.data_offset() as usize..].fill(0x5A);
    }
    bytes
}

fn usual() -> HeaderLayout {
    HeaderLayout::new(131_072, 2048, 512, None).unwrap()
}

fn found(bytes: &[u8]) -> (u64, HeaderLayout) {
    let detected = detect(&bytes.to_vec(), &Hints::default()).unwrap().expect("there is UBI");
    assert!(detected.peb_size_is_certain);
    assert_eq!(detected.image_seq, 9);
    (detected.start, detected.layout)
}

#[test]
fn all_usual_layouts_are_found() {
    let k = 1024;
    for (peb, min_io, unit, vid) in [
        (4 * k, 1, 1, None),
        (8448, 64, 64, None),
        (16 * k, 512, 256, None),
        (16 * k, 512, 512, None),
        (64 * k, 1, 1, None),
        (126 * k, 2048, 2048, None),
        (128 * k, 2048, 512, None),
        (128 * k, 2048, 2048, None),
        (128 * k, 2048, 512, Some(1984)),
        (256 * k, 4096, 1024, None),
        (512 * k, 4096, 4096, None),
        (4096 * k, 16_384, 16_384, None),
    ] {
        let layout = HeaderLayout::new(peb, min_io, unit, vid).unwrap();
        let (start, found) = found(&image(&layout, 5));
        assert_eq!((start, found.peb_size()), (0, peb));
        assert_eq!(found.vid_hdr_offset(), layout.vid_hdr_offset());
        assert_eq!(found.data_offset(), layout.data_offset());
        if min_io != 64 {
            assert_eq!((found.min_io(), found.header_unit()), (min_io, unit), "{layout:?}");
        }
    }
}

#[test]
fn long_images_are_judged_like_short_ones() {
    for peb_size in [4096, 16_384] {
        let layout = HeaderLayout::new(peb_size, 512, 512, None).unwrap();
        assert_eq!(found(&image(&layout, 2000)), (0, layout));
    }
}

#[test]
fn damaged_and_erased_blocks_in_front_belong_to_the_image() {
    for (blocks, byte) in [(1, 0), (2, 0x5A), (1, 0xFF), (7, 0xFF)] {
        let mut bytes = image(&usual(), 12);
        bytes[..blocks * 131_072].fill(byte);
        assert_eq!(found(&bytes), (0, usual()), "{blocks} {byte}");
    }
}

#[test]
fn damaged_blocks_in_between_change_nothing() {
    let mut bytes = image(&usual(), 12);
    for block in [1, 3, 4, 5, 9] {
        bytes[block * 131_072..block * 131_072 + 64].fill(0);
    }
    assert_eq!(found(&bytes), (0, usual()));
}

#[test]
fn what_follows_the_image_does_not_matter() {
    let mut bytes = image(&usual(), 6);
    bytes.extend(vec![0xFF; 40 * 131_072 + 77]);
    assert_eq!(found(&bytes), (0, usual()));
    let mut bytes = image(&usual(), 6);
    bytes.extend(vec![0x11; 200_000]);
    assert_eq!(found(&bytes), (0, usual()));
}

#[test]
fn an_embedded_image_is_found_where_it_starts() {
    for front in [4096_usize, 5 * 131_072, 131_072 + 8192] {
        let mut bytes = vec![0x33; front];
        bytes.extend(image(&usual(), 6));
        assert_eq!(found(&bytes), (front as u64, usual()));
    }
}

#[test]
fn an_image_inside_a_volume_does_not_mislead() {
    let inner = image(&HeaderLayout::new(16_384, 512, 512, None).unwrap(), 50);
    let mut bytes = image(&usual(), 12);
    for (block, part) in bytes.chunks_exact_mut(131_072).zip(inner.chunks(129_024)) {
        block[2048..2048 + part.len()].copy_from_slice(part);
    }
    assert_eq!(found(&bytes), (0, usual()));
}

#[test]
fn one_wrong_header_is_outvoted() {
    let mut bytes = image(&usual(), 6);
    let odd = image(&HeaderLayout::new(131_072, 2048, 2048, None).unwrap(), 1);
    bytes[..131_072].copy_from_slice(&odd);
    assert_eq!(found(&bytes), (0, usual()));
}

#[test]
fn a_single_block_and_a_sparse_image() {
    let detected = detect(&image(&usual(), 1), &Hints::default()).unwrap().unwrap();
    assert_eq!((detected.layout, detected.peb_size_is_certain), (usual(), false));
    let mut bytes = image(&usual(), 40);
    for block in (0..40).filter(|block| ![3, 19, 30].contains(block)) {
        bytes[block * 131_072..(block + 1) * 131_072].fill(0xFF);
    }
    let detected = detect(&bytes, &Hints::default()).unwrap().unwrap();
    assert_eq!((detected.start, detected.layout), (0, usual()));
}

#[test]
fn hints_win() {
    let bytes = image(&usual(), 6);
    let hints = Hints {
        start: Some(131_072),
        min_io: Some(512),
        subpage: Some(256),
        vid_hdr_offset: Some(1984),
        ..Hints::default()
    };
    let detected = detect(&bytes, &hints).unwrap().unwrap();
    assert_eq!((detected.start, detected.peb_count), (131_072, 5));
    assert_eq!((detected.layout.min_io(), detected.layout.vid_hdr_offset()), (512, 1984));
    assert_eq!(detected.layout.data_offset(), 2048);
    let impossible = Hints { min_io: Some(3), ..Hints::default() };
    assert!(detect(&bytes, &impossible).is_err());
}

#[test]
fn a_device_is_asked_at_its_own_blocks_only() {
    let layout = usual();
    let geometry = Geometry::new(MediumKind::Nand, 131_072, 4, 2048, 512, 64).unwrap();
    let mut bytes = image(&layout, 4);
    bytes[..64].fill(0);
    let inner = image(&HeaderLayout::new(131_072, 2048, 2048, None).unwrap(), 1);
    bytes[4096..4160].copy_from_slice(&inner[..64]);
    let device = MemoryMtd::with_bytes(geometry, bytes);
    assert_eq!(detect_layout(&device).unwrap(), Some(layout));
    assert_eq!(detect_layout(&MemoryMtd::new(geometry)).unwrap(), None);
}

#[test]
fn what_is_not_ubi_is_not_found() {
    for bytes in [vec![], vec![0xFF; 70], vec![0; 300_000], b"UBI#".repeat(10_000)] {
        assert_eq!(detect(&bytes, &Hints::default()).unwrap(), None);
    }
}
