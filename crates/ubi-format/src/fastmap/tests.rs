//! Fastmaps as bytes and back.

use super::*;
use crate::constants::LAYOUT_VOLUME;
use proptest::prelude::*;

const AT: Location = Location::Whole;

fn counted(peb: u32, ec: u32) -> CountedPeb {
    (Peb::new(peb), EraseCount::new(ec.into()).unwrap())
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes(*bytes[offset..].first_chunk().unwrap())
}

/// Returns the fastmap of a 256-block device in the specification's worked examples.
fn example() -> Fastmap {
    let pebs = |range: std::ops::Range<u32>| range.map(|peb| counted(peb, 1)).collect::<Vec<_>>();
    let pool =
        |max, range: std::ops::Range<u32>| FastmapPool { max, pebs: range.map(Peb::new).collect() };
    let map = |mapped: std::ops::Range<u32>, lebs: usize| {
        let mut map: Vec<_> = mapped.map(|peb| Some(Peb::new(peb))).collect();
        map.resize(lebs, None);
        map
    };
    let volume = |id, kind, used_lebs, last_leb_bytes, map| FastmapVolume {
        id: VolumeId::new(id),
        kind,
        data_pad: 0,
        used_lebs,
        last_leb_bytes,
        map,
    };
    Fastmap {
        blocks: vec![counted(6, 2)],
        bad_pebs: 0,
        user_pool: pool(10, 240..250),
        wl_pool: pool(5, 250..255),
        free: pebs(9..240),
        used: pebs(0..6).into_iter().chain(pebs(7..9)).collect(),
        scrub: Vec::new(),
        erase: vec![counted(255, 3)],
        volumes: vec![
            volume(0, VolumeKind::Dynamic, 10, 129_024, map(2..5, 10)),
            volume(1, VolumeKind::Static, 3, 41_952, map(7..9, 4)),
            volume(LAYOUT_VOLUME.get(), VolumeKind::Dynamic, 2, 2, map(0..2, 2)),
        ],
    }
}

#[test]
fn sizes_of_the_specification() {
    let blocks = |pebs, leb: u32| fastmap_size(pebs, leb).unwrap() / leb as usize;
    let found = [(256, 129_024), (1024, 15_872), (2048, 15_872), (65_536, 253_952)];
    assert_eq!(found.map(|(pebs, leb)| blocks(pebs, leb)), [1, 2, 3, 4]);
    assert_eq!(fastmap_size(u32::MAX, 15_872), None);
    let pools = [64, 256, 1024, 4096, 5200, 1 << 20].map(pool_sizes);
    let expected = [(8, 4), (10, 5), (50, 25), (200, 100), (256, 128), (256, 128)];
    assert_eq!(pools, expected);
}

#[test]
fn offsets_of_the_specification() {
    let bytes = example().encode(129_024).unwrap();
    assert_eq!((word(&bytes, 0), word(&bytes, 12), word(&bytes, 16)), (0x7B11_D69F, 1, 6));
    let header: Vec<u32> = (0..7).map(|n| word(&bytes, 312 + 4 * n)).collect();
    assert_eq!(header, [0xD4B8_2EF7, 231, 8, 0, 0, 1, 3]);
    assert_eq!((word(&bytes, 348), word(&bytes, 1396)), (0x000A_000A, 0x0005_0005));
    let volumes = [4360, 4440, 4496].map(|at| (word(&bytes, at), word(&bytes, at + 4)));
    let magic = 0xFA37_0ED1;
    assert_eq!(volumes, [(magic, 0), (magic, 1), (magic, 0x7FFF_EFFF)]);
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    assert_eq!(used + 1, 4544);
    assert_eq!(Fastmap::decode(&bytes, AT).unwrap(), example());
}

