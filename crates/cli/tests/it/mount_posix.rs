//! POSIX behaviour of mounted UBIFS and JFFS2, and the effect of mount options.

use crate::mount::mounted;
use crate::mount_rw::{holder, nor, process_of, state, with_volumes};
use crate::sample::Sample;
use rustix::fs::{CWD, Dir, FallocateFlags, RenameFlags, SeekFrom, Timespec, Timestamps};
use rustix::io::Errno;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Both file systems on new chips, with their names; none where there is no FUSE.
fn both(test: &str, visit: impl Fn(&Sample, &str)) {
    for (sample, target) in [(with_volumes(), "c:root"), (nor(), "c")] {
        if !mounted(test, &sample.run(&["mount", target, "m", "--rw"])) {
            return;
        }
        visit(&sample, target);
        sample.ok(&["umount", "m"]);
        let run = sample.ok(&["check", target]);
        assert!(run.err.contains("consistent"), "{target}: {}", run.err);
    }
}

/// Waits until no process holds the image, after the mount ended without `umount`.
pub(crate) fn wait_until_free(image: &Path) {
    let start = Instant::now();
    while holder(image).is_some() {
        assert!(start.elapsed() < Duration::from_secs(20), "the image stays locked");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills the process of a mount and removes the mount.
fn kill(sample: &Sample) {
    let pid = process_of(&sample.path("c")).to_string();
    Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    let run = sample.run(&["umount", "m"]);
    assert!(run.code == 1 && run.err.contains("not made durable"), "{}", run.err);
    wait_until_free(&sample.path("c"));
}

#[test]
fn a_rename_leaves_a_whiteout_on_ubifs_alone() {
    both("whiteouts", |sample, target| {
        let (from, to) = (sample.path("m/from"), sample.path("m/to"));
        fs::write(&from, "moved").unwrap();
        let renamed = rustix::fs::renameat_with(CWD, &from, CWD, &to, RenameFlags::WHITEOUT);
        if target == "c" {
            assert_eq!(renamed, Err(Errno::INVAL), "as on Linux's own JFFS2");
            return;
        }
        renamed.unwrap();
        let left = fs::metadata(&from).unwrap();
        assert!(left.file_type().is_char_device() && left.rdev() == 0);
        assert_eq!(fs::read_to_string(&to).unwrap(), "moved");
        let moved_over = rustix::fs::renameat_with(CWD, &to, CWD, &from, RenameFlags::NOREPLACE);
        assert_eq!(moved_over, Err(Errno::EXIST));
    });
}

#[test]
fn holes_and_data_are_found() {
    both("holes", |sample, target| {
        let file = fs::File::create_new(sample.path("m/sparse")).unwrap();
        file.write_all_at(&[1; 5000], 64 << 10).unwrap();
        file.set_len(256 << 10).unwrap();
        file.sync_all().unwrap();
        let seek = |from| rustix::fs::seek(&file, from);
        let data = seek(SeekFrom::Data(0)).unwrap();
        assert_eq!(data, 64 << 10, "{target}");
        let hole = seek(SeekFrom::Hole(data)).unwrap();
        assert!((data + 5000..=data + 8192).contains(&hole), "{target}: {hole}");
        assert_eq!(seek(SeekFrom::Hole(100)).unwrap(), 100, "{target}");
        assert_eq!(seek(SeekFrom::Data(hole)), Err(Errno::NXIO), "{target}");
        assert_eq!(seek(SeekFrom::Hole(256 << 10)), Err(Errno::NXIO), "{target}");
    });
}

#[test]
fn space_cannot_be_reserved_and_that_is_said() {
    both("fallocate", |sample, target| {
        let file = fs::File::create_new(sample.path("m/f")).unwrap();
        for flags in [FallocateFlags::empty(), FallocateFlags::KEEP_SIZE] {
            let refused = rustix::fs::fallocate(&file, flags, 0, 4096);
            assert_eq!(refused, Err(Errno::OPNOTSUPP), "{target}");
        }
        assert_eq!(file.metadata().unwrap().len(), 0, "{target}");
    });
}

#[test]
fn a_directory_that_changes_while_it_is_read_shows_what_stays_once() {
    both("readdir", |sample, target| {
        let dir = sample.path("m/d");
        fs::create_dir(&dir).unwrap();
        let name =
            |kind: &str, number: u32| dir.join(format!("{kind}-{}-{number}", "x".repeat(90)));
        for number in 0..400 {
            fs::write(name("stays", number), "").unwrap();
            fs::write(name("goes", number), "").unwrap();
        }
        let mut counts = BTreeMap::new();
        let open = fs::File::open(&dir).unwrap();
        for (read, entry) in Dir::read_from(&open).unwrap().enumerate() {
            let entry = entry.unwrap().file_name().to_string_lossy().into_owned();
            *counts.entry(entry).or_insert(0) += 1;
            if read == 20 {
                for number in 0..400 {
                    fs::remove_file(name("goes", number)).unwrap();
                    fs::write(name("new", number), "").unwrap();
                }
            }
        }
        assert!(counts.values().all(|count| *count == 1), "{target}: something twice");
        let stays = counts.keys().filter(|name| name.starts_with("stays")).count();
        assert_eq!(stays, 400, "{target}");
    });
}

/// JFFS2 has a byte less than UBIFS, as in Linux.
#[test]
fn names_are_bytes_up_to_the_longest() {
    both("names", |sample, target| {
        let dir = sample.path("m/d");
        fs::create_dir(&dir).unwrap();
        let longest = if target == "c" { 254 } else { 255 };
        let long = vec![0xFF; longest];
        let names = [&b"\xFF\xFE\n\x01"[..], b"...", b" ", &long];
        for name in names {
            fs::write(dir.join(OsStr::from_bytes(name)), name).unwrap();
        }
        let error = fs::write(dir.join("n".repeat(longest + 1)), "").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()), "{target}");
        let listed = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
        let listed: BTreeSet<OsString> = listed.collect();
        assert_eq!(listed, names.map(|name| OsStr::from_bytes(name).to_owned()).into());
        for name in names {
            assert_eq!(fs::read(dir.join(OsStr::from_bytes(name))).unwrap(), name, "{target}");
        }
    });
}

