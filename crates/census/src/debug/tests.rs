//! Commands on an image made here.

use super::*;
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubi_format::encode::encode_ec;
use eraseblock_ubi_format::types::{EcHeader, EraseCount};

const PEB: usize = 16 << 10;

/// Two eraseblocks with a header each.
fn debugger() -> (Debugger, Vec<u8>) {
    let mut image = vec![0xFF; 2 * PEB];
    for (peb, count) in [(0, 3), (1, 4)] {
        let header = EcHeader {
            erase_count: EraseCount::new(count).unwrap(),
            vid_hdr_offset: 512,
            data_offset: 1024,
            image_seq: 9,
            end_mark: false,
        };
        image[peb * PEB..][..64].copy_from_slice(&encode_ec(&header));
    }
    let layout = HeaderLayout::new(PEB as u32, 512, 512, None).unwrap();
    let segment = Segment { offset: 0, len: 2 * PEB as u64, format: Format::Ubi(layout) };
    let plan = Plan::new(&image, vec![segment]).unwrap();
    (Debugger::new(Arc::new(image.clone()), plan, 0).unwrap(), image)
}

fn ok(debugger: &mut Debugger, command: &str) -> String {
    let mut out = String::new();
    if let Err(refusal) = debugger.run(command, &mut out) {
        panic!("{command}: {refusal:?}");
    }
    out
}

fn places(debugger: &Debugger) -> Vec<(u64, usize)> {
    debugger.changes().unwrap().iter().map(|one| (one.offset, one.new.len())).collect()
}

#[test]
fn a_field_is_set_with_its_checksum_and_back() {
    let (mut debugger, _) = debugger();
    ok(&mut debugger, "set peb 1 .ec=7");
    assert_eq!(places(&debugger), [(PEB as u64 + 15, 49)]);
    assert!(ok(&mut debugger, "p .ec").contains("ec = 7"));
    assert!(ok(&mut debugger, "crc .").contains("right"));
    assert!(ok(&mut debugger, "undo").contains("set peb 1 .ec=7"));
    assert_eq!(places(&debugger), []);
    ok(&mut debugger, "redo");
    assert!(ok(&mut debugger, "p @1.0.ec").contains("ec = 7"));
    assert!(ok(&mut debugger, "changes").starts_with("@1.15 49 bytes: "));
}

#[test]
fn checksums_are_kept_broken_and_mended() {
    let (mut debugger, _) = debugger();
    ok(&mut debugger, "set keep-crc @0.0.ec=8");
    assert_eq!(places(&debugger), [(15, 1)]);
    assert!(ok(&mut debugger, "crc @0.0").contains("wrong"));
    ok(&mut debugger, "crc fix .");
    assert!(ok(&mut debugger, "crc .").contains("right"));
    ok(&mut debugger, "crc break .");
    assert!(ok(&mut debugger, "crc .").contains("wrong"));
    assert!(ok(&mut debugger, "explain .").contains("torn: hdr_crc is 0x"));
    ok(&mut debugger, "crc keep");
    ok(&mut debugger, "set ec=9");
    assert!(ok(&mut debugger, "crc .").contains("wrong"));
    ok(&mut debugger, "crc renew");
    ok(&mut debugger, "set ec=9");
    assert!(ok(&mut debugger, "crc .").contains("right"));
}

#[test]
fn a_command_that_fails_changes_nothing() {
    let (mut debugger, _) = debugger();
    ok(&mut debugger, "set @0.0.ec=8");
    let before = debugger.changes().unwrap();
    for command in [
        "set @0.0.nothing=3",
        "set @0.0.version=256",
        "set @0.0=3",
        "set @0.0.ec",
        "set @0.0.ec=x",
        "set peb 1:600 .ec=3",
        "poke byte 32767 0000",
        "poke byte 0 xyz",
        "poke byte 0",
        "fuzz @0.0.ec add",
        "fuzz @0.0.padding1 add 3",
        "erase peb 2",
        "copy peb 0 peb 1",
        "copy peb 0 to peb 9",
        "redo",
        "crc break peb 0:700",
        "set leb 0.sqnum=3",
        "nonsense",
    ] {
        assert!(debugger.run(command, &mut String::new()).is_err(), "{command}");
        assert!(debugger.changes().unwrap() == before, "{command}");
    }
}

#[test]
fn fields_are_changed_in_every_way() {
    let (mut debugger, _) = debugger();
    for (verb, value) in [
        ("zero", "ec = 0\n"),
        ("ones", "ec = 18446744073709551615\n"),
        ("add 2", "ec = 1\n"),
        ("sub 2", "ec = 18446744073709551615\n"),
        ("last", "ec = 18446744073709551614\n"),
        ("first", "ec = 9223372036854775806\n"),
    ] {
        assert_eq!(ok(&mut debugger, &format!("fuzz @0.0.ec {verb}")), value);
        assert!(ok(&mut debugger, "crc .").contains("right"));
    }
    let random = ok(&mut debugger, "fuzz @0.0.ec random");
    let (mut other, _) = super::tests::debugger();
    assert_eq!(ok(&mut other, "fuzz @0.0.ec random"), random, "the same seed");
    assert_ne!(ok(&mut other, "fuzz @0.0.ec random"), random);
    assert_eq!(ok(&mut debugger, "fuzz @0.0.padding1 last"), "padding1 = 000001\n");
}

#[test]
fn blocks_are_erased_and_copied() {
    let (mut debugger, image) = debugger();
    ok(&mut debugger, "copy peb 0 to peb 1");
    let mut now = vec![0; image.len()];
    debugger.image().read_exact_at(&mut now, 0).unwrap();
    assert!(now[..PEB] == now[PEB..] && now[..PEB] == image[..PEB]);
    ok(&mut debugger, "erase peb 0");
    debugger.image().read_exact_at(&mut now, 0).unwrap();
    assert!(now[..PEB].iter().all(|byte| *byte == 0xFF));
    ok(&mut debugger, "undo");
    ok(&mut debugger, "undo");
    assert_eq!(places(&debugger), []);
}

#[test]
fn words_are_split_outside_quotation_marks() {
    assert_eq!(words_of(r#" set .name="a \" b"  c "#), ["set", r#".name="a \" b""#, "c"]);
    assert_eq!(words_of(""), Vec::<&str>::new());
}
