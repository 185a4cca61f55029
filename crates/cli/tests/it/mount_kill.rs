//! A mount whose process is killed leaves what a power cut leaves: the next mount repairs it, and
//! what was made durable is there.

use crate::mount::mounted;
use crate::mount_rw::{nor, process_of, with_volumes};
use crate::sample::Sample;
use rustix::fs::{AtFlags, CWD, OFlags};
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Durable files written before the kill, for each of the moments.
const MOMENTS: [usize; 4] = [0, 3, 17, 40];

/// What file `index` holds.
fn content(index: usize) -> Vec<u8> {
    (0..2000 + index * 977).map(|byte| (byte * 31 + index * 7).to_le_bytes()[0]).collect()
}

/// Writes file after file until the mount dies; every second one is made durable. Returns the
/// durable ones.
fn load(dir: &Path, kill_after: usize, kill: impl Fn()) -> Vec<usize> {
    let mut durable = Vec::new();
    for index in 0.. {
        if durable.len() == kill_after {
            kill();
        }
        let path = dir.join(format!("f{index}"));
        let Ok(mut file) = fs::File::create(&path) else { break };
        if file.write_all(&content(index)).is_err() {
            break;
        }
        if index % 2 == 1 {
            continue;
        }
        if file.sync_all().is_err() {
            break;
        }
        durable.push(index);
    }
    durable
}

fn kill(image: &Path) {
    let pid = process_of(image);
    Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
}

/// Mounts once the dead process has let go of the file, which may take a moment.
fn again(sample: &Sample, target: &str) {
    let start = Instant::now();
    while sample.run(&["mount", target, "m", "--rw"]).code == 3 {
        assert!(start.elapsed() < Duration::from_secs(10), "the image stays locked");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn survives(sample: &Sample, target: &str) {
    let (image, dir) = (sample.path("c"), sample.path("m"));
    for moment in MOMENTS {
        if !mounted("a kill", &sample.run(&["mount", target, "m", "--rw"])) {
            return;
        }
        let durable = load(&dir, moment, || kill(&image));
        assert!(durable.len() >= moment);
        sample.ok(&["umount", "m"]);
        again(sample, target);
        for index in durable {
            let name = format!("f{index}");
            let found = fs::read(dir.join(&name)).unwrap();
            assert!(found == content(index), "moment {moment}: {name} is not what was synced");
        }
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            fs::read(&path).unwrap();
            fs::remove_file(path).unwrap();
        }
        fs::write(dir.join("after"), "the next life").unwrap();
        sample.ok(&["umount", "m"]);
        let run = sample.ok(&["check", target]);
        assert!(run.err.contains("consistent"), "{}", run.err);
        assert_eq!(sample.ok(&["cat", target, "after"]).out, "the next life");
    }
}

#[test]
fn a_killed_ubifs_mount_is_a_power_cut() {
    survives(&with_volumes(), "c:root");
}

#[test]
fn a_killed_jffs2_mount_is_a_power_cut() {
    survives(&nor(), "c");
}

/// A file without a name.
fn unnamed(dir: &Path) -> std::io::Result<fs::File> {
    let flags = OFlags::TMPFILE.bits().cast_signed();
    fs::File::options().read(true).write(true).custom_flags(flags).open(dir)
}

/// Bytes that no compressor makes smaller.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// A file without a name takes space while it is open, and none when its process is gone, however
/// it went; once it has a name it is like any other.
fn unnamed_files_go(sample: &Sample, target: &str) {
    let (image, dir) = (sample.path("c"), sample.path("m"));
    let free = || rustix::fs::statvfs(&dir).unwrap().f_bfree;
    if !mounted("files without names", &sample.run(&["mount", target, "m", "--rw"])) {
        return;
    }
    let (before, content) = (free(), noise(1 << 20));
    let is_back = || free() >= before - before / 10;
    let mut file = unnamed(&dir).unwrap();
    file.write_all(&content).unwrap();
    file.sync_all().unwrap();
    assert!(!is_back());
    drop(file);
    assert!((0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_back()
    }));
    let mut lost = unnamed(&dir).unwrap();
    lost.write_all(&content).unwrap();
    lost.sync_all().unwrap();
    let mut named = unnamed(&dir).unwrap();
    named.write_all(b"found").unwrap();
    let here = format!("/proc/self/fd/{}", named.as_raw_fd());
    rustix::fs::linkat(CWD, here, CWD, dir.join("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    named.sync_all().unwrap();
    kill(&image);
    drop((lost, named));
    sample.ok(&["umount", "m"]);
    again(sample, target);
    assert!(is_back(), "{} of {before} are free", free());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(dir.join("named")).unwrap(), "found");
    sample.ok(&["umount", "m"]);
    let run = sample.ok(&["check", target]);
    assert!(run.err.contains("consistent"), "{}", run.err);
}

#[test]
fn files_without_names_go() {
    unnamed_files_go(&with_volumes(), "c:root");
}

/// As Linux's own JFFS2 does.
#[test]
fn jffs2_has_no_files_without_names() {
    let sample = nor();
    if mounted("files without names", &sample.run(&["mount", "c", "m", "--rw"])) {
        let refused = unnamed(&sample.path("m")).unwrap_err().raw_os_error();
        assert_eq!(refused, Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()));
        sample.ok(&["umount", "m"]);
    }
}