/// Both keep whole seconds, as Linux does: times are the same before and after a remount.
#[test]
fn times_are_told_as_they_are_kept() {
    for (sample, target) in [(with_volumes(), "c:root"), (nor(), "c")] {
        if !mounted("times", &sample.run(&["mount", target, "m", "--rw"])) {
            return;
        }
        let file = sample.path("m/f");
        fs::write(&file, "").unwrap();
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let last_access = time(1_000_000_001, 987_654_321);
        let last_modification = time(1_234_567_890, 123_456_789);
        let times = Timestamps { last_access, last_modification };
        rustix::fs::utimensat(CWD, &file, &times, rustix::fs::AtFlags::empty()).unwrap();
        let told = || {
            let found = fs::metadata(&file).unwrap();
            [(found.atime(), found.atime_nsec()), (found.mtime(), found.mtime_nsec())]
        };
        let before = told();
        assert_eq!(before[0].0, 1_000_000_001, "{target}");
        assert_eq!(before[1].0, 1_234_567_890, "{target}");
        sample.ok(&["umount", "m"]);
        sample.ok(&["mount", target, "m"]);
        assert_eq!(told(), before, "{target}");
        sample.ok(&["umount", "m"]);
        assert!(before.iter().all(|time| time.1 == 0), "{target}: {before:?}");
    }
}

#[test]
fn sync_mounts_lose_nothing_when_they_are_killed() {
    for (sample, target) in [(with_volumes(), "c:root"), (nor(), "c")] {
        if !mounted("sync", &sample.run(&["mount", target, "m", "--rw", "-o", "sync"])) {
            return;
        }
        let content: Vec<u8> = (0..60_000_u32).flat_map(u32::to_le_bytes).collect();
        fs::create_dir(sample.path("m/d")).unwrap();
        // Nothing is synchronised by the program.
        let mut file = fs::File::create_new(sample.path("m/d/f")).unwrap();
        for part in content.chunks(10_000) {
            file.write_all(part).unwrap();
        }
        drop(file);
        fs::rename(sample.path("m/d/f"), sample.path("m/d/g")).unwrap();
        kill(&sample);
        sample.ok(&["mount", target, "m"]);
        assert!(fs::read(sample.path("m/d/g")).unwrap() == content, "{target}");
        assert_eq!(fs::read_dir(sample.path("m/d")).unwrap().count(), 1, "{target}");
        sample.ok(&["umount", "m"]);
    }
}

fn programmed(sample: &Sample) -> u64 {
    let told = sample.ok(&["mount", "--stats", "m", "--json"]).out;
    let told: Value = serde_json::from_str(&told).unwrap();
    told["flash_bytes_programmed"].as_u64().unwrap()
}

