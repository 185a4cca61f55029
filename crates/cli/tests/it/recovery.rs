//! When a file system turns read-only, every command reports the reason and the next step.

use crate::client::{Client, in_dir, visited};
use crate::mount::mounted;
use crate::mount_rw::with_volumes;
use crate::sample::Sample;
use nfs3_client::nfs3_types::nfs3::*;
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Content that no compressor makes smaller.
fn noise(path: &Path, len: usize) {
    fs::write(path, crate::sample::noise(len)).unwrap();
}

/// A chip with a file system that loses its power some events from now on.
fn about_to_fail(after: &str) -> Sample {
    let sample = with_volumes();
    noise(&sample.path("noise"), 1 << 20);
    sample.ok(&["put", "c:root", "src", "/kept"]);
    sample.ok(&["chip", "cut", "c", "--after", after]);
    sample
}

/// What was found when the chip was opened again, after a cut.
fn judge_cut(sample: &Sample) {
    let run = sample.run(&["check", "c:root"]);
    assert!(run.code <= 1, "{}", run.err);
    let json = sample.run(&["check", "c:root", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    // Whether anything reached the journal depends on the place of the cut.
    if run.err == "consistent\n" {
        assert!(json["next_steps"].as_array().unwrap().is_empty(), "{json}");
    } else {
        let hint = run.err.lines().rfind(|line| line.starts_with("hint: ")).unwrap();
        assert!(hint.contains("edit c:root -c sync"), "{}", run.err);
        assert!(json["next_steps"][0].as_str().unwrap().contains("-c sync"), "{json}");
    }
    sample.run(&["edit", "c:root", "-c", "sync"]);
    assert_eq!(sample.ok(&["check", "c:root"]).err, "consistent\n");
    sample.ok(&["get", "c:root", "/kept/bin/tool", "back"]);
    assert_eq!(fs::read(sample.path("back")).unwrap(), vec![0x5a; 70_000]);
}

/// Returns whether a message names the place of what failed.
fn tells_the_place(text: &str) -> bool {
    let reason = text.split("turned read-only").nth(1);
    let place = reason.and_then(|reason| reason.split("leb ").nth(1));
    place.is_some_and(|place| place.starts_with(|first: char| first.is_ascii_digit()))
}

#[test]
fn put_and_edit_tell_why_nothing_more_is_written() {
    let edit = ["edit", "c:root", "-c", "put noise /noise", "-c", "sync"];
    for arguments in [&["put", "c:root", "noise", "/noise"][..], &edit] {
        let sample = about_to_fail("600");
        let run = sample.run(arguments);
        assert_eq!(run.code, 3, "{}", run.err);
        assert!(tells_the_place(&run.err), "{}", run.err);
        for word in ["hint: ", "armed power cut", "eraseblock check c:root", "extract c:root DIR"] {
            assert!(run.err.contains(word), "{word}: {}", run.err);
        }
        judge_cut(&sample);
    }
}

/// The disk under an image file fails.
#[test]
fn an_image_on_a_full_disk_is_told_with_its_place() {
    let sample = Sample::new();
    let image = sample.ubifs();
    noise(&sample.path("noise"), 2 << 20);
    // The file has its full size before the disk has no room for more.
    sample.ok(&["edit", image, "-c", "mkdir /d"]);
    let half = "trap '' XFSZ; ulimit -f 5000; exec \"$0\" put root.ubifs noise /noise";
    let mut limited = Command::new("sh");
    limited.args(["-c", half, env!("CARGO_BIN_EXE_eraseblock")]);
    let run = crate::sample::finish(&mut limited, &sample.path(""));
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(tells_the_place(&run.err), "{}", run.err);
    assert!(run.err.contains("eraseblock check root.ubifs"), "{}", run.err);
    sample.run(&["edit", image, "-c", "sync"]);
    sample.ok(&["get", image, "/bin/tool", "back"]);
}

#[test]
fn mounts_tell_why_nothing_more_is_written() {
    let sample = about_to_fail("600");
    if !mounted("a failing medium", &sample.run(&["mount", "c:root", "m", "--rw"])) {
        return;
    }
    let failed = fs::copy(sample.path("noise"), sample.path("m/noise"))
        .and_then(|_| fs::File::open(sample.path("m/noise"))?.sync_all());
    assert!(failed.is_err());
    let stats = sample.ok(&["mount", "--stats", "m"]);
    assert!(tells_the_place(&stats.out), "{}", stats.out);
    assert!(
        stats.err.contains("hint: ") && stats.err.contains("/c:root` reports what is left"),
        "{}",
        stats.err
    );
    let json = sample.ok(&["mount", "--stats", "m", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["mounts"][0]["turned_read_only"].as_str().unwrap().contains("leb "), "{json}");
    let run = sample.run(&["umount", "m"]);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(tells_the_place(&run.err) && run.err.contains("hint: "), "{}", run.err);
    assert!(run.err.contains("/c:root DIR` copies out"), "{}", run.err);
    judge_cut(&sample);
}

/// Writes until it fails.
async fn fill(mut client: Client) {
    let root = client.root_nfs_fh3();
    let how = createhow3::UNCHECKED(sattr3::default());
    let args = CREATE3args { where_: in_dir(&root, "file"), how };
    let CREATE3res::Ok(made) = client.create(&args).await.unwrap() else { panic!("not made") };
    let Nfs3Option::Some(file) = made.obj else { panic!("no handle") };
    for offset in (0..64).map(|block| block << 16) {
        let data = Opaque::owned(vec![b'x'; 1 << 16]);
        let (count, stable) = (1 << 16, stable_how::FILE_SYNC);
        let write = WRITE3args { file: file.clone(), offset, count, stable, data };
        if matches!(client.write(&write).await.unwrap(), WRITE3res::Err(_)) {
            return;
        }
    }
    panic!("no failure");
}

#[test]
fn a_server_tells_why_nothing_more_is_written() {
    let sample = about_to_fail("300");
    let mut process = Command::new(env!("CARGO_BIN_EXE_eraseblock"))
        .args(["serve", "nfs", "c:root", "--rw", "-o", "compressor=none"])
        .args(["--listen", "127.0.0.1:0"])
        .current_dir(sample.path(""))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let mut line_with = |word: &str| loop {
        let line = lines.next().expect("a line").unwrap();
        if line.contains(word) {
            return line;
        }
    };
    let line = line_with("mount -t nfs");
    let port = line.split("mountport=").nth(1).unwrap().split(' ').next().unwrap();
    visited(port.parse().unwrap(), fill);
    let line = line_with("turned read-only");
    assert!(line.starts_with("error: c:root") && tells_the_place(&line), "{line}");
    let line = line_with("hint: ");
    assert!(line.contains("eraseblock check c:root"), "{line}");
    Command::new("kill").arg(process.id().to_string()).status().unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(3));
    judge_cut(&sample);
}

/// Flips bits of the first place where `needle` is.
fn damage(path: &Path, needle: &[u8]) {
    let mut content = fs::read(path).unwrap();
    let at = content.windows(needle.len()).position(|window| window == needle).unwrap();
    content[at] ^= 0xFF;
    fs::write(path, content).unwrap();
}

#[test]
fn a_check_says_what_is_lost_and_how_to_get_the_rest() {
    let sample = Sample::new();
    fs::write(sample.path("src/needle"), "a needle in the flash").unwrap();
    let image = sample.ubifs();
    damage(&sample.path(image), b"a needle in the flash");
    let run = sample.run(&["check", image]);
    assert_eq!(run.code, 1, "{}", run.err);
    let hint = run.err.lines().last().unwrap();
    assert!(hint.starts_with("hint: "), "{}", run.err);
    assert!(hint.contains("extract root.ubifs DIR"), "{}", run.err);
    assert_eq!(sample.run(&["extract", image, "out"]).code, 1);
    assert_eq!(fs::read(sample.path("out/bin/tool")).unwrap(), vec![0x5a; 70_000]);
}

/// Without a master node no mount is possible; what was written can be found all the same.
#[test]
fn what_no_mount_takes_is_still_read() {
    let sample = Sample::new();
    let image = sample.ubifs();
    let mut content = fs::read(sample.path(image)).unwrap();
    let leb_size = (128 << 10) - 4096;
    content[leb_size..3 * leb_size].fill(0xFF);
    fs::write(sample.path(image), content).unwrap();
    let run = sample.run(&["check", image]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("[not-mountable]") && run.err.contains("[master"), "{}", run.err);
    assert!(run.err.contains("it can still be read"), "{}", run.err);
    assert_eq!(sample.run(&["check", image, "--strict"]).code, 3);
    sample.run(&["extract", image, "out"]);
    assert_eq!(fs::read(sample.path("out/bin/tool")).unwrap(), vec![0x5a; 70_000]);
    // Unreadable files are not reported as readable.
    fs::write(sample.path("empty"), "").unwrap();
    assert!(!sample.run(&["check", "empty"]).err.contains("still be read"));
}
