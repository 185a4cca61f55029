//! Mounts for writing: what was written is in the image when the mount has ended, however it ends.

use crate::mount::{is_mounted, mounted};
use crate::mount_posix::wait_until_free;
use crate::sample::Sample;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const CHIP: [&str; 8] = ["--size", "16MiB", "--peb", "16KiB", "--page", "512", "--oob", "16"];

/// A chip with two volumes, and directories for mounts.
pub(crate) fn with_volumes() -> Sample {
    let sample = Sample::new();
    sample.ok(&[&["chip", "new", "c"][..], &CHIP].concat());
    sample.ok(&["ubi", "format", "c"]);
    sample.ok(&["ubi", "mkvol", "c", "root", "--size", "5MiB"]);
    sample.ok(&["ubi", "mkvol", "c", "data", "--size", "5MiB"]);
    for dir in ["m", "n"] {
        fs::create_dir(sample.path(dir)).unwrap();
    }
    sample
}

/// A chip for JFFS2 and a directory for its mount.
pub(crate) fn nor() -> Sample {
    let sample = Sample::new();
    sample.ok(&["chip", "new", "c", "--size", "4MiB", "--peb", "64KiB", "--page", "1"]);
    fs::create_dir(sample.path("m")).unwrap();
    sample
}

/// Returns the process of the mount, according to the locks of the host.
pub(crate) fn process_of(image: &Path) -> u32 {
    holder(image).expect("it is locked")
}

/// The process that holds a lock of an image.
pub(crate) fn holder(image: &Path) -> Option<u32> {
    let inode = format!(":{} ", fs::metadata(image).unwrap().ino());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let line = locks.lines().find(|line| line.contains(&inode))?;
    line.split_whitespace().nth(4).unwrap().parse().ok()
}

/// Writes something of every kind.
fn fill(dir: &Path) {
    fs::create_dir_all(dir.join("d/e")).unwrap();
    fs::write(dir.join("d/file"), vec![7; 100_000]).unwrap();
    fs::write(dir.join("d/e/gone"), "x").unwrap();
    fs::remove_file(dir.join("d/e/gone")).unwrap();
    fs::hard_link(dir.join("d/file"), dir.join("d/twin")).unwrap();
    std::os::unix::fs::symlink("file", dir.join("d/link")).unwrap();
    let sparse = fs::File::create(dir.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 1 << 20).unwrap();
    fs::rename(dir.join("d/e"), dir.join("moved")).unwrap();
}

fn check_filled(sample: &Sample, target: &str) {
    let run = sample.ok(&["check", target]);
    assert!(run.err.contains("consistent"), "{}", run.err);
    let link = sample.ok(&["ls", "-l", target, "d"]).out;
    assert!(link.contains("link -> file") && link.contains("twin"), "{link}");
    assert_eq!(sample.ok(&["cat", target, "d/file"]).out.len(), 100_000);
    assert_eq!(sample.ok(&["cat", target, "sparse"]).out.len(), (1 << 20) + 3);
    assert!(sample.ok(&["ls", target]).out.contains("moved"));
}

