//! The examples, run.

use crate::sample::Sample;
use std::fs;

#[path = "../../examples/build_image.rs"]
mod build_image;
#[path = "../../examples/custom_flash.rs"]
mod custom_flash;
#[cfg(feature = "chips")]
#[path = "../../examples/power_cut.rs"]
mod power_cut;
#[path = "../../examples/read_file.rs"]
mod read_file;
#[path = "../../examples/salvage.rs"]
mod salvage;
#[path = "../../examples/write_file.rs"]
mod write_file;

#[test]
fn read_file_and_write_file() {
    let sample = Sample::new();
    let image = sample.image();
    let image = image.to_str().unwrap();
    write_file::run(image, "rootfs", "/opt/app/version", "7\n").unwrap();
    let mut out = Vec::new();
    read_file::run(image, "rootfs", "/opt/app/version", &mut out).unwrap();
    assert_eq!(out, b"7\n");
}

#[test]
fn build_image() {
    let sample = Sample::new();
    let image = sample.path("new.ubi");
    let report = build_image::run(&sample.path("rootfs"), &image).unwrap();
    assert_eq!(fs::metadata(&image).unwrap().len(), report.image_size);
    let fs = eraseblock::open(&image).unwrap().file_system().unwrap();
    assert_eq!(fs.read("/etc/motd").unwrap(), b"welcome\n");
}

#[test]
fn salvage() {
    let sample = Sample::new();
    let mut bytes = fs::read(sample.image()).unwrap();
    let motd = bytes.windows(8).position(|window| window == b"welcome\n").unwrap();
    bytes[motd] ^= 1;
    let damaged = sample.path("damaged.ubi");
    fs::write(&damaged, bytes).unwrap();
    let out = sample.path("out");
    let findings = salvage::run(&damaged, &out).unwrap();
    assert!(findings.has_problems());
    assert!(!out.join("volume-1/etc/motd").exists());
    assert_eq!(fs::metadata(out.join("volume-1/big")).unwrap().len(), 400_000);
}

#[test]
fn custom_flash() {
    let sample = Sample::new();
    let (names, bytes) = custom_flash::run(&sample.image()).unwrap();
    assert_eq!(names, ["big", "dir", "etc", "link", "loop"]);
    // Not the whole image: headers, the journal, and the way to the root directory.
    assert!(bytes > 0 && bytes < fs::metadata(sample.image()).unwrap().len());
}

#[cfg(feature = "chips")]
#[test]
fn power_cut() {
    let sample = Sample::new();
    let outcome = power_cut::run(&sample.image(), sample.folder(), 5).unwrap();
    assert!(outcome.old > 0 && outcome.new > 0, "{outcome:?}");
}
