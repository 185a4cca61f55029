//! Access control lists on every way into an image and out of it.

use crate::sample::Sample;
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const SHAPE: [&str; 6] = ["--peb", "16KiB", "--page", "512", "--max-lebs", "80"];

/// Entries of a list: kind, permissions, whose.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&permissions.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

/// u::rw- u:1000:r-- g::--- m::r-- o::---
fn access() -> Vec<u8> {
    let all = u32::MAX;
    list(&[(1, 6, all), (2, 4, 1000), (4, 0, all), (0x10, 4, all), (0x20, 0, all)])
}

/// u::rwx g::r-x g:50:rwx m::rwx o::---
fn default() -> Vec<u8> {
    let all = u32::MAX;
    list(&[(1, 7, all), (4, 5, all), (8, 7, 50), (0x10, 7, all), (0x20, 0, all)])
}

fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut buf = [0; 256];
    let len = lgetxattr(path, name, &mut buf).ok()?;
    Some(buf[..len].to_vec())
}

/// A sample whose `src` has lists.
fn sample() -> Sample {
    let sample = Sample::new();
    let set = |path: &str, name, value: Vec<u8>| {
        lsetxattr(sample.path(path), name, &value, XattrFlags::empty()).unwrap();
    };
    set("src/etc", DEFAULT, default());
    set("src/etc/hosts", ACCESS, access());
    set("src/etc/hosts", "user.a", b"1".to_vec());
    sample
}

/// What a folder that came out of an image has to have.
fn arrived(folder: &Path) {
    assert_eq!(value(&folder.join("etc"), DEFAULT), Some(default()), "{}", folder.display());
    one_arrived(&folder.join("etc/hosts"));
    assert_eq!(value(&folder.join("bin"), DEFAULT), None);
}

fn one_arrived(file: &Path) {
    assert_eq!(value(file, ACCESS), Some(access()), "{}", file.display());
    assert_eq!(value(file, "user.a"), Some(b"1".to_vec()), "{}", file.display());
    assert_eq!(file.symlink_metadata().unwrap().mode() & 0o7777, 0o640);
}

#[test]
fn mkfs_takes_lists_along() {
    let sample = sample();
    sample.ok(&[&["mkfs", "ubifs", "src", "-o", "u"][..], &SHAPE].concat());
    sample.ok(&["mkfs", "jffs2", "src", "-o", "j", "--peb", "16KiB"]);
    sample.ok(&["mkfs", "jffs2", "src", "-o", "b", "--peb", "16KiB", "--byte-order", "big"]);
    for image in ["u", "j", "b"] {
        let out = format!("{image}.out");
        sample.ok(&["extract", image, &out]);
        arrived(&sample.path(&out));
        let tar = format!("{image}.tar");
        sample.ok(&["extract", image, "--tar", &tar]);
        sample.ok(&[&["mkfs", "ubifs", &tar, "-o", "again"][..], &SHAPE].concat());
        let again = format!("{image}.again");
        sample.ok(&["extract", "again", &again]);
        arrived(&sample.path(&again));
    }
    let without = ["mkfs", "ubifs", "src", "-o", "n", "--no-xattrs"];
    sample.ok(&[&without[..], &SHAPE].concat());
    sample.ok(&["extract", "n", "n.out"]);
    assert_eq!(value(&sample.path("n.out/etc"), DEFAULT), None);
}

/// `put` lost lists without a word, and `get` of a single file all attributes.
#[test]
fn put_and_get_take_lists_along() {
    let sample = sample();
    sample.ok(&["chip", "new", "c", "--size", "8MiB", "--peb", "16KiB", "--page", "512"]);
    sample.ok(&["ubi", "format", "c"]);
    sample.ok(&["ubi", "mkvol", "c", "data", "--lebs", "100"]);
    sample.ok(&["mkfs", "jffs2", "src", "-o", "j", "--peb", "16KiB", "--pad-to", "512KiB"]);
    for target in ["c", "j"] {
        sample.ok(&["put", target, "src", "/t"]);
        sample.ok(&["put", target, "src/etc/hosts", "/one"]);
        sample.ok(&["edit", target, "-c", "put src /u", "-c", "put src/etc/hosts /two"]);
        let out = |name: &str| format!("{target}-{name}");
        for folder in ["/t", "/u"] {
            let to = out(&folder[1..]);
            sample.ok(&["get", target, folder, &to]);
            arrived(&sample.path(&to));
        }
        for file in ["/one", "/two"] {
            let to = out(&file[1..]);
            sample.ok(&["get", target, file, &to]);
            one_arrived(&sample.path(&to));
        }
        let edited = format!("get /one {}", out("three"));
        sample.ok(&["edit", target, "-c", &edited]);
        one_arrived(&sample.path(&out("three")));
        sample.ok(&["check", target]);
    }
}

#[test]
fn what_is_no_file_gets_the_content_only() {
    let sample = sample();
    sample.ok(&[&["mkfs", "ubifs", "src", "-o", "u"][..], &SHAPE].concat());
    let piped = sample.ok(&["get", "u", "/etc/hosts", "/dev/stdout"]);
    assert_eq!(piped.out, "127.0.0.1 localhost\n");
}

#[test]
fn a_value_that_is_no_list_is_refused() {
    let sample = Sample::new();
    sample.ok(&[&["mkfs", "ubifs", "src", "-o", "u"][..], &SHAPE].concat());
    sample.ok(&["mkfs", "jffs2", "src", "-o", "j", "--peb", "16KiB", "--pad-to", "512KiB"]);
    for target in ["u", "j"] {
        let set = "setfattr system.posix_acl_access hello /etc/hosts";
        let run = sample.run(&["edit", target, "-c", set]);
        assert_eq!(run.code, 3, "{}", run.err);
        assert!(run.err.contains("is not an access control list"), "{}", run.err);
        let run = sample.ok(&["edit", target, "-c", "check"]);
        assert_eq!(run.out, "consistent\n", "{}", run.err);
    }
}