#[test]
fn two_volumes_of_a_chip_are_written_at_once() {
    let sample = with_volumes();
    let run = sample.run(&["mount", "c:root", "m", "--rw", "--also", "data=n"]);
    if !mounted("two volumes", &run) {
        return;
    }
    fill(&sample.path("m"));
    fill(&sample.path("n"));
    let stats = sample.ok(&["mount", "--stats", "n", "--json"]).out;
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["mounts"].as_array().unwrap().len(), 2);
    assert_eq!(stats["bytes_written"], 2 * (100_000 + 1 + 3));
    assert!(stats["virtual_ns"].as_u64().unwrap() > 0);
    assert!(stats["wear"]["max_erases"].as_u64().is_some());
    assert!(stats["write_amplification"].as_f64().is_some());
    let shown = sample.ok(&["mount", "--stats", "m"]).out;
    assert!(shown.contains("(data)") && shown.contains("on the real part"), "{shown}");
    for arguments in [&["mount", "c:root", "src", "--rw"][..], &["mount", "c:root", "src"]] {
        let run = sample.run(arguments);
        assert_eq!(run.code, 3);
        assert!(run.err.contains("in use") || run.err.contains("written to"), "{}", run.err);
    }
    // The other volume keeps the image locked; this one is at rest all the same.
    sample.ok(&["umount", "m"]);
    assert!(!is_mounted(&sample.path("m")) && is_mounted(&sample.path("n")));
    let stats = sample.ok(&["mount", "--stats", "n"]).out;
    assert!(!stats.contains("(root)"), "{stats}");
    sample.ok(&["umount", "n"]);
    for target in ["c:root", "c:data"] {
        check_filled(&sample, target);
    }
    let info = sample.ok(&["info", "c"]).out;
    assert_eq!(info.matches("state           clean").count(), 2, "{info}");
}

/// The list of mounts cannot hold a comma or a backslash. `umount` once did not find such an image,
/// assumed that no process writes to it, and returned while the process was still writing.
#[test]
fn umount_waits_whatever_the_image_is_called() {
    for name in ["a,b", "a\\b", "a%2Cb c"] {
        let sample = with_volumes();
        fs::rename(sample.path("c"), sample.path(name)).unwrap();
        let target = format!("{name}:root");
        if !mounted("names", &sample.run(&["mount", &target, "m", "--rw"])) {
            return;
        }
        fill(&sample.path("m"));
        fs::write(sample.path("m/much"), vec![1; 2 << 20]).unwrap();
        sample.ok(&["umount", "m"]);
        assert_eq!(holder(&sample.path(name)), None, "{name}");
        check_filled(&sample, &target);
    }
}

/// An image that has been moved away meanwhile cannot be waited for, and that is said.
#[test]
fn umount_says_when_it_cannot_wait() {
    let sample = with_volumes();
    if !mounted("moved", &sample.run(&["mount", "c:root", "m", "--rw"])) {
        return;
    }
    fs::rename(sample.path("c"), sample.path("moved")).unwrap();
    let is_told = || {
        let run = sample.run(&["umount", "m"]);
        assert_eq!(run.code, 3, "{}", run.err);
        assert!(run.err.contains("unmounted, but") && run.err.contains("hint"), "{}", run.err);
        assert!(!is_mounted(&sample.path("m")));
    };
    is_told();
    // `umount` waited for another file in its place, which no process used.
    wait_until_free(&sample.path("moved"));
    sample.ok(&["mount", "moved:root", "m", "--rw"]);
    fs::rename(sample.path("moved"), sample.path("c")).unwrap();
    fs::copy(sample.path("c"), sample.path("moved")).unwrap();
    is_told();
}

#[test]
fn a_signal_leaves_a_clean_image() {
    let sample = with_volumes();
    if !mounted("a signal", &sample.run(&["mount", "c:root", "m", "--rw", "-o", "cache=2MiB"])) {
        return;
    }
    fill(&sample.path("m"));
    let pid = process_of(&sample.path("c"));
    // A file that is open does not keep it from ending.
    let open = fs::File::create(sample.path("m/open")).unwrap();
    open.write_all_at(b"open", 0).unwrap();
    Command::new("kill").arg(pid.to_string()).status().unwrap();
    while Path::new(&format!("/proc/{pid}")).exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(open);
    assert!(!is_mounted(&sample.path("m")));
    check_filled(&sample, "c:root");
    assert_eq!(sample.ok(&["cat", "c:root", "open"]).out, "open");
    assert!(sample.ok(&["info", "c"]).out.contains("state           clean"));
}

