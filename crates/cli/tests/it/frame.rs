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
        ("noise", "neither a UBI, a UBIFS, a JFFS2 nor a YAFFS image"),
        ("src", "is a folder"),
        ("missing", "missing: no such file"),
        ("noise:root", "neither a UBI, a UBIFS, a JFFS2 nor a YAFFS image"),
    ] {
        for command in ["info", "ls"] {
            let run = sample.run(&[command, target]);
            assert_eq!(run.code, 3, "{target}");
            assert!(run.err.contains(message), "{target}: {}", run.err);
            assert_eq!(run.out, "");
        }
    }
}

/// `check`, `put` and `edit` said "Is a directory" and nothing more, `chip` that a byte was wrong.
#[test]
fn what_cannot_be_changed_is_named() {
    let sample = Sample::new();
    for arguments in [&["check", "src"][..], &["put", "src", "src"], &["edit", "src", "-c", "ls"]] {
        let run = sample.run(arguments);
        assert_eq!(run.code, 3, "{arguments:?}");
        assert!(run.err.contains("src: is a folder, not an image"), "{arguments:?}: {}", run.err);
    }
    let image = sample.ubifs();
    for arguments in [
        &["chip", "stats", image][..],
        &["chip", "cut", image, "--after", "1"],
        &["chip", "age", image, "--off"],
    ] {
        let run = sample.run(arguments);
        assert_eq!(run.code, 3, "{arguments:?}");
        assert!(run.err.contains("root.ubifs: not a simulated chip"), "{arguments:?}: {}", run.err);
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

/// `put` and `lab replay` printed nothing, or a line of text, where a document was asked for.
#[test]
fn what_is_reported_is_a_document_when_asked_for() {
    let sample = Sample::new();
    let json = |arguments: &[&str]| {
        let out = sample.ok(&[arguments, &["--json"]].concat()).out;
        serde_json::from_str::<serde_json::Value>(&out).unwrap()
    };
    sample.ok(&["mkfs", "jffs2", "src", "-o", "a", "--peb", "16KiB", "--pad-to", "256KiB"]);
    let put = json(&["put", "a", "src/etc", "/new"]);
    assert_eq!(
        (&put["files"], &put["directories"], &put["bytes"]),
        (&2.into(), &1.into(), &21.into())
    );
    // Not every event of the workload is a program.
    let ids = (200..300).map(|event| format!("ubi/mini/1@{event}.P3"));
    let id = ids.into_iter().find(|id| sample.run(&["lab", "replay", id]).code == 0).unwrap();
    let judged = json(&["lab", "replay", &id]);
    assert_eq!(judged["id"], id);
    assert!(judged["violation"].is_null() && judged["findings"].is_array(), "{judged}");
}

#[test]
fn completions_and_manual_pages_are_written() {
    let sample = Sample::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(sample.ok(&["completions", shell]).out.contains("extract"), "{shell}");
    }
    sample.ok(&["man", "man", "--date", "2026-01-31"]);
    for page in ["eraseblock.1", "eraseblock-extract.1", "eraseblock-mkfs-ubifs.1"] {
        assert!(sample.path("man").join(page).exists(), "{page}");
    }
    let pages: Vec<_> = fs::read_dir(sample.path("man")).unwrap().map(Result::unwrap).collect();
    assert!(pages.len() > 40, "{}", pages.len());
    for page in pages {
        let text = fs::read_to_string(page.path()).unwrap();
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH \"EXIT STATUS\"", ".SH EXAMPLES"] {
            assert_eq!(text.matches(section).count(), 1, "{:?}: {section}", page.file_name());
        }
        let title = text.lines().find(|line| line.starts_with(".TH ")).unwrap();
        assert!(title.contains(" \"2026-01-31\" \"eraseblock 0."), "{title}");
        // Options that the short help leaves out had no text: the next paragraph followed their name.
        let lines: Vec<&str> = text.lines().collect();
        for three in lines.windows(3).filter(|three| three[0] == ".TP") {
            assert!(!three[2].starts_with('.') && !three[2].is_empty(), "{three:?}");
        }
        let examples = text.split(".SH EXAMPLES").nth(1).unwrap();
        assert!(examples.contains(".RS"), "{:?}", page.file_name());
    }
    for (page, says) in [
        ("mkfs.ubifs.8", "SOURCE_DATE_EPOCH"),
        ("ubinize.8", "255"),
        ("ubinize.8", "or the command line makes no sense"),
        ("fsck.jffs2.8", "Problems were corrected."),
        ("jefferson.1", "Nothing could be written."),
        ("mkfs.jffs2.1", "SOURCE_DATE_EPOCH"),
        ("sumtool.1", "255"),
        ("eraseblock-build.1", "SOURCE_DATE_EPOCH"),
    ] {
        assert!(
            fs::read_to_string(sample.path("man").join(page)).unwrap().contains(says),
            "{page}"
        );
    }
    for date in ["26", "2026-1-31x", "yesterday!"] {
        let refused = sample.run(&["man", "other", "--date", date]);
        assert!(refused.code == 2 && refused.err.contains("expected a date"), "{}", refused.err);
    }
    assert!(!sample.path("other").exists());
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
