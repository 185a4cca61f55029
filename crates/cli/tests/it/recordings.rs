//! Recordings of applications: taken by mounts, replayed, and judged by fio and strace where they are
//! installed.

use crate::mount::mounted;
use crate::mount_rw::{nor, with_volumes};
use crate::sample::Sample;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// The recordings of the repository.
fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|it| it == "ops")).collect();
    all.sort();
    all
}

fn replay(sample: &Sample, arguments: &[&str]) -> Value {
    let run = sample.ok(&[&["lab", "replay-ops", "--json"], arguments].concat());
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn the_recordings_of_the_repository_are_replayed_everywhere() {
    let sample = Sample::new();
    let all = recordings();
    assert_eq!(all.len(), 6);
    for path in all {
        let path = path.to_str().unwrap();
        let found = ["ubifs", "jffs2", "yaffs2"].map(|fs| replay(&sample, &[path, "--fs", fs]));
        for other in &found {
            assert_eq!(other["steps"], found[0]["steps"], "{path}");
            assert_eq!(other["written"], found[0]["written"], "{path}");
            assert!(other["flash"]["page_programs"].as_u64().unwrap() > 50, "{path}: {other}");
        }
        assert_eq!(replay(&sample, &[path]), found[0], "the same twice: {path}");
        // In the kernel's file system below the tests, too.
        let folder = tempfile::tempdir_in(sample.path("")).unwrap();
        let here = replay(&sample, &[path, "--in", folder.path().to_str().unwrap()]);
        let steps = |found: &Value| {
            let steps = found["steps"].as_object().unwrap().values().map(|it| it.as_u64().unwrap());
            steps.sum::<u64>() + found["unsupported"].as_u64().unwrap()
        };
        assert_eq!(steps(&here), steps(&found[0]), "{path}");
        assert_eq!((&here["written"], &here["read"]), (&found[0]["written"], &found[0]["read"]));
        assert_eq!(&here["flash"], &Value::Null);
        let again =
            sample.run(&["lab", "replay-ops", path, "--in", folder.path().to_str().unwrap()]);
        assert!(again.code > 1 && again.err.contains("expected an empty one"), "{}", again.err);
    }
}

/// Returns the number of the calling thread.
fn thread_number() -> u64 {
    let link = fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Returns the threads that wrote, or created something.
fn writers(recording: &str) -> BTreeSet<u64> {
    let steps = recording.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let steps = steps.filter(|step| step["op"] == "write" || step["op"] == "create");
    steps.map(|step| step["thread"].as_u64().unwrap()).collect()
}

#[test]
fn a_mount_records_what_is_done_in_it() {
    let sample = nor();
    let mount = ["mount", "c", "m", "--rw", "--record", "app.ops"];
    if !mounted("a recorded mount", &sample.run(&mount)) {
        return;
    }
    let dir = sample.path("m");
    fs::create_dir(dir.join("d")).unwrap();
    fs::write(dir.join("d/new"), vec![0x5a; 30_000]).unwrap();
    fs::rename(dir.join("d/new"), dir.join("d/old")).unwrap();
    fs::write(dir.join("gone"), "x").unwrap();
    fs::remove_file(dir.join("gone")).unwrap();
    let name = dir.join("d/by-another");
    let another = thread::spawn(move || fs::write(name, "y").map(|()| thread_number()));
    let another = another.join().unwrap().unwrap();
    sample.ok(&["umount", "m"]);
    let written = writers(&fs::read_to_string(sample.path("app.ops")).unwrap());
    assert_eq!(written.into_iter().collect::<Vec<_>>(), [thread_number(), another]);
    let found = replay(&sample, &["app.ops", "--fs", "jffs2"]);
    let steps = &found["steps"];
    assert_eq!(
        [&steps["create"], &steps["rename"], &steps["unlink"]].map(Value::as_u64),
        [Some(4), Some(1), Some(1)]
    );
    assert_eq!(found["written"], 30_002);
    // In another image it leaves the same names.
    let other = with_volumes();
    fs::copy(sample.path("app.ops"), other.path("app.ops")).unwrap();
    let there = replay(&other, &["app.ops", "--on", "c:data"]);
    assert_eq!((&there["steps"], &there["flash"]), (steps, &Value::Null));
    assert_eq!(other.ok(&["ls", "c:data", "/"]).out, "d\n");
    let stat = other.ok(&["stat", "c:data", "/d/old", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&stat.out).unwrap()["size"], 30_000);
    // The recording is never written over.
    let again = sample.run(&mount);
    assert_eq!(again.code, 3);
    assert!(again.err.contains("app.ops"), "{}", again.err);
    assert_eq!(replay(&sample, &["app.ops", "--fs", "jffs2"]), found);
}

#[test]
fn what_cannot_be_replayed_is_refused_with_its_line() {
    let sample = Sample::new();
    let header = "{\"recording\":\"eraseblock ops\",\"version\":1}\n";
    for (text, told) in [
        ("nothing known\n".to_owned(), "line 1: neither"),
        (format!("{header}{{\"at\":0,\"op\":\"fly\"}}\n"), "line 2"),
        (format!("{header}{{\"at\":0,\"op\":\"open\",\"file\":9}}\n"), "step 1, open: file 9"),
    ] {
        fs::write(sample.path("x.ops"), text).unwrap();
        for command in
            [&["lab", "replay-ops", "x.ops"][..], &["lab", "convert-ops", "x.ops", "-o", "y"]]
        {
            if command[1] == "convert-ops" && told.contains("step") {
                continue;
            }
            let run = sample.run(command);
            assert!(run.code > 1, "{told}");
            assert!(run.err.contains("x.ops: ") && run.err.contains(told), "{}", run.err);
        }
        assert!(!sample.path("y").exists());
    }
    fs::write(sample.path("x.ops"), header).unwrap();
    let run = sample.run(&["lab", "convert-ops", "x.ops", "-o", "x.ops"]);
    assert!(run.code > 1 && run.err.contains("cannot be the output"), "{}", run.err);
    assert_eq!(fs::read_to_string(sample.path("x.ops")).unwrap(), header);
}

/// The reads and writes in a recording, as lines of fio's version 3 without times.
fn transfers(sample: &Sample, recording: &str, root: &Path) -> Vec<String> {
    let root = root.to_str().unwrap();
    sample.ok(&["lab", "convert-ops", recording, "--root", root, "-o", "as.fio", "--to", "fio3"]);
    let text = fs::read_to_string(sample.path("as.fio")).unwrap();
    let lines = text.lines().filter(|line| line.contains(" write ") || line.contains(" read "));
    lines.map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

/// Runs a foreign program under strace; `false` if one of them is not installed.
fn traced(sample: &Sample, arguments: &[&str]) -> bool {
    let options = ["-f", "-ttt", "-yy", "-e", "trace=%file,%desc", "-o", "trace.txt"];
    let run =
        Command::new("strace").args(options).args(arguments).current_dir(sample.path("")).output();
    match run {
        Ok(run) if run.status.success() => true,
        Ok(run) if !String::from_utf8_lossy(&run.stderr).contains("Cannot find executable") => {
            panic!("{}", String::from_utf8_lossy(&run.stderr))
        }
        _ => {
            let line = format!("left out: strace or {} is not installed\n", arguments[0]);
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            false
        }
    }
}

/// fio repeats on the host what was recorded here, and strace sees it read and write the same places;
/// what fio records is what strace saw.
#[test]
fn fio_and_strace_see_what_we_see() {
    let sample = Sample::new();
    let dir = sample.path("host").canonicalize().unwrap_or_else(|_| {
        fs::create_dir(sample.path("host")).unwrap();
        sample.path("host").canonicalize().unwrap()
    });
    let under = dir.to_str().unwrap();
    let path = recordings().into_iter().find(|path| path.ends_with("sqlite-wal.ops")).unwrap();
    let path = path.to_str().unwrap();
    sample.ok(&["lab", "convert-ops", path, "-o", "wal.fio", "--to", "fio3", "--under", under]);
    let expected = transfers(&sample, path, Path::new("/"));
    assert!(expected.len() > 300, "{}", expected.len());
    // fio opens files in which it reads.
    for name in ["app.db", "app.db-wal"] {
        fs::write(dir.join(name), vec![1; 1 << 20]).unwrap();
    }
    let job = ["fio", "--name=job", "--ioengine=psync", "--thread", "--replay_no_stall=1"];
    if !traced(&sample, &[&job[..], &["--read_iolog=wal.fio"]].concat()) {
        return;
    }
    assert_eq!(transfers(&sample, "trace.txt", &dir), expected);
    let file = format!("--filename={under}/f");
    let random = ["--rw=randrw", "--bs=4k", "--size=256k", "--write_iolog=own.fio", &file];
    assert!(traced(&sample, &[&job[..4], &random].concat()));
    let own = transfers(&sample, "own.fio", &dir);
    assert_eq!(own.len(), 64);
    let seen = transfers(&sample, "trace.txt", &dir);
    // Before it starts, fio lays the file out.
    assert_eq!(seen[seen.len() - own.len()..], own);
}

#[test]
fn a_replay_on_a_card_has_the_cost_and_time_of_the_card() {
    let sample = Sample::new();
    let path = recordings().into_iter().find(|path| path.ends_with("sqlite-delete.ops")).unwrap();
    let path = path.to_str().unwrap();
    let on = |card| replay(&sample, &[path, "--card", card]);
    let (cheap, found) = (on("sd-2012-c10"), on("sd-sandisk-2014"));
    for found in [&cheap, &found] {
        assert!(found["flash"].is_null());
        let of = |name: &str| found["card"][name].as_u64().unwrap();
        assert!(of("flushes") > 100 && of("writes") > 100, "{found}");
        assert!(of("programmed_bytes") >= of("host_bytes"), "{found}");
    }
    assert_ne!(cheap["card"]["virtual_ns"], found["card"]["virtual_ns"]);
    assert_eq!(cheap["card"]["host_bytes"], found["card"]["host_bytes"]);
    assert_eq!(on("sd-2012-c10"), cheap, "the same twice");
    let shown = sample.ok(&["lab", "replay-ops", path, "--card", "sd-2012-c10"]).out;
    assert!(shown.contains("seconds on the card"), "{shown}");
}

#[test]
fn a_recording_may_be_compressed() {
    let sample = Sample::new();
    let path = recordings().into_iter().find(|path| path.ends_with("update.ops")).unwrap();
    let path = path.to_str().unwrap();
    sample.ok(&["lab", "convert-ops", path, "-o", "update.ops.zst"]);
    let packed = fs::read(sample.path("update.ops.zst")).unwrap();
    let plain = fs::read(path).unwrap();
    assert!(packed.len() * 3 < plain.len(), "{} of {} bytes", packed.len(), plain.len());
    assert_eq!(replay(&sample, &["update.ops.zst"]), replay(&sample, &[path]));
    sample.ok(&["lab", "convert-ops", "update.ops.zst", "-o", "update.ops"]);
    assert_eq!(fs::read(sample.path("update.ops")).unwrap(), plain);
    // A half is refused, not taken for all of it.
    fs::write(sample.path("half.zst"), &packed[..packed.len() / 2]).unwrap();
    let run = sample.run(&["lab", "replay-ops", "half.zst"]);
    assert!(run.code != 0 && run.err.contains("line"), "{}", run.err);
}

#[test]
fn a_forecast_takes_a_recording_and_its_rate() {
    let sample = Sample::new();
    let path = recordings().into_iter().find(|path| path.ends_with("log-rotation.ops")).unwrap();
    let path = path.to_str().unwrap();
    let chip = ["--peb", "16KiB", "--page", "512", "--blocks", "128", "--erases", "16"];
    let ask = |more: &[&str]| -> Value {
        let forecast = ["lab", "forecast", "--recording", path, "--json"];
        serde_json::from_str(&sample.ok(&[&forecast, &chip[..], more].concat()).out).unwrap()
    };
    let found = ask(&[]);
    assert_eq!(found["workload"], path);
    assert_ne!(found["per_day"], 64 << 20, "the rate of the recording");
    assert_eq!(ask(&["--per-day", "1MiB"])["per_day"], 1 << 20);
    assert!(found["forecast"]["windows"].as_array().unwrap().len() >= 3);
    let both = sample.run(&["lab", "forecast", "--recording", path, "--workload", "log"]);
    assert_eq!(both.code, 2, "{}", both.err);
}