#[test]
fn a_jffs2_is_written_on_chips_and_images() {
    let sample = nor();
    if !mounted("jffs2", &sample.run(&["mount", "c", "m", "--rw", "-o", "compressor=zlib"])) {
        return;
    }
    fill(&sample.path("m"));
    let stats = sample.ok(&["mount", "--stats", "m", "--json"]).out;
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert!(stats["virtual_ns"].as_u64().unwrap() > 0 && stats["wear"].is_object(), "{stats}");
    let status = Command::new("umount").arg(sample.path("m")).status();
    if !status.is_ok_and(|status| status.success()) {
        sample.ok(&["umount", "m"]);
    }
    // Who unmounts by other means waits for the lock.
    while sample.run(&["mount", "c", "m"]).code != 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    sample.ok(&["umount", "m"]);
    check_filled(&sample, "c");

    let made = ["mkfs", "jffs2", "src", "-o", "j", "--peb", "64KiB", "--pad-to", "256KiB"];
    sample.ok(&made);
    sample.ok(&["mount", "j", "m", "--rw", "--size", "4MiB"]);
    let run = sample.run(&["put", "j", "src"]);
    assert!(run.code == 3 && run.err.contains("is in use"), "{}", run.err);
    fill(&sample.path("m"));
    sample.ok(&["umount", "m"]);
    assert_eq!(fs::metadata(sample.path("j")).unwrap().len(), 4 << 20);
    check_filled(&sample, "j");
    assert_eq!(sample.ok(&["cat", "j", "etc/hosts"]).out, "127.0.0.1 localhost\n");
    let run = sample.run(&["mount", "j", "m", "--rw", "-o", "compressor=zstd"]);
    assert!(run.code == 2 && run.err.contains("no zstd"), "{}", run.err);
    let run = sample.run(&["mount", "j", "m", "--rw", "--also", "x=m"]);
    assert_eq!(run.code, 2, "{}", run.err);
}

#[test]
fn an_image_file_grows_to_the_size_of_its_flash() {
    let sample = Sample::new();
    sample.ubi();
    fs::create_dir(sample.path("m")).unwrap();
    let run = sample.run(&["mount", "all.ubi:rootfs", "m", "--rw", "--size", "16MiB"]);
    if !mounted("an image file", &run) {
        return;
    }
    fill(&sample.path("m"));
    sample.ok(&["umount", "m"]);
    check_filled(&sample, "all.ubi:rootfs");
    assert_eq!(sample.ok(&["cat", "all.ubi:rootfs", "etc/hosts"]).out, "127.0.0.1 localhost\n");
    let run = sample.run(&["mount", "all.ubi", "m", "--rw", "--also", "data=m"]);
    assert!(run.code == 2 && run.err.contains("must all be named"), "{}", run.err);
    let run = sample.run(&["mount", "--stats", "src"]);
    assert!(run.code == 3 && run.err.contains("no mount of ours"), "{}", run.err);
}

#[test]
fn reading_changes_no_byte_of_any_kind_of_image() {
    let sample = with_volumes();
    sample.ubi();
    sample.ok(&["put", "c:root", "src"]);
    sample.ok(&["mkfs", "jffs2", "src", "-o", "j", "--peb", "64KiB"]);
    sample.ok(&["mkfs", "ubifs", "src", "-o", "u", "--flash", "W25N01GV", "--max-lebs", "60"]);
    for (image, target) in [("c", "c:root"), ("all.ubi", "all.ubi:rootfs"), ("j", "j"), ("u", "u")]
    {
        let before = state(&sample.path(image));
        if !mounted("reading", &sample.run(&["mount", target, "m"])) {
            return;
        }
        let read = fs::read(sample.path("m/etc/link")).unwrap();
        assert_eq!(read, vec![0x5a; 70_000], "{target}");
        assert!(fs::write(sample.path("m/new"), "x").is_err());
        assert!(sample.ok(&["mount", "--stats", "m"]).out.contains("read-only"));
        sample.ok(&["umount", "m"]);
        assert!(before == state(&sample.path(image)), "{target} changed");
    }
}

