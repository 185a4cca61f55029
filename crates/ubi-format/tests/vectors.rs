//! The worked examples of the specification (ubi 23) and encode/decode as inverses.
#![allow(clippy::unwrap_used)] // an integration test is test code throughout

use eraseblock_base::crc::crc32;
use eraseblock_base::{Leb, Location, VolumeId};
use eraseblock_ubi_format::constants::{LAYOUT_VOLUME, RECORD_SIZE};
use eraseblock_ubi_format::decode::{RecordRules, decode_ec, decode_record, decode_vid};
use eraseblock_ubi_format::encode::{encode_ec, encode_record, encode_vid};
use eraseblock_ubi_format::table::{TableVerdict, encode_table, read_table};
use eraseblock_ubi_format::*;
use proptest::prelude::*;

const AT: Location = Location::Whole;

fn layout() -> HeaderLayout {
    HeaderLayout::new(131_072, 2048, 512, None).unwrap()
}

fn rules() -> RecordRules {
    RecordRules { leb_size: 129_024, min_io: 2048, good_pebs: 128 }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn header(lines: [&str; 4]) -> Vec<u8> {
    let bytes: Vec<u8> = lines.iter().flat_map(|line| hex(line)).collect();
    assert_eq!(bytes.len(), 64);
    bytes
}

const ZEROS: &str = "00000000000000000000000000000000";

#[test]
fn ec_header() {
    let bytes = header([
        "55424923010000000000000000000007",
        "00000200000008001234567800000000",
        ZEROS,
        "000000000000000000000000bea5d635",
    ]);
    let expected = EcHeader {
        erase_count: EraseCount::new(7).unwrap(),
        vid_hdr_offset: 512,
        data_offset: 2048,
        image_seq: 305_419_896,
        end_mark: false,
    };
    assert_eq!(decode_ec(&bytes, AT), Ok(expected));
    assert_eq!(encode_ec(&expected).as_slice(), bytes);
}

fn layout_vid(leb: u32) -> VidHeader {
    VidHeader {
        kind: VolumeKind::Dynamic,
        copy_flag: false,
        compat: Compat::Reject,
        volume: LAYOUT_VOLUME,
        leb: Leb::new(leb),
        data_size: 0,
        used_lebs: 0,
        data_pad: 0,
        data_crc: 0,
        sqnum: SqNum::new(0),
    }
}

#[test]
fn vid_header_of_the_layout_volume() {
    let bytes = header([
        "55424921010100057fffefff00000000",
        ZEROS,
        ZEROS,
        "000000000000000000000000b82564a8",
    ]);
    assert_eq!(decode_vid(&bytes, &layout(), AT), Ok(layout_vid(0)));
    assert_eq!(encode_vid(&layout_vid(0)).as_slice(), bytes);
    assert_eq!(encode_vid(&layout_vid(1))[60..], hex("1bb34ce4"));
}

#[test]
fn vid_header_of_a_static_leb() {
    let data: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let bytes = header([
        "55424921010200000000000100000000",
        "00000000000003e80000000100000800",
        "8b1c04be000000000000000000000000",
        "00000000000000000000000035b01021",
    ]);
    let expected = VidHeader {
        kind: VolumeKind::Static,
        copy_flag: false,
        compat: Compat::None,
        volume: VolumeId::new(1),
        leb: Leb::new(0),
        data_size: 1000,
        used_lebs: 1,
        data_pad: 2048,
        data_crc: crc32(&data),
        sqnum: SqNum::new(0),
    };
    assert_eq!(decode_vid(&bytes, &layout(), AT), Ok(expected));
    assert_eq!(encode_vid(&expected).as_slice(), bytes);
}

fn rootfs() -> VolumeRecord {
    VolumeRecord {
        reserved_lebs: 9,
        alignment: 1,
        data_pad: 0,
        kind: VolumeKind::Dynamic,
        upd_marker: false,
        name: VolumeName::new("rootfs").unwrap(),
        flags: VolumeFlags::AUTORESIZE,
    }
}

fn kernel() -> VolumeRecord {
    VolumeRecord {
        reserved_lebs: 3,
        alignment: 4096,
        data_pad: 2048,
        kind: VolumeKind::Static,
        upd_marker: false,
        name: VolumeName::new("kernel").unwrap(),
        flags: VolumeFlags::default(),
    }
}

#[test]
fn volume_records() {
    let bytes = encode_record(Some(&rootfs()));
    assert_eq!(bytes[..22], hex("00000009000000010000000001000006726f6f746673"));
    assert_eq!(bytes[144], 1);
    assert_eq!(bytes[168..], hex("ff77b951"));
    assert_eq!(decode_record(&bytes, &rules(), AT), Ok(Some(rootfs())));
    let bytes = encode_record(Some(&kernel()));
    assert_eq!(bytes[..22], hex("000000030000100000000800020000066b65726e656c"));
    assert_eq!(bytes[168..], hex("3ef93351"));
    let empty = encode_record(None);
    assert_eq!(empty[168..], hex("f116c36b"));
    assert_eq!(decode_record(&empty, &rules(), AT), Ok(None));
}

fn table() -> Vec<(VolumeId, VolumeRecord)> {
    vec![(VolumeId::new(0), rootfs()), (VolumeId::new(1), kernel())]
}

fn verdict(records: &[(VolumeId, VolumeRecord)]) -> TableVerdict {
    read_table(&encode_table(&layout(), records), 128, &rules(), |_| AT).verdict
}

#[test]
fn a_table_round_trips_and_its_rules_are_checked() {
    let bytes = encode_table(&layout(), &table());
    assert_eq!(bytes.len(), 22_016);
    let reading = read_table(&bytes, 128, &rules(), |_| AT);
    assert_eq!((reading.records, reading.verdict), (table(), TableVerdict::Good));

    let mut twins = table();
    twins[1].1.name = twins[0].1.name.clone();
    assert_eq!(verdict(&twins), TableVerdict::Illegal);
    let mut resizing = table();
    resizing[1].1.flags = VolumeFlags::AUTORESIZE;
    assert_eq!(verdict(&resizing), TableVerdict::Illegal);
    let mut large = table();
    large[0].1.reserved_lebs = 129;
    assert_eq!(verdict(&large), TableVerdict::Illegal);
}

#[test]
fn the_first_problem_of_a_table_decides() {
    let mut table = table();
    table[1].1.data_pad = 7;
    let mut bytes = encode_table(&layout(), &table);
    bytes[0] ^= 1;
    let reading = read_table(&bytes, 128, &rules(), |offset| Location::Byte(offset.into()));
    assert_eq!(reading.verdict, TableVerdict::Corrupted);
    assert_eq!(reading.problems.len(), 2);
    assert_eq!(reading.problems[1].location(), Location::Byte(172));
    assert_eq!(reading.records.len(), 1, "the illegal record is salvaged, the torn one is not");
}

#[test]
fn a_short_table_is_a_problem_and_no_panic() {
    let bytes = encode_table(&layout(), &table());
    let reading = read_table(&bytes[..200], 128, &rules(), |_| AT);
    assert_eq!(reading.verdict, TableVerdict::Corrupted);
    assert_eq!(reading.records.len(), 1);
}

/// Returns a record with one changed field and an updated checksum.
fn patched_record(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut record = encode_record(Some(&rootfs())).to_vec();
    record[offset..offset + bytes.len()].copy_from_slice(bytes);
    let crc = crc32(&record[..168]);
    record[168..RECORD_SIZE as usize].copy_from_slice(&crc.to_be_bytes());
    record
}

#[test]
fn illegal_records_are_refused() {
    for (offset, bytes, field) in [
        (0, &[0_u8, 0, 0, 0][..], "reserved PEBs"),
        (0, &[0, 0, 1, 0], "reserved PEBs"),
        (4, &[0, 0, 0, 0], "alignment"),
        (4, &[0, 0, 0, 3], "alignment"),
        (4, &[0, 2, 0, 0], "alignment"),
        (8, &[0, 0, 0, 1], "data pad"),
        (12, &[3], "volume type"),
        (13, &[2], "update marker"),
        (14, &[0, 0], "name length"),
        (14, &[0, 128], "name length"),
        (14, &[0, 5], "name length"),
        (14, &[0, 7], "name length"),
        (16, &[0], "name length"),
    ] {
        match decode_record(&patched_record(offset, bytes), &rules(), AT) {
            Err(FormatError::Field { field: found, .. }) => assert_eq!(found, field, "{bytes:?}"),
            other => panic!("{offset} {bytes:?}: {other:?}"),
        }
    }
}

fn patched_vid(base: &VidHeader, offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut header = encode_vid(base).to_vec();
    header[offset..offset + bytes.len()].copy_from_slice(bytes);
    let crc = crc32(&header[..60]);
    header[60..].copy_from_slice(&crc.to_be_bytes());
    header
}

#[test]
fn illegal_vid_headers_are_refused() {
    let user = VidHeader { compat: Compat::None, volume: VolumeId::new(0), ..layout_vid(0) };
    let fixed = VidHeader { kind: VolumeKind::Static, data_size: 5, used_lebs: 1, ..user };
    let copy = VidHeader { copy_flag: true, data_size: 5, ..user };
    for base in [&user, &fixed, &copy, &layout_vid(1)] {
        assert_eq!(decode_vid(&encode_vid(base), &layout(), AT), Ok(*base));
    }
    assert!(decode_vid(&patched_vid(&user, 4, &[2]), &layout(), AT).is_ok(), "version is free");
    let illegal: [(&VidHeader, usize, &[u8], &str); 18] = [
        (&user, 5, &[0], "volume type"),
        (&user, 6, &[2], "copy flag"),
        (&user, 7, &[1], "compat"),
        (&layout_vid(0), 7, &[0], "compat"),
        (&layout_vid(0), 7, &[3], "compat"),
        (&user, 8, &[0, 0, 0, 128], "volume id"),
        (&layout_vid(0), 8, &[0x80, 0, 0, 0], "volume id"),
        (&user, 12, &[0x80, 0, 0, 0], "LEB number"),
        (&copy, 20, &[0, 2, 0, 0], "data size"),
        (&user, 20, &[0, 0, 0, 1], "data size"),
        (&user, 24, &[0, 0, 0, 1], "used LEBs"),
        (&user, 28, &[0, 1, 0, 0], "data pad"),
        (&user, 32, &[0, 0, 0, 1], "data CRC"),
        (&copy, 20, &[0, 0, 0, 0], "data size"),
        (&fixed, 24, &[0, 0, 0, 0], "used LEBs"),
        (&fixed, 20, &[0, 0, 0, 0], "data size"),
        (&fixed, 12, &[0, 0, 0, 1], "LEB number"),
        (&fixed, 24, &[0, 0, 0, 2], "data size"),
    ];
    for (base, offset, bytes, field) in illegal {
        match decode_vid(&patched_vid(base, offset, bytes), &layout(), AT) {
            Err(FormatError::Field { field: found, .. }) => assert_eq!(found, field, "{bytes:?}"),
            other => panic!("{offset} {bytes:?}: {other:?}"),
        }
    }
}

#[test]
fn illegal_ec_headers_are_refused() {
    let good = EcHeader {
        erase_count: EraseCount::new(1).unwrap(),
        vid_hdr_offset: 512,
        data_offset: 2048,
        image_seq: 0,
        end_mark: false,
    };
    for (offset, byte, field) in [(4, 2, "version"), (12, 0x80, "erase counter")] {
        let mut bytes = encode_ec(&good);
        bytes[offset] = byte;
        let crc = crc32(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_be_bytes());
        let error = decode_ec(&bytes, AT).unwrap_err();
        assert!(matches!(error, FormatError::Field { field: found, .. } if found == field));
    }
}

proptest! {
    #[test]
    fn ec_headers_round_trip(ec in 0..=0x7FFF_FFFF_u64, vid: u32, data: u32,
                             image_seq: u32, end_mark: bool) {
        let header = EcHeader {
            erase_count: EraseCount::new(ec).unwrap(),
            vid_hdr_offset: vid,
            data_offset: data,
            image_seq,
            end_mark,
        };
        prop_assert_eq!(decode_ec(&encode_ec(&header), AT), Ok(header));
    }

    #[test]
    fn copies_round_trip(id in 0..128_u32, leb in 0..=0x7FFF_FFFF_u32, size in 1..=129_024_u32,
                         crc: u32, sqnum: u64) {
        let header = VidHeader {
            copy_flag: true,
            compat: Compat::None,
            volume: VolumeId::new(id),
            leb: Leb::new(leb),
            data_size: size,
            data_crc: crc,
            sqnum: SqNum::new(sqnum),
            ..layout_vid(0)
        };
        prop_assert_eq!(decode_vid(&encode_vid(&header), &layout(), AT), Ok(header));
    }

    #[test]
    fn records_round_trip(lebs in 1..=128_u32, units in 0..=63_u32, is_static: bool,
                          upd_marker: bool, name in "[a-z\u{e4}]{1,60}", flags: u8) {
        let alignment = if units == 0 { 1 } else { units * 2048 };
        let record = VolumeRecord {
            reserved_lebs: lebs,
            alignment,
            data_pad: 129_024 % alignment,
            kind: if is_static { VolumeKind::Static } else { VolumeKind::Dynamic },
            upd_marker,
            name: VolumeName::new(name.into_bytes()).unwrap(),
            flags: VolumeFlags::from_bits(flags),
        };
        prop_assert_eq!(decode_record(&encode_record(Some(&record)), &rules(), AT), Ok(Some(record)));
    }

    #[test]
    fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let layout = layout();
        let _ = classify_ec(&bytes, ReadQuality::Clean, &layout, AT);
        let _ = classify_vid(&bytes, ReadQuality::Bitflips, &layout, AT);
        let _ = read_table(&bytes, 128, &rules(), |_| AT);
    }
}
