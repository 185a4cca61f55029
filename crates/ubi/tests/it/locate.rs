//! Distinguishing the images in one file.

use eraseblock_base::{Leb, VolumeId};
use eraseblock_ubi::locate::{Extent, Header, Located, locate, only_image};
use eraseblock_ubi_format::constants::LAYOUT_VOLUME;
use eraseblock_ubi_format::encode::{encode_ec, encode_vid};
use eraseblock_ubi_format::*;
use proptest::prelude::*;

const PEB: usize = 16_384;

/// An eraseblock: the number of its image, and volume, LEB and sequence number, if it holds one.
type Block = (u32, Option<(VolumeId, u32, u64)>);

fn block((number, content): Block) -> Vec<u8> {
    let mut bytes = vec![0xFF; PEB];
    let ec = EcHeader {
        erase_count: EraseCount::new(1).unwrap(),
        vid_hdr_offset: 512,
        data_offset: 1024,
        image_seq: number,
        end_mark: false,
    };
    bytes[..64].copy_from_slice(&encode_ec(&ec));
    if let Some((volume, leb, sqnum)) = content {
        let vid = VidHeader {
            kind: VolumeKind::Dynamic,
            copy_flag: false,
            compat: if volume == LAYOUT_VOLUME { Compat::Reject } else { Compat::None },
            volume,
            leb: Leb::new(leb),
            data_size: 0,
            used_lebs: 0,
            data_pad: 0,
            data_crc: 0,
            sqnum: SqNum::new(sqnum),
        };
        bytes[512..576].copy_from_slice(&encode_vid(&vid));
        bytes[1024..].fill(0x5A);
    }
    bytes
}

/// Both LEBs of the volume table, then `lebs` of a volume; sequence numbers from `sqnum` on, if it
/// is not 0.
fn image(number: u32, lebs: u32, sqnum: u64) -> Vec<Block> {
    let table = (0..2).map(|leb| (LAYOUT_VOLUME, leb));
    let data = (0..lebs).map(|leb| (VolumeId::new(0), leb));
    let count = (0..).map(|index| if sqnum == 0 { 0 } else { sqnum + index });
    table
        .chain(data)
        .zip(count)
        .map(|((volume, leb), sqnum)| (number, Some((volume, leb, sqnum))))
        .collect()
}

fn bytes(blocks: &[Block]) -> Vec<u8> {
    blocks.iter().flat_map(|one| block(*one)).collect()
}

fn find(bytes: &[u8]) -> Located {
    let bytes = bytes.to_vec();
    let mut headers = Vec::new();
    for (at, window) in bytes.windows(64).enumerate() {
        if window.starts_with(b"UBI#") {
            headers.extend(Header::decode(&bytes, window, at as u64).unwrap());
        }
    }
    locate(&bytes, &headers).unwrap()
}

/// Returns the first block of each image and the one after its last.
fn blocks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let block = |at: u64| usize::try_from(at).unwrap().div_ceil(PEB);
    find(bytes).images.iter().map(|one| (block(one.start), block(one.end))).collect()
}

#[test]
fn numbers_tell_images_apart() {
    let both = [image(7, 5, 0), image(9, 3, 0)].concat();
    assert_eq!(blocks(&bytes(&both)), [(0, 7), (7, 12)]);
    assert_eq!(only_image(&bytes(&both)).unwrap(), None);
    let one = only_image(&bytes(&image(7, 5, 0))).unwrap().unwrap();
    assert_eq!((one.peb_size as usize, one.image_seq, one.has_table), (PEB, 7, true));
}

#[test]
fn repeated_blocks_tell_images_of_one_number_apart() {
    for (a, b) in [(5, 5), (5, 3), (3, 9), (1, 1)] {
        let first = 2 + a as usize;
        let both = [image(7, a, 0), image(7, b, 0)].concat();
        assert_eq!(blocks(&bytes(&both)), [(0, first), (first, first + 2 + b as usize)]);
        assert_eq!(only_image(&bytes(&both)).unwrap(), None);
    }
    let three = [image(7, 2, 0), image(7, 2, 0), image(7, 2, 0)].concat();
    assert_eq!(blocks(&bytes(&three)), [(0, 4), (4, 8), (8, 12)]);
}