/// Content and times of a file.
pub(crate) fn state(path: &PathBuf) -> (Vec<u8>, (i64, i64), (i64, i64)) {
    let content = fs::read(path).unwrap();
    let found = fs::metadata(path).unwrap();
    (content, (found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()))
}

/// Commands that read saw half of what a mount was writing, and reported damage that did not exist.
#[test]
fn what_is_written_to_is_not_read_from_beside_the_mount() {
    let sample = with_volumes();
    if !mounted("readers during a write mount", &sample.run(&["mount", "c:root", "m", "--rw"])) {
        return;
    }
    fs::write(sample.path("m/file"), vec![7; 100_000]).unwrap();
    let dir = sample.path("m").canonicalize().unwrap();
    for arguments in [
        &["check", "c:root"][..],
        &["ls", "c:root"],
        &["info", "c"],
        &["extract", "c:root", "out"],
        &["get", "c:root", "/file", "out"],
        &["chip", "stats", "c"],
        &["chip", "export", "c", "out"],
        &["ubi", "wear", "c"],
    ] {
        let run = sample.run(arguments);
        assert_eq!(run.code, 3, "{arguments:?}: {}", run.err);
        let place = format!("is being written to by the mount at {}", dir.display());
        assert!(run.err.contains(&place) && run.err.contains("umount"), "{}", run.err);
    }
    // Nor is it written to, or replaced.
    for arguments in [
        &["put", "c:root", "src", "/new"][..],
        &["mount", "c:root", "n", "--rw"],
        &["ubi", "mkvol", "c", "more", "--lebs", "1"],
        &["chip", "cut", "c", "--after", "1"],
        &["mkfs", "jffs2", "src", "-o", "c", "--peb", "64KiB"],
    ] {
        let run = sample.run(arguments);
        assert_eq!(run.code, 3, "{arguments:?}: {}", run.err);
        let place = format!("by the mount at {}", dir.display());
        assert!(run.err.contains(&place) && run.err.contains("umount"), "{}", run.err);
    }
    sample.ok(&["umount", "m"]);
    assert_eq!(sample.ok(&["cat", "c:root", "/file"]).out.len(), 100_000);
    // Who only reads does not keep others from reading.
    if mounted("readers during a read-only mount", &sample.run(&["mount", "c:root", "m"])) {
        sample.ok(&["check", "c:root"]);
        sample.ok(&["get", "c:root", "/file", "out"]);
        assert_eq!(sample.run(&["put", "c:root", "src", "/new"]).code, 3);
        sample.ok(&["umount", "m"]);
    }
}

/// Where no permissions were checked, a list left the mode as it was.
#[test]
fn a_list_changes_the_mode_and_a_mode_the_list() {
    let sample = with_volumes();
    if !mounted("lists and modes", &sample.run(&["mount", "c:root", "m", "--rw"])) {
        return;
    }
    let file = sample.path("m/file");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let list = |mask: u8| {
        let entries = [(1, 6), (2, 4), (4, 0), (16, mask), (32, 0)];
        let entry = |(tag, bits)| [tag, 0, bits, 0, 0xe8, 3, 0, 0];
        let mut value = vec![2, 0, 0, 0];
        value.extend(entries.into_iter().flat_map(entry));
        for at in [8, 24, 32, 40] {
            value[at..at + 4].fill(0xff);
        }
        value
    };
    let name = "system.posix_acl_access";
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::lsetxattr(&file, name, &list(4), flags).unwrap();
    let mode = || fs::metadata(&file).unwrap().mode() & 0o7777;
    assert_eq!(mode(), 0o640);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
    let mut buf = [0; 64];
    let len = rustix::fs::lgetxattr(&file, name, &mut buf).unwrap();
    assert_eq!(buf[..len], list(2));
    sample.ok(&["umount", "m"]);
    assert!(sample.ok(&["stat", "c:root", "file"]).out.contains("0620"));
}
