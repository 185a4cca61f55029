//! JFFS2 images and chips changed: `put`, `edit`, `get` and `check`, and what jffs2dump says.

use crate::sample::{Sample, noise};
use std::fs;

const TOLD: [&str; 2] = ["--peb", "16KiB"];

/// A sample with a file that does not compress.
fn sample() -> Sample {
    let sample = Sample::new();
    fs::write(sample.path("noise"), noise(40_000)).unwrap();
    sample
}

/// The same again, and jffs2dump finds nothing wrong with the image.
fn dump(sample: &Sample, image: &str, order: &str) {
    let order = if order == "big" { "-b" } else { "-l" };
    if let Some(run) = sample.classic("jffs2dump", &["-c", order, image]) {
        let text = run.out + &run.err;
        // The zeros before a page border that are too few for a node are as Linux writes them.
        let is_wrong = |line: &&str| {
            line.to_lowercase().contains("wrong") && !line.trim_end().ends_with(", 0x0000")
        };
        let wrong: Vec<_> = text.lines().filter(is_wrong).collect();
        assert!(text.contains("Inode") && wrong.is_empty(), "{image} {order}: {wrong:?}");
    }
}

/// Edits, puts and gets; afterwards everything agrees.
fn change(sample: &Sample, target: &str, told: &[&str]) {
    let ok = |words: &[&str]| sample.ok(&[words, told].concat());
    ok(&["put", target, "noise", "cut"]);
    ok(&["check", target]);
    let commands = ["mkdir d", "mv bin/tool d/tool", "rm etc/hosts", "ln d/tool again"];
    let more = ["truncate 1000 cut", "setfattr user.k v d", "chmod 700 d", "put noise d/n"];
    let commands: Vec<&str> = commands.iter().chain(&more).flat_map(|c| ["-c", c]).collect();
    ok(&[&["edit", target][..], &commands].concat());
    // The verdict is the last word: a note after it looked like trouble.
    let said = ok(&["check", target]).err;
    assert!(said.contains("this is normal") && said.ends_with("consistent\n"), "{said}");
    ok(&["get", target, "/d/n", "back"]);
    assert_eq!(fs::read(sample.path("back")).unwrap(), noise(40_000));
    assert_eq!(ok(&["cat", target, "cut"]).out.len(), {
        String::from_utf8_lossy(&noise(40_000)[..1000]).len()
    });
    let listed = ok(&["ls", target]).out;
    assert!(listed.contains("again") && listed.contains('d'), "{listed}");
    assert!(!ok(&["ls", target, "etc"]).out.contains("hosts"));
    fs::remove_file(sample.path("back")).unwrap();
}

#[test]
fn images_and_chips_of_every_kind_are_changed() {
    for order in ["little", "big"] {
        for (markers, page) in [("12", &["--page", "1"][..]), ("none", &["--page", "512"])] {
            let sample = sample();
            let made = ["mkfs", "jffs2", "src", "-o", "a", "--byte-order", order, "--summary"];
            let markers = [&made[..], &TOLD, &["--cleanmarker", markers]].concat();
            sample.ok(&[&markers[..], &["--pad-to", "512KiB"]].concat());
            sample.ok(&[&["chip", "new", "c", "--size", "512KiB"][..], &TOLD, page].concat());
            sample.ok(&["chip", "import", "c", "a"]);
            change(&sample, "a", &TOLD);
            dump(&sample, "a", order);
            change(&sample, "c", &["--format", "jffs2"]);
            sample.ok(&["chip", "export", "c", "b"]);
            dump(&sample, "b", order);
        }
    }
}

#[test]
fn an_image_without_cleanmarkers_stays_without() {
    let sample = sample();
    let made = ["mkfs", "jffs2", "src", "-o", "a", "--cleanmarker", "none", "--pad-to", "512KiB"];
    sample.ok(&[&made[..], &TOLD].concat());
    let script = ["put", "a", "noise", "one"];
    sample.ok(&[&script[..], &TOLD].concat());
    // Enough to fill blocks and to collect some.
    for _ in 0..12 {
        sample.ok(&["put", "a", "noise", "two"]);
    }
    let found = sample.ok(&["check", "a"]).err;
    assert!(found.contains("consistent") && !found.contains("summary"), "{found}");
    let info = sample.ok(&["info", "a"]).out;
    let line = info.lines().find(|line| line.contains("cleanmarkers")).unwrap();
    assert!(line.ends_with("none"), "{info}");
    assert!(info.contains("summar"), "{info}");
    dump(&sample, "a", "little");
}

#[test]
fn nothing_is_written_where_blocks_are_guessed() {
    let sample = sample();
    let made = ["mkfs", "jffs2", "src/etc", "-o", "a", "--cleanmarker", "none"];
    sample.ok(&[&made[..], &["--pad-to", "512KiB"], &TOLD].concat());
    sample.ok(&["mkfs", "jffs2", "src/etc", "-o", "short", "--peb", "64KiB"]);
    for (image, more) in [("a", &[][..]), ("short", &["--size", "1MiB"])] {
        let before = fs::read(sample.path(image)).unwrap();
        for words in [&["put", image, "noise", "x"][..], &["edit", image, "-c", "touch x"]] {
            let run = sample.run(&[words, more].concat());
            assert_eq!(run.code, 2, "{}", run.err);
            assert!(run.err.contains("is a guess") && run.err.contains("--peb"), "{}", run.err);
        }
        assert!(fs::read(sample.path(image)).unwrap() == before);
        assert!(sample.run(&["check", image]).err.contains("consistent"));
    }
    sample.ok(&[&["put", "a", "noise", "x"][..], &TOLD].concat());
    sample.ok(&["put", "short", "noise", "x", "--peb", "64KiB", "--size", "1MiB"]);
    assert_eq!(fs::metadata(sample.path("short")).unwrap().len(), 1 << 20);
    assert_eq!(sample.ok(&["check", "short"]).err, "consistent\n");
}

