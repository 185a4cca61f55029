//! What a command writes never replaces what it reads, and a run that ends early leaves nothing.

use crate::sample::Sample;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SHAPE: [&str; 6] = ["--peb", "128KiB", "--page", "2048", "--max-lebs", "60"];

const INI: &str =
    "[root]\nmode=ubi\nimage=root.ubifs\nvol_id=0\nvol_type=dynamic\nvol_name=r\nvol_size=6MiB\n";

/// Every regular file below a folder, with its content.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            } else if entry.file_type().unwrap().is_file() {
                found.insert(entry.path().display().to_string(), fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

/// A folder with an input of every kind.
fn inputs() -> Sample {
    let sample = Sample::new();
    sample.ubifs();
    sample.ubi();
    let run = |arguments: &[&str]| sample.ok(arguments);
    run(&["extract", "root.ubifs", "--tar", "t.tar", "-q"]);
    run(&["mkfs", "jffs2", "src", "-o", "j.jffs2", "--peb", "64KiB", "--pad-to", "1MiB", "-q"]);
    run(&["chip", "new", "c.chip", "--size", "8MiB", "--peb", "16KiB", "--page", "512", "-q"]);
    run(&["ubi", "format", "c.chip", "-q"]);
    run(&["ubi", "mkvol", "c.chip", "v", "--size", "4MiB", "-q"]);
    fs::write(sample.path("root.ini"), INI).unwrap();
    fs::write(sample.path("table"), "/dev d 755 0 0 - - - - -\n").unwrap();
    fs::write(sample.path("contexts"), "/.* u:r:t\n").unwrap();
    for (name, target) in [("hard.ubi", "all.ubi"), ("hard.chip", "c.chip")] {
        fs::hard_link(sample.path(target), sample.path(name)).unwrap();
    }
    symlink("all.ubi", sample.path("soft.ubi")).unwrap();
    sample
}

/// `extract board.ubi --tar board.ubi` replaced the dump by an archive, and so did the others.
#[test]
fn an_input_is_never_the_output() {
    let sample = inputs();
    let before = contents(&sample.path("."));
    let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let shape = SHAPE.join(" ");
    let ubifs = format!("mkfs ubifs t.tar {shape} -o");
    let classic = "mkfs.ubifs -r src -m 2048 -e 126976 -c 60";
    for line in [
        "extract all.ubi:rootfs --force --tar all.ubi".to_owned(),
        "extract all.ubi:rootfs --force --tar hard.ubi".to_owned(),
        "extract all.ubi:rootfs --force --tar soft.ubi".to_owned(),
        "extract soft.ubi:rootfs --force --tar all.ubi".to_owned(),
        "extract j.jffs2 --force --tar j.jffs2".to_owned(),
        "extract root.ubifs --force --tar root.ubifs".to_owned(),
        "get all.ubi:rootfs /etc/hosts all.ubi --force".to_owned(),
        "get all.ubi:rootfs /etc/hosts hard.ubi -f".to_owned(),
        "edit j.jffs2 -c get\t-f\t/etc/hosts\tj.jffs2".to_owned(),
        "chip export c.chip c.chip --force".to_owned(),
        "chip export c.chip hard.chip --force".to_owned(),
        "chip import c.chip c.chip".to_owned(),
        "chip import c.chip hard.chip".to_owned(),
        "ubi update c.chip:v hard.chip".to_owned(),
        "put j.jffs2 j.jffs2 /".to_owned(),
        "build layout.toml -o layout.toml".to_owned(),
        "build layout.toml -o kernel".to_owned(),
        format!("{ubifs} t.tar"),
        format!("{ubifs} table --devtable table"),
        format!("{ubifs} contexts --selinux contexts"),
        "mkfs jffs2 t.tar --peb 64KiB -o t.tar".to_owned(),
        "mkfs jffs2 src --peb 64KiB --append-to j.jffs2 -o j.jffs2".to_owned(),
        "ubinize -p 128KiB -m 2048 root.ini -o root.ini".to_owned(),
        "ubinize -p 128KiB -m 2048 root.ini -o root.ubifs".to_owned(),
        format!("{classic} -D table -o table"),
        format!("{classic} -s contexts contexts"),
        "mkfs.jffs2 -r src -D table -o table".to_owned(),
        "mkfs.jffs2 -r src -i j.jffs2 -o j.jffs2".to_owned(),
        "sumtool -i j.jffs2 -o j.jffs2".to_owned(),
    ] {
        // A tab stands for a blank within a word.
        let words: Vec<String> = words(&line).iter().map(|word| word.replace('\t', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let run = sample.run(&words);
        assert!(run.code != 0 && run.code != 1, "{line}: {}\n{}", run.code, run.err);
        let is_explained =
            run.err.contains("cannot be the output") || run.err.contains("cannot go into itself");
        assert!(is_explained, "{line}: {}", run.err);
        assert!(contents(&sample.path(".")) == before, "{line}");
    }
}

/// An archive that a shell appends to is the input, too.
#[test]
fn standard_output_is_not_appended_to_an_input() {
    let sample = inputs();
    let binary = env!("CARGO_BIN_EXE_eraseblock");
    for (line, input) in [
        ("extract all.ubi:rootfs --tar - >> all.ubi", "all.ubi"),
        ("cat all.ubi:kernel >> all.ubi", "all.ubi"),
        ("get all.ubi:rootfs /etc/hosts - >> all.ubi", "all.ubi"),
        ("mkfs ubifs - --leb 126976 --min-io 2048 --max-lebs 60 -o - < t.tar >> t.tar", "t.tar"),
    ] {
        let before = fs::read(sample.path(input)).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{binary} {line}")]).current_dir(sample.path("."));
        let output = shell.output().unwrap();
        assert!(!output.status.success(), "{line}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("standard output: cannot be the output"), "{line}: {said}");
        assert!(fs::read(sample.path(input)).unwrap() == before, "{line}");
    }
}

/// With `--force` a file of the image replaces one of the folder, but not the image itself.
#[test]
fn extracting_does_not_replace_the_image() {
    let sample = Sample::new();
    fs::write(sample.path("src/root.ubifs"), "a file that is called so").unwrap();
    let image = sample.ubifs();
    let before = fs::read(sample.path(image)).unwrap();
    let run = sample.run(&["extract", image, ".", "--force"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("root.ubifs: left out"), "{}", run.err);
    assert!(fs::read(sample.path(image)).unwrap() == before);
    assert!(sample.path("etc/hosts").exists());
    let run = sample.run(&["get", image, "/", ".", "--force"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(fs::read(sample.path(image)).unwrap() == before);
}

/// Files whose content takes a while to be written.
fn large() -> Sample {
    let sample = Sample::new();
    let bytes = crate::sample::noise(8 << 20);
    for index in 0..6 {
        fs::write(sample.path("src").join(format!("large{index}")), &bytes).unwrap();
    }
    sample
}

const LARGE: &str = "[flash]\npeb = \"128KiB\"\npage = 2048\nblocks = 1000\n\n[[volume]]\nname = \"r\"\nsize = \"90MiB\"\ncontent = { ubifs = \"src\", compressor = \"zlib\" }\n";

/// Ctrl-C, TERM and KILL left hidden files of the size of the image.
#[test]
fn a_signal_leaves_nothing() {
    let sample = large();
    fs::write(sample.path("large.toml"), LARGE).unwrap();
    sample.ok(&["build", "large.toml", "-o", "large.ubi", "-q"]);
    fs::create_dir(sample.path("out")).unwrap();
    fs::write(sample.path("out/there"), "before").unwrap();
    let shape = "--peb 128KiB --page 2048 --max-lebs 900 --compressor zlib";
    for line in [
        "build large.toml -o out/x".to_owned(),
        format!("mkfs ubifs src {shape} -o out/there"),
        "mkfs jffs2 src --peb 128KiB -o out/x".to_owned(),
        "extract large.ubi --tar out/x".to_owned(),
    ] {
        for (name, number) in [("INT", 2), ("TERM", 15), ("KILL", 9)] {
            let ended = interrupted(&sample, &line, name);
            // A command may be done before the signal comes; then its file is whole.
            if ended.signal() == Some(number) {
                let names: Vec<_> = contents(&sample.path("out")).into_iter().collect();
                let [(name, bytes)] = names.as_slice() else { panic!("{line}: {}", names.len()) };
                assert!(name.ends_with("out/there") && bytes == b"before", "{line}: {name}");
            } else {
                assert!(ended.success(), "{line} {name}: {ended}");
                panic!("{line}: ended before the signal came; the input is too small");
            }
        }
    }
}

fn interrupted(sample: &Sample, line: &str, signal: &str) -> std::process::ExitStatus {
    // A background job of a shell ignores SIGINT, and its children inherit that.
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_eraseblock")]);
    command.args(line.split(' ')).current_dir(sample.path(".")).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // Until it has begun its output: an open file in the folder.
    let folder = sample.path("out").canonicalize().unwrap();
    let start = Instant::now();
    let descriptors = format!("/proc/{}/fd", child.id());
    let has_begun = || {
        let open = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        let paths: Vec<_> = open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        paths.iter().any(|path| path.starts_with(&folder) && !path.ends_with("there"))
    };
    while !has_begun() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    child.wait().unwrap()
}

/// A full disk gave one finding for every file and ended with 1; with `-q` it said nothing.
#[test]
fn a_full_disk_is_one_error() {
    let sample = large();
    fs::write(sample.path("large.toml"), LARGE).unwrap();
    sample.ok(&["build", "large.toml", "-o", "large.ubi", "-q"]);
    let Some(small) = SmallDisk::new(&sample) else { return };
    let shape = "--peb 128KiB --page 2048 --max-lebs 900 --compressor none";
    for line in [
        "extract large.ubi disk/x".to_owned(),
        "extract large.ubi --tar disk/x".to_owned(),
        "get large.ubi /large1 disk/x".to_owned(),
        "get large.ubi / disk/x".to_owned(),
        "build large.toml -o disk/x".to_owned(),
        format!("mkfs ubifs src {shape} -o disk/x"),
        "mkfs jffs2 src --peb 128KiB -o disk/x".to_owned(),
        "mkfs.jffs2 -r src -o disk/x".to_owned(),
        "mkfs.ubifs -r src -m 2048 -e 126976 -c 900 -o disk/x".to_owned(),
        "chip new disk/x --size 8MiB --peb 16KiB --page 512".to_owned(),
    ] {
        for quiet in [false, true] {
            let is_classic = line.starts_with("mkfs.");
            if is_classic && quiet || line.starts_with("chip new") {
                continue;
            }
            let mut words: Vec<&str> = line.split(' ').collect();
            words.extend(quiet.then_some("-q"));
            let run = sample.run(&words);
            let expected = if is_classic { 255 } else { 3 };
            assert_eq!(run.code, expected, "{line}: {}", run.err);
            assert!(run.err.contains("No space left on device"), "{line}: {}", run.err);
            let errors = run.err.lines().filter(|line| line.contains("error")).count();
            assert_eq!(errors, 1, "{line}: {}", run.err);
            assert!(run.err.contains("hint: free some space"), "{line}: {}", run.err);
            let is_folder = sample.path("disk/x").is_dir();
            assert!(is_folder || !sample.path("disk/x").exists(), "{line}");
            small.empty();
        }
    }
    let full = |line: &str| {
        let binary = env!("CARGO_BIN_EXE_eraseblock");
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{binary} {line}")]).current_dir(sample.path("."));
        let output = shell.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for line in [
        "extract large.ubi --tar /dev/full",
        "extract large.ubi --tar - > /dev/full",
        "cat large.ubi /large1 > /dev/full",
        "get large.ubi /large1 - > /dev/full",
        "mkfs jffs2 src --peb 128KiB -o - > /dev/full",
        "build large.toml -o - > /dev/full",
        "build large.toml -o /dev/full",
        "info large.ubi > /dev/full",
        "info large.ubi --json > /dev/full",
    ] {
        let (code, said) = full(line);
        assert_eq!(code, Some(3), "{line}: {said}");
        assert!(said.contains("No space left on device"), "{line}: {said}");
    }
}

/// A file system of 4 MiB, made where that is allowed.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn new(sample: &Sample) -> Option<Self> {
        let at = sample.path("disk");
        fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "eraseblock-test"]).arg(&at);
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        mounted.then_some(Self(at))
    }

    fn empty(&self) {
        for entry in fs::read_dir(&self.0).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
