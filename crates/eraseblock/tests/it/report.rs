//! Reports about whole images: what they are, and whether everything in them is right.

use crate::sample::Sample;
use eraseblock::info::{BlockUse, Info};
use eraseblock::{Image, check};
use std::fs;

/// Changes a byte in the content of the static volume.
fn damage(sample: &Sample) {
    let mut bytes = fs::read(sample.image()).unwrap();
    let content = fs::read(sample.path("kernel")).unwrap();
    let at = bytes.windows(64).position(|window| window == &content[1000..1064]).unwrap();
    bytes[at] ^= 1;
    fs::write(sample.image(), bytes).unwrap();
}

#[test]
fn a_whole_image_is_checked() {
    let sample = Sample::new();
    let report = check(sample.image()).unwrap();
    assert!(report.is_consistent() && report.findings().is_empty(), "{report:?}");
    assert!(report.next_steps().is_empty() && report.why_read_only().is_none());
    damage(&sample);
    let report = check(sample.image()).unwrap();
    assert!(!report.is_consistent());
    let codes: Vec<&str> = report.findings().iter().map(|it| it.code.name()).collect();
    assert_eq!(codes, ["static-data-corrupt"]);
    assert!(report.next_steps()[0].as_str().contains("is lost: `eraseblock extract"), "{report:?}");
}

#[test]
fn one_volume_is_checked() {
    let sample = Sample::new();
    damage(&sample);
    let options = Image::options();
    assert!(options.check_volume(sample.image(), "rootfs").unwrap().is_consistent());
    assert!(!options.check_volume(sample.image(), 0).unwrap().is_consistent());
    let error = options.check_volume(sample.image(), "boot").unwrap_err();
    assert!(error.message().contains("there is no volume `boot`"), "{error}");
    assert!(check(sample.path("board.toml")).is_err() && check(sample.path("none")).is_err());
}

#[test]
fn facts_say_what_an_image_is() {
    let sample = Sample::new();
    let (info, findings) = Image::options().info(sample.image()).unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    let Info::Ubi(ubi) = info else { panic!("{info:?}") };
    assert_eq!(
        (ubi.peb_size, ubi.leb_size, u32::try_from(ubi.map.len()).unwrap()),
        (131_072, 126_976, ubi.peb_count)
    );
    let rows: Vec<_> = ubi.volumes.iter().map(|it| (it.name.as_str(), it.kind)).collect();
    assert_eq!(rows, [("kernel", "static"), ("rootfs", "dynamic"), ("data", "dynamic")]);
    assert_eq!((ubi.volumes[0].used, ubi.volumes[2].content.as_str()), (200_000, "empty"));
    assert_eq!(ubi.map.iter().filter(|it| **it == BlockUse::Volume(0)).count(), 2);
    let ubifs = ubi.volumes[1].ubifs.as_ref().unwrap();
    assert!(ubifs.compressor == "none" && ubifs.state.unwrap().clean);
    damage(&sample);
    let (_, findings) = Image::options().info(sample.image()).unwrap();
    assert!(findings.has_problems());
    assert!(Image::options().info(sample.path("board.toml")).is_err());
}