#[test]
fn damage_is_named() {
    let bytes = example().encode(129_024).unwrap();
    let with = |offset: usize, value: u32| {
        let mut bytes = bytes.clone();
        bytes[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
        bytes[CRC_OFFSET..CRC_OFFSET + 4].fill(0);
        let crc = crc32(&bytes).to_be_bytes();
        bytes[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
        Fastmap::decode(&bytes, AT).unwrap_err().to_string()
    };
    for (offset, value, expected) in [
        (0, 1, "magic"),
        (4, 2 << 24, "version"),
        (12, 0, "number of blocks"),
        (12, 33, "number of blocks"),
        (144, u32::MAX, "erase counter"),
        (312, 1, "magic"),
        (316, u32::MAX, "erase counter"),
        (348, 257 << 16, "pool size"),
        (348, 257, "largest pool size"),
        (2444, 0x8000_0000, "erase counter"),
        (4360 + 8, 1 << 24, "volume type"),
        (4392 + 4, u32::MAX, "bytes"),
    ] {
        let error = with(offset, value);
        assert!(error.contains(expected), "{offset}: {error}");
    }
    let mut torn = bytes.clone();
    torn[5000] = 1;
    assert!(matches!(Fastmap::decode(&torn, AT), Err(FormatError::Crc { .. })));
    assert!(Fastmap::decode(&bytes[..11], AT).is_err());
    assert_eq!(example().encode(4544), None, "the position must stay below the size");
    let mut crowded = example();
    crowded.user_pool.pebs = vec![Peb::new(1); 257];
    assert_eq!(crowded.encode(129_024), None);
}

fn any_counted(most: usize) -> impl Strategy<Value = Vec<CountedPeb>> {
    prop::collection::vec((any::<u32>(), 0..=0x7FFF_FFFF_u32), 0..most)
        .prop_map(|list| list.into_iter().map(|(peb, ec)| counted(peb, ec)).collect())
}

fn any_pool() -> impl Strategy<Value = FastmapPool> {
    let pebs = prop::collection::vec(any::<u32>().prop_map(Peb::new), 0..=MAX_POOL);
    (0..=256_u16, pebs).prop_map(|(max, pebs)| FastmapPool { max, pebs })
}

fn any_volume() -> impl Strategy<Value = FastmapVolume> {
    let peb = prop::option::of((0..UNMAPPED).prop_map(Peb::new));
    let map = prop::collection::vec(peb, 0..20);
    (any::<u32>(), any::<bool>(), any::<[u32; 3]>(), map).prop_map(|(id, dynamic, words, map)| {
        FastmapVolume {
            id: VolumeId::new(id),
            kind: if dynamic { VolumeKind::Dynamic } else { VolumeKind::Static },
            data_pad: words[0],
            used_lebs: words[1],
            last_leb_bytes: words[2],
            map,
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        blocks in any_counted(33).prop_filter("one at least", |blocks| !blocks.is_empty()),
        bad_pebs in any::<u32>(),
        pools in [any_pool(), any_pool()],
        lists in [any_counted(40), any_counted(40), any_counted(9), any_counted(9)],
        volumes in prop::collection::vec(any_volume(), 0..5),
    ) {
        let [user_pool, wl_pool] = pools;
        let [free, used, scrub, erase] = lists;
        let map = Fastmap {
            blocks, bad_pebs, user_pool, wl_pool, free, used, scrub, erase, volumes,
        };
        let bytes = map.encode(15_872).unwrap();
        prop_assert_eq!(Fastmap::decode(&bytes, AT).unwrap(), map);
    }

    #[test]
    fn garbage_is_refused_or_read(mut bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        let _ = Fastmap::decode(&bytes, AT);
        let start = example().encode(6000).unwrap();
        let keep = bytes.len().min(2440);
        bytes[..keep].copy_from_slice(&start[..keep]);
        if bytes.len() > CRC_OFFSET + 4 {
            bytes[CRC_OFFSET..CRC_OFFSET + 4].fill(0);
            let crc = crc32(&bytes).to_be_bytes();
            bytes[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
        }
        let _ = Fastmap::decode(&bytes, AT);
    }
}
