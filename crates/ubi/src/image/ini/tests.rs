//! The inputs that `ubinize` 2.1.5 accepts and refuses, verified with it.

use super::*;

fn one(lines: &str) -> Result<VolumeSection, IniError> {
    parse_volumes(&format!("[a]\nmode=ubi\n{lines}\n")).map(|mut volumes| volumes.remove(0))
}

fn with_image(lines: &str) -> Result<VolumeSection, IniError> {
    one(&format!("vol_id=1\nvol_name=x\nimage=r.bin\n{lines}"))
}

#[test]
fn values_are_cleaned() {
    for (line, name) in [
        ("vol_name=a#b", "a"),
        ("vol_name=\"a;b#c\" ; x", "a;b#c"),
        ("vol_name='single q'", "single q"),
        ("vol_name=x\nvol_name=y", "y"),
        ("vol_name=x\\\nyz", "xyz"),
        ("vol_name=x =y", "x =y"),
        ("VOL_NAME = a b c   ", "a b c"),
        ("vol_name=x\r", "x"),
    ] {
        let volume = one(&format!("vol_id=1\nimage=r\n{line}")).unwrap();
        assert_eq!(volume.name.as_bytes(), name.as_bytes(), "{line}");
    }
}

#[test]
fn sections_are_merged_and_others_skipped() {
    let text = "top=1\n; c\n# d\n\n  [ A b ]  \nmode=ubi\nvol_id=1\nvol_name=x\n[other]\nmode=foo\n\
                [c]\nmode=ubi\nvol_id=2\nvol_name=y\nvol_size=1\n[a B]\nimage=r.bin\n";
    let volumes = parse_volumes(text).unwrap();
    assert_eq!(volumes.len(), 2);
    assert_eq!((volumes[0].section.as_str(), volumes[0].image.as_deref()), ("a b", Some("r.bin")));
    assert_eq!(volumes[1].size, Some(1));
}

#[test]
fn numbers_are_those_of_c() {
    for (text, id) in [("0x2", 2), ("010", 8), ("1x", 1), ("", 0), ("1 ", 1)] {
        let volume = one(&format!("vol_id={text}\nvol_name=x\nimage=r.bin")).unwrap();
        assert_eq!(volume.id.get(), id, "{text}");
    }
    assert_eq!(with_image("vol_alignment=2KiB").unwrap().alignment, 2);
    for (text, size) in [
        ("20 MiB", Some(20 << 20)),
        ("0x100000", Some(1 << 20)),
        ("010000000", Some(1 << 21)),
        ("1GiB", Some(1 << 30)),
        ("500000 ; size", Some(500_000)),
        ("1M", None),
        ("1mib", None),
        ("1.5MiB", None),
        ("1MiBfoo", None),
        ("", None),
        ("0", None),
        ("-1", None),
        ("99999999999999999999GiB", None),
    ] {
        let volume = with_image(&format!("vol_size={text}")).ok();
        assert_eq!(volume.and_then(|volume| volume.size), size, "{text}");
    }
}

#[test]
fn what_cannot_be_a_volume_is_refused() {
    assert_eq!(parse_volumes(""), Err(IniError::NoSections));
    assert_eq!(parse_volumes("mode=ubi\n"), Err(IniError::NoSections));
    let syntax = parse_volumes("[a]\nmode=ubi\nnonsense line\n");
    assert!(matches!(syntax, Err(IniError::Syntax { line: 3, .. })));
    assert!(matches!(parse_volumes("[a\nmode=ubi\n"), Err(IniError::Syntax { line: 1, .. })));
    let missing = |text: &str| match one(text) {
        Err(IniError::Missing { key, .. }) => key,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing("vol_name=x\nimage=r.bin"), "vol_id");
    assert_eq!(missing("vol_id=1\nimage=r.bin"), "vol_name");
    assert_eq!(missing("vol_id=1\nvol_name=x"), "vol_size");
    assert_eq!(missing("vol_id=1\nvol_name=x\nvol_type=static\nvol_size=1MiB"), "image");
    let bad = |line: &str| match with_image(line) {
        Err(IniError::Value { key, .. }) => key,
        other => panic!("{line}: {other:?}"),
    };
    for (line, key) in [
        ("vol_id=128", "vol_id"),
        ("vol_id=-1", "vol_id"),
        ("vol_type=Static", "vol_type"),
        ("vol_flags=", "vol_flags"),
        ("vol_flags=autoresize,skip-check", "vol_flags"),
        ("vol_flags=skip-check", "vol_flags"),
        ("vol_alignment=0", "vol_alignment"),
        ("vol_alignment=-5", "vol_alignment"),
        ("vol_name=", "vol_name"),
    ] {
        assert_eq!(bad(line), key);
    }
    assert_eq!(bad(&format!("vol_name={}", "n".repeat(128))), "vol_name");
    let no_mode = parse_volumes("[a]\nvol_id=1\n");
    assert!(matches!(no_mode, Err(IniError::Missing { key: "mode", .. })));
}

#[test]
fn flags_are_understood() {
    assert_eq!(with_image("vol_flags=autoresize").unwrap().flags, VolumeFlags::AUTORESIZE);
    let fixed = with_image("vol_type=static\nvol_flags=skip-check").unwrap();
    assert_eq!((fixed.flags, fixed.kind), (VolumeFlags::SKIP_CHECK, VolumeKind::Static));
}