#[test]
fn the_compressor_is_the_one_asked_for() {
    for (make, target) in [(with_volumes as fn() -> Sample, "c:root"), (nor, "c")] {
        let written = |compressor: &str| {
            let sample = make();
            let option = format!("compressor={compressor}");
            let run = sample.run(&["mount", target, "m", "--rw", "-o", &option]);
            if !mounted("compressors", &run) {
                return None;
            }
            let before = programmed(&sample);
            let text = "a line of text that is worth compressing\n".repeat(20_000);
            let mut file = fs::File::create_new(sample.path("m/f")).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.sync_all().unwrap();
            drop(file);
            let after = programmed(&sample);
            sample.ok(&["umount", "m"]);
            assert_eq!(sample.ok(&["cat", target, "f"]).out, text, "{target}");
            Some((after - before) * 10 / text.len() as u64)
        };
        let Some(plain) = written("none") else { return };
        let (zlib, lzo) = (written("zlib").unwrap(), written("lzo").unwrap());
        assert!(plain >= 10 && zlib < 5 && lzo < 5, "{target}: {plain} {zlib} {lzo}");
    }
}

#[test]
fn the_cache_keeps_to_its_budget() {
    let written_early = |options: &str| {
        let sample = Sample::new();
        let chip = ["--size", "64MiB", "--peb", "128KiB", "--page", "2048", "--oob", "64"];
        sample.ok(&[&["chip", "new", "c"][..], &chip].concat());
        sample.ok(&["ubi", "format", "c"]);
        sample.ok(&["ubi", "mkvol", "c", "root", "--size", "40MiB"]);
        fs::create_dir(sample.path("m")).unwrap();
        if !mounted("cache", &sample.run(&["mount", "c:root", "m", "--rw", "-o", options])) {
            return None;
        }
        let before = programmed(&sample);
        fs::write(sample.path("m/f"), vec![7; 6 << 20]).unwrap();
        let early = programmed(&sample) - before;
        sample.ok(&["umount", "m"]);
        Some(early)
    };
    let Some(small) = written_early("compressor=none,cache=1MiB") else { return };
    assert!(small > 5 << 20, "{small} of 6 MiB are on flash, at most 0.5 MiB may be in memory");
    let large = written_early("compressor=none,cache=64MiB").unwrap();
    assert!(large < 3 << 20, "{large} of 6 MiB are on flash, all of it fits into memory");
}

#[test]
fn nothing_is_executed_with_noexec() {
    let sample = with_volumes();
    if !mounted("noexec", &sample.run(&["mount", "c:root", "m", "--rw"])) {
        return;
    }
    let program = sample.path("m/true");
    fs::write(&program, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Command::new(&program).status().unwrap().success());
    sample.ok(&["umount", "m"]);
    sample.ok(&["mount", "c:root", "m", "-o", "noexec"]);
    let refused = Command::new(&program).status().unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    sample.ok(&["umount", "m"]);
}

#[test]
fn fusermount3_leaves_a_clean_image() {
    for (sample, target) in [(with_volumes(), "c:root"), (nor(), "c")] {
        if !mounted("fusermount3", &sample.run(&["mount", target, "m", "--rw"])) {
            return;
        }
        fs::write(sample.path("m/f"), vec![9; 300_000]).unwrap();
        let place = sample.path("m");
        let ended = Command::new("fusermount3").arg("-u").arg(&place).status();
        if !ended.is_ok_and(|ended| ended.success()) {
            sample.ok(&["umount", "m"]);
        }
        wait_until_free(&sample.path("c"));
        let info = sample.ok(&["info", "c"]).out;
        assert!(target == "c" || info.contains("state           clean"), "{info}");
        assert!(sample.ok(&["check", target]).err.contains("consistent"));
        assert_eq!(sample.ok(&["cat", target, "f"]).out.len(), 300_000, "{target}");
    }
}

#[test]
fn reading_what_was_cut_off_writes_nothing() {
    for (sample, target) in [(with_volumes(), "c:root"), (nor(), "c")] {
        if !mounted("cut off", &sample.run(&["mount", target, "m", "--rw"])) {
            return;
        }
        let file = fs::File::create_new(sample.path("m/synced")).unwrap();
        file.write_all_at(&vec![5; 100_000], 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        fs::write(sample.path("m/lost"), vec![6; 50_000]).unwrap();
        kill(&sample);
        let info = sample.run(&["info", "c"]).out;
        assert!(target == "c" || !info.contains("state           clean"), "{info}");
        let before = state(&sample.path("c"));
        sample.ok(&["mount", target, "m"]);
        assert_eq!(fs::read(sample.path("m/synced")).unwrap(), vec![5; 100_000], "{target}");
        let _ = fs::read(sample.path("m/lost"));
        let _ = fs::read_dir(sample.path("m")).unwrap().count();
        sample.ok(&["umount", "m"]);
        assert!(before == state(&sample.path("c")), "{target} changed");
    }
}
