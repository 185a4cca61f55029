//! Images changed in place, and built.

use crate::sample::{Sample, noise};
use eraseblock::info::Info;
use eraseblock::raw::ubi::FastmapStatus;
use eraseblock::{Build, Edit, ErrorKind, Image, build, edit, open};
use std::fs;
use std::time::{Duration, UNIX_EPOCH};

#[test]
fn changes_are_durable_when_they_return() {
    let sample = Sample::new();
    let volume = edit(sample.image()).unwrap().volume("rootfs").unwrap();
    assert!(!volume.findings().has_problems());
    volume.write("/etc/motd", "changed\n").unwrap();
    volume.create_dir_all("/var/lib/x").unwrap();
    for file in ["/etc/motd", "/etc/motd/x"] {
        assert!(volume.create_dir_all(file).unwrap_err().message().contains("not a directory"));
    }
    volume.write("/var/lib/x/noise", noise(100_000)).unwrap();
    volume.symlink("lib/x", "/var/link").unwrap();
    volume.rename("/big", "/var/link/moved").unwrap();
    volume.remove("/loop").unwrap();
    volume.set_permissions("/etc/motd", 0o600).unwrap();
    volume.set_owner("/etc/motd", 5, 6).unwrap();
    assert_eq!(volume.read("/link").unwrap(), b"changed\n");
    assert!(!volume.check().unwrap().has_problems());
    // The process ends without unmounting.
    std::mem::forget(volume);
    // Its lock would go with it.
    let copy = sample.path("copy.ubi");
    fs::copy(sample.image(), &copy).unwrap();
    let fs = open(copy).unwrap().volume("rootfs").unwrap().file_system().unwrap();
    assert_eq!(fs.read("/etc/motd").unwrap(), b"changed\n");
    assert!(fs.read("/var/link/noise").unwrap() == noise(100_000));
    assert_eq!(fs.metadata("/var/lib/x/moved").unwrap().len(), 400_000);
    assert!(!fs.exists("/big") && fs.symlink_metadata("/loop").is_err());
    let meta = fs.metadata("/etc/motd").unwrap();
    assert_eq!((meta.permissions(), meta.uid(), meta.gid()), (0o600, 5, 6));
}

#[test]
fn the_same_changes_give_the_same_bytes() {
    let sample = Sample::new();
    let image = fs::read(sample.image()).unwrap();
    let changed = |name: &str| {
        let path = sample.path(name);
        fs::write(&path, &image).unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let volume = edit(&path).unwrap().time(time).volume(1).unwrap();
        volume.write("/new", "x").unwrap();
        assert!(volume.close().unwrap().is_empty());
        let fs = open(&path).unwrap().file_system().unwrap();
        assert_eq!(fs.metadata("/new").unwrap().modified(), time);
        fs::read(&path).unwrap()
    };
    let first = changed("a.ubi");
    assert!(first != image && first == changed("b.ubi"));
}

#[test]
fn a_change_that_fails_leaves_the_image_as_it_was() {
    let sample = Sample::new();
    let before = fs::read(sample.image()).unwrap();
    let error = edit(sample.image()).unwrap().volume("none").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let volume = edit(sample.image()).unwrap().volume("rootfs").unwrap();
    assert!(volume.write("/none/x", "x").unwrap_err().is_missing());
    let error = volume.write("/etc", "x").unwrap_err();
    assert!(error.message().contains("/etc: is not a regular file"), "{error}");
    let error = volume.write("/huge", noise(20 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FlashFull, "{error}");
    drop(volume);
    assert!(fs::read(sample.image()).unwrap() == before);
}

#[test]
fn one_writer_keeps_all_others_away() {
    let sample = Sample::new();
    let volume = edit(sample.image()).unwrap().volume("rootfs").unwrap();
    let error = open(sample.image()).unwrap_err();
    assert!(error.message().contains("being written to"), "{error}");
    let error = edit(sample.image()).unwrap().volume("rootfs").unwrap_err();
    assert!(error.message().contains("is in use"), "{error}");
    volume.close().unwrap();
    let image = open(sample.image()).unwrap();
    assert!(edit(sample.image()).unwrap().volume("rootfs").is_err());
    // What was made of the image keeps the lock as well.
    let fs = image.file_system().unwrap();
    drop(image);
    assert!(edit(sample.image()).unwrap().volume("rootfs").is_err());
    drop(fs);
    edit(sample.image()).unwrap().volume("rootfs").unwrap().close().unwrap();
}

#[test]
fn the_same_layout_gives_the_same_bytes() {
    let sample = Sample::new();
    let first = fs::read(sample.image()).unwrap();
    let report = build(sample.path("board.toml")).unwrap().write_to(sample.image()).unwrap();
    assert_eq!(report.image_size, first.len() as u64);
    assert_eq!(report.volumes[1].name, "rootfs");
    assert!(fs::read(sample.image()).unwrap() == first);
}

#[test]
fn a_build_that_fails_leaves_everything_as_it_was() {
    let sample = Sample::new();
    let before = fs::read(sample.image()).unwrap();
    let names = || fs::read_dir(sample.folder()).unwrap().count();
    let count = names();
    let fails = |layout: &str, message: &str| {
        let error = Build::from_text(layout, sample.folder())
            .and_then(|build| build.write_to(sample.image()))
            .unwrap_err();
        assert!(error.message().contains(message), "{layout}: {error}");
    };
    let flash = "flash.part = 'W25N01GV'\n[[volume]]\nname = 'a'\n";
    fails("", "missing field");
    fails(&format!("{flash}content = {{ ubifs = 'none' }}"), "none");
    fails(&format!("{flash}size = '1GiB'"), "are missing");
    fails(&format!("{flash}size = '1MiB'\ncontent = {{ ubifs = 'rootfs' }}"), "LEB count");
    fails(&format!("{flash}content = {{ file = 'board.ubi' }}"), "it is read");
    assert!(build(sample.path("none.toml")).unwrap_err().is_missing());
    assert!(fs::read(sample.image()).unwrap() == before && names() == count);
}

#[test]
fn a_change_leaves_a_fastmap_if_asked_to() {
    let sample = Sample::new();
    let is_usable = || {
        let (info, _) = Image::options().info(sample.image()).unwrap();
        let Info::Ubi(ubi) = info else { panic!("{info:?}") };
        matches!(ubi.fastmap, FastmapStatus::Usable { .. })
    };
    let change = |edit: Edit| {
        let volume = edit.volume("rootfs")?;
        volume.write("/etc/motd", "changed\n")?;
        volume.close()
    };
    let error = change(edit(sample.image()).unwrap().fastmap(true)).unwrap_err();
    assert!(error.message().contains("`fastmap`: how many eraseblocks"), "{error}");
    assert!(!is_usable());
    change(edit(sample.image()).unwrap().flash_size(128 << 20).fastmap(true)).unwrap();
    assert!(is_usable());
    change(edit(sample.image()).unwrap()).unwrap();
    assert!(!is_usable());
}
