//! A mount whose process is killed leaves what a power cut leaves: the next mount repairs it, and
//! what was made durable is there.

use crate::mount::mounted;
use crate::mount_rw::{nor, process_of, with_volumes};
use crate::sample::Sample;
use std::fs;
use std::io::Write;
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

fn survives(sample: &Sample, target: &str) {
    let (image, dir) = (sample.path("c"), sample.path("m"));
    for moment in MOMENTS {
        if !mounted("a kill", &sample.run(&["mount", target, "m", "--rw"])) {
            return;
        }
        let durable = load(&dir, moment, || kill(&image));
        assert!(durable.len() >= moment);
        sample.ok(&["umount", "m"]);
        // The dead process may take a moment to let go of the file.
        let start = Instant::now();
        while sample.run(&["mount", target, "m", "--rw"]).code == 3 {
            assert!(start.elapsed() < Duration::from_secs(10), "the image stays locked");
            std::thread::sleep(Duration::from_millis(20));
        }
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
