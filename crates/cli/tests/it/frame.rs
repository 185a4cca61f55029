//! Exit codes, messages and output that do not depend on an image.

use crate::sample::Sample;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

#[test]
fn usage_errors_end_with_2() {
    let sample = Sample::new();
    for arguments in [&["nonsense"][..], &["ls"], &["ls", "x", "--color", "pink"]] {
        assert_eq!(sample.run(arguments).code, 2, "{arguments:?}");
    }
    let run = sample.run(&["mkfs", "ubifs", "src", "-o", "x"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("hint: --flash PART"), "{}", run.err);
}

#[test]
fn what_is_no_image_is_named() {
    let sample = Sample::new();
    fs::write(sample.path("squash"), b"hsqs and so on").unwrap();
    fs::write(sample.path("empty"), b"").unwrap();
    fs::write(sample.path("noise"), [7; 5000]).unwrap();
    for (target, message) in [
        ("squash", "squash: this is a SquashFS image"),
        ("empty", "empty: the file is empty"),
        ("noise", "neither a UBI, a UBIFS nor a JFFS2 image"),
        ("src", "is a folder"),
        ("missing", "missing: no such file"),
        ("noise:root", "neither a UBI, a UBIFS nor a JFFS2 image"),
    ] {
        for command in ["info", "ls"] {
            let run = sample.run(&[command, target]);
            assert_eq!(run.code, 3, "{target}");
            assert!(run.err.contains(message), "{target}: {}", run.err);
            assert_eq!(run.out, "");
        }
    }
}

#[test]
fn parts_are_listed_and_filtered() {
    let sample = Sample::new();
    let all = sample.ok(&["chip", "parts"]).out;
    assert!(all.lines().count() > 40);
    assert!(all.lines().all(|line| line.chars().count() <= 100));
    let run = sample.ok(&["chip", "parts", "w25n01", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["parts"][0]["page"], 2048);
    assert_eq!(sample.run(&["chip", "parts", "no such part"]).code, 3);
}

#[test]
fn completions_and_manual_pages_are_written() {
    let sample = Sample::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(sample.ok(&["completions", shell]).out.contains("extract"), "{shell}");
    }
    sample.ok(&["man", "man"]);
    for page in ["eraseblock.1", "eraseblock-extract.1", "eraseblock-mkfs-ubifs.1"] {
        assert!(sample.path("man").join(page).exists(), "{page}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let binary = env!("CARGO_BIN_EXE_eraseblock");
    let mut child =
        Command::new(binary).args(["completions", "zsh"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_link_of_a_classic_name_is_that_tool() {
    let sample = Sample::new();
    let link = sample.path("ubinize");
    symlink(env!("CARGO_BIN_EXE_eraseblock"), &link).unwrap();
    let output = Command::new(&link).arg("--version").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("ubinize "));
    let output = Command::new(&link).output().unwrap();
    assert_eq!(output.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("ubinize: error!: "));
}