/// Blocks are in any order in images that were in use: the second one begins at a round place.
#[test]
fn images_in_use_meet_at_a_round_place() {
    let mut a = image(7, 14, 100);
    a.rotate_left(5);
    let mut b = image(7, 14, 110);
    b.rotate_left(9);
    assert_eq!(blocks(&bytes(&[a, b].concat())), [(0, 16), (16, 32)]);
}

#[test]
fn strays_belong_to_the_image_they_are_in() {
    let mut mixed = image(7, 8, 0);
    mixed.insert(4, (9, Some((VolumeId::new(3), 0, 0))));
    mixed.push((9, Some((VolumeId::new(3), 1, 0))));
    assert_eq!(blocks(&bytes(&mixed)), [(0, 12)]);
    // Before it, without a volume table of their own.
    let mut before = vec![(9, Some((VolumeId::new(3), 0, 0))), (9, None)];
    before.extend(image(7, 8, 0));
    assert_eq!(blocks(&bytes(&before)).len(), 1);
    // The same block twice is damage, not a second image.
    let mut twice = image(7, 8, 0);
    twice.push(twice[5]);
    assert_eq!(blocks(&bytes(&twice)), [(0, 11)]);
}

#[test]
fn grids_and_gaps() {
    let (a, b) = (bytes(&image(7, 5, 0)), bytes(&image(7, 3, 0)));
    for gap in [1, 64, 1000, PEB, PEB + 4096, 5 * PEB] {
        let file = [&a[..], &vec![0x33; gap], &b].concat();
        let found = find(&file).images;
        let start = (a.len() + gap) as u64;
        assert_eq!((found[0].start, found[0].end), (0, a.len() as u64), "{gap}");
        assert_eq!((found[1].start, found[1].end), (start, file.len() as u64), "{gap}");
    }
    // A block that lost its first header belongs to the image.
    let mut torn = bytes(&image(7, 5, 0));
    torn[..64].fill(0);
    let last = torn.len() - PEB;
    torn[last..last + 64].fill(0);
    torn.extend(vec![0xFF; 2 * PEB]);
    assert_eq!(blocks(&torn), [(0, 9)]);
}

/// Free blocks before the first one with content belong to the image.
#[test]
fn an_image_may_begin_with_free_blocks() {
    let mut free = vec![(7, None); 3];
    free.extend(image(7, 5, 100));
    let file = [&vec![0x33; 1000][..], &bytes(&free)].concat();
    let found = find(&file).images;
    assert_eq!((found.len(), found[0].start, found[0].end), (1, 1000, file.len() as u64));
}

/// Headers planted at any distance, none of them with a block: the image after them is found.
#[test]
fn lone_headers_are_no_image_and_work_is_bounded() {
    assert_eq!(find(&block((7, None))).images, []);
    let mut file = Vec::new();
    for index in 0..2000_usize {
        file.extend(&block((7, None))[..64]);
        file.extend(vec![0x55; 4096 + index * 7919 % 1009]);
    }
    assert_eq!(find(&file), Located::default());
    let start = file.len() as u64;
    file.extend(bytes(&image(7, 5, 0)));
    let located = find(&file);
    assert_eq!((located.images.len(), located.images[0].start), (1, start));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn images_are_ascending_and_inside(
        places in proptest::collection::vec((0..400_000_usize, 0..3_u32, 0..4_u32, 0..3_u64), 0..60)
    ) {
        let mut file = vec![0x11; 400_000];
        for (at, number, leb, sqnum) in places {
            let volume = if leb == 0 { LAYOUT_VOLUME } else { VolumeId::new(0) };
            let bytes = block((number, Some((volume, leb, sqnum))));
            let len = bytes.len().min(file.len() - at);
            file[at..at + len].copy_from_slice(&bytes[..len]);
        }
        let images = find(&file).images;
        let inside = |one: &Extent| one.start < one.end && one.end <= file.len() as u64;
        prop_assert!(images.iter().all(inside));
        prop_assert!(images.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
}