/// A script on standard input is done line by line up to the first that cannot be.
#[test]
fn a_script_comes_from_standard_input() {
    let sample = sample();
    let made = ["mkfs", "jffs2", "src", "-o", "a", "--pad-to", "512KiB"];
    sample.ok(&[&made[..], &TOLD].concat());
    let edit = |script: &str| {
        fs::write(sample.path("script"), script).unwrap();
        sample
            .classic("sh", &["-c", "exec \"$0\" edit a <script", env!("CARGO_BIN_EXE_eraseblock")])
    };
    let run = edit("# a comment\n\nmkdir d\nput noise d/n\ncheck\nquit\nrm -r d\n").unwrap();
    assert_eq!(run.code, 0, "{}", run.err);
    let run = edit("mkdir e\nrm nothing\nrm -r d\n").unwrap();
    assert_eq!(run.code, 3);
    assert!(run.err.contains("line 2: "), "{}", run.err);
    let listed = sample.ok(&["ls", "a"]).out;
    assert!(listed.contains("d\n") && listed.contains("e\n"), "{listed}");
    sample.ok(&["get", "a", "/d/n", "back"]);
    assert_eq!(fs::read(sample.path("back")).unwrap(), noise(40_000));
}

/// A size that the image itself contradicts was believed, and the image written to.
#[test]
fn nothing_is_written_in_blocks_that_the_image_contradicts() {
    let sample = sample();
    fs::copy(sample.path("noise"), sample.path("src/noise")).unwrap();
    let made = ["mkfs", "jffs2", "src", "-o"];
    sample.ok(&[&made[..], &["proven", "--pad-to", "512KiB"], &TOLD].concat());
    sample.ok(&[&made[..], &["guessed", "--peb", "64KiB", "--cleanmarker", "none"]].concat());
    for (image, wrong, right) in
        [("proven", &["32KiB", "20000"][..], "16KiB"), ("guessed", &["8KiB"], "64KiB")]
    {
        let put = |peb| sample.run(&["put", image, "noise", "x", "--size", "512KiB", "--peb", peb]);
        let before = fs::read(sample.path(image)).unwrap();
        for peb in wrong {
            let run = put(peb);
            assert_eq!(run.code, 2, "{peb}: {}", run.err);
            assert!(run.err.contains("the nodes of the image lie in"), "{peb}: {}", run.err);
        }
        assert!(fs::read(sample.path(image)).unwrap() == before);
        assert_eq!(put(right).code, 0);
    }
}

#[test]
fn an_image_that_ends_inside_a_block_is_all_there() {
    let sample = sample();
    fs::copy(sample.path("noise"), sample.path("src/z")).unwrap();
    sample.ok(&[&["mkfs", "jffs2", "src", "-o", "a"][..], &TOLD].concat());
    let len = fs::metadata(sample.path("a")).unwrap().len();
    assert!(!len.is_multiple_of(16 << 10) && len < 5 << 14);
    assert_eq!(sample.ok(&["check", "a"]).err, "consistent\n");
    sample.ok(&["get", "a", "z", "back"]);
    assert_eq!(fs::read(sample.path("back")).unwrap(), noise(40_000));
    assert_eq!(fs::metadata(sample.path("a")).unwrap().len(), len);
    let few = sample.run(&["put", "a", "noise", "y"]);
    assert!(few.code == 3 && few.err.contains("--size"), "{}", few.err);
    let small = sample.run(&["put", "a", "noise", "y", "--size", "48KiB"]);
    assert!(small.code != 0 && small.err.contains("--size"), "{}", small.err);
    sample.ok(&["put", "a", "noise", "y", "--size", "512KiB"]);
    sample.ok(&["get", "a", "z", "again"]);
    assert_eq!(fs::read(sample.path("again")).unwrap(), noise(40_000));
    assert_eq!(sample.ok(&["check", "a"]).err, "consistent\n");
    dump(&sample, "a", "little");
}

#[test]
fn an_image_inside_another_file_is_written_to_where_it_is_told() {
    let sample = sample();
    let made = ["mkfs", "jffs2", "src", "-o", "part", "--pad-to", "256KiB"];
    sample.ok(&[&made[..], &TOLD].concat());
    let part = fs::read(sample.path("part")).unwrap();
    let (head, tail) = (vec![7; 50_000], vec![9; 70_000]);
    fs::write(sample.path("fw"), [&head[..], &part, &tail].concat()).unwrap();
    let before = fs::read(sample.path("fw")).unwrap();
    for words in [&["put", "fw", "noise", "x"][..], &["edit", "fw", "-c", "touch x"]] {
        let run = sample.run(words);
        assert_eq!(run.code, 3, "{}", run.err);
        for word in ["JFFS2", "begins at byte 50000", "--start 50000", "tail -c +50001 fw"] {
            assert!(run.err.contains(word), "{word}: {}", run.err);
        }
    }
    assert!(fs::read(sample.path("fw")).unwrap() == before);
    assert!(sample.run(&["get", "fw", "etc/hosts", "hosts"]).code != 2);
    assert_eq!(fs::read(sample.path("hosts")).unwrap(), b"127.0.0.1 localhost\n");
    sample.ok(&["put", "fw", "noise", "x", "--start", "50000", "--size", "256KiB"]);
    let after = fs::read(sample.path("fw")).unwrap();
    assert!(after[..50_000] == head && after[50_000 + (256 << 10)..] == tail);
    assert!(after != before && after.len() == before.len());
}
