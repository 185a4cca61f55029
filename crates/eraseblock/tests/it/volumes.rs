//! Volumes of an image made, resized, renamed, filled and removed.

use crate::sample::Sample;
use eraseblock::ErrorKind;
use eraseblock::error::Setting;
use eraseblock::target::FlashOptions;
use eraseblock::target::volumes::{VolumeChange, VolumeOptions, VolumeSize};
use std::fs;

fn begin(sample: &Sample) -> VolumeChange {
    let options = FlashOptions { target: sample.image().into(), ..FlashOptions::default() };
    VolumeChange::begin(options, |text| panic!("{text}")).unwrap()
}

fn names(sample: &Sample) -> Vec<String> {
    let image = eraseblock::open(sample.image()).unwrap();
    image.volumes().map(|volume| volume.name().into_owned()).collect()
}

#[test]
fn volumes_are_changed() {
    let sample = Sample::new();
    let change = begin(&sample);
    change.rename(&[(b"data", b"store")]).unwrap();
    change.resize(b"store", VolumeSize::Bytes(1)).unwrap();
    change.create(&VolumeOptions::new("log", VolumeSize::Lebs(2)).id(Some(4))).unwrap();
    change.remove(b"0").unwrap();
    let log = eraseblock::target::flash::find(change.ubi(), b"log").unwrap();
    change.update(&log, 5, &mut &b"hello"[..]).unwrap();
    change.finish().unwrap();
    drop(change);
    assert_eq!(names(&sample), ["rootfs", "store", "log"]);
    let image = eraseblock::open(sample.image()).unwrap();
    assert_eq!(image.volume("store").unwrap().info().reserved_lebs, 1);
    assert!(eraseblock::check(sample.image()).unwrap().is_consistent());
}

#[test]
fn a_change_that_is_not_finished_leaves_the_image() {
    let sample = Sample::new();
    let before = fs::read(sample.image()).unwrap();
    let change = begin(&sample);
    change.remove(b"data").unwrap();
    change.create(&VolumeOptions::new("log", VolumeSize::Lebs(3))).unwrap();
    drop(change);
    assert!(fs::read(sample.image()).unwrap() == before);
}

#[test]
fn refusals_name_settings_of_the_library() {
    let sample = Sample::new();
    let change = begin(&sample);
    let error = change.resize(b"rootfs", VolumeSize::Lebs(1)).unwrap_err();
    assert!(error.message().contains("volume `rootfs` holds a UBIFS of"), "{error}");
    let hint = error.next_step().unwrap().to_owned();
    assert!(hint.starts_with("`force` shrinks the volume"), "{hint}");
    let spelled = error.spelled(|setting, _| match setting {
        Setting::Force => "-f".to_owned(),
        other => panic!("{other}"),
    });
    assert!(spelled.next_step().unwrap().starts_with("-f shrinks the volume"), "{spelled:?}");
    let error = change.create(&VolumeOptions::new("", VolumeSize::Lebs(1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let all = VolumeOptions::new("log", VolumeSize::Lebs(5000));
    let error = change.create(&all).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FlashFull);
    assert!(error.next_step().unwrap().contains("`blocks(NUMBER)` says how many"), "{error:?}");
    assert!(change.remove(b"boot").is_err() && change.rename(&[(b"data", b"\0")]).is_err());
    assert!(change.create(&VolumeOptions::new("x", VolumeSize::Bytes(u64::MAX))).is_err());
}
