//! The classic tools' command lines.

use crate::sample::Sample;
use std::fs;

const INI: &str = "\
[kernel]
mode=ubi
image=kernel
vol_id=0
vol_type=static
vol_name=kernel

[root]
mode=ubi
image=root.ubifs
vol_id=1
vol_size=8MiB
vol_name=rootfs
vol_flags=autoresize
";

#[test]
fn ubinize_writes_the_same_bytes() {
    let sample = Sample::new();
    sample.ubifs();
    fs::write(sample.path("kernel"), vec![3; 150_000]).unwrap();
    fs::write(sample.path("u.ini"), INI).unwrap();
    let variants = [&["-s", "512"][..], &["-e", "9", "-O", "2048"], &["--sub-page-size=2KiB"]];
    for options in variants {
        let base = ["-p", "128KiB", "-m", "2048", "-Q", "0x12345678", "u.ini"];
        let run = sample.ok(&[&["ubinize", "-o", "ours"][..], options, &base].concat());
        assert_eq!(run.out, "");
        if let Some(run) =
            sample.classic("ubinize", &[&["-o", "theirs"][..], options, &base].concat())
        {
            assert_eq!(run.code, 0, "{}", run.err);
            let (ours, theirs) = (fs::read(sample.path("ours")), fs::read(sample.path("theirs")));
            assert!(ours.unwrap() == theirs.unwrap(), "{options:?}");
        }
    }
}

#[test]
fn ubinize_without_a_number_makes_one_of_the_content() {
    let sample = Sample::new();
    sample.ubifs();
    fs::write(sample.path("kernel"), vec![3; 150_000]).unwrap();
    fs::write(sample.path("u.ini"), INI).unwrap();
    for out in ["a", "b"] {
        sample.ok(&["ubinize", "-o", out, "-p", "128KiB", "-m", "2048", "u.ini"]);
    }
    assert!(fs::read(sample.path("a")).unwrap() == fs::read(sample.path("b")).unwrap());
}

#[test]
fn ubinize_refuses_with_255() {
    let sample = Sample::new();
    fs::write(sample.path("u.ini"), "[a]\nmode=ubi\nvol_id=0\nvol_name=a\nimage=nope\n").unwrap();
    for (arguments, message) in [
        (&[][..], "input configuration file was not specified"),
        (&["u.ini", "-p", "1MiB", "-m", "1"], "output file was not specified"),
        (&["u.ini", "-o", "x", "-m", "1"], "physical eraseblock size was not specified"),
        (&["u.ini", "-o", "x", "-p", "128KiB"], "min. I/O unit size was not specified"),
        (&["u.ini", "-o", "x", "-p", "128KiB", "-m", "2048"], "`nope`"),
        (&["no.ini", "-o", "x", "-p", "128KiB", "-m", "2048"], "cannot load `no.ini`"),
        (&["u.ini", "-o", "/dev/zero", "-p", "128KiB", "-m", "2048"], "device node"),
        (
            &["u.ini", "-o", "x", "-p", "128KiB", "-m", "2048", "-x", "256"],
            "does not fit into 8 bits",
        ),
        (&["--bogus"], "unexpected argument"),
    ] {
        let run = sample.run(&[&["ubinize"], arguments].concat());
        assert_eq!(run.code, 255, "{arguments:?}");
        assert!(run.err.contains(message), "{arguments:?}: {}", run.err);
    }
}

#[test]
fn mkfs_ubifs_takes_the_classic_options() {
    let sample = Sample::new();
    let table = "/dev d 755 0 0 - - - - -\n/dev/null c 666 0 0 1 3 - - -\n";
    fs::write(sample.path("table"), table).unwrap();
    let run = sample.ok(&[
        "mkfs.ubifs",
        "-r",
        "src",
        "-m",
        "2KiB",
        "-e",
        "124KiB",
        "-c",
        "60",
        "-x",
        "zlib",
        "-D",
        "table",
        "-U",
        "-F",
        "-o",
        "x.ubifs",
    ]);
    assert_eq!((run.out.as_str(), run.err.as_str()), ("", ""));
    assert!(sample.ok(&["ls", "-l", "x.ubifs", "dev"]).out.starts_with("crw-rw-rw- 1 0 0 1,3 "));
    assert!(sample.ok(&["info", "x.ubifs"]).out.contains("space-fixup"));
    sample.ok(&["mkfs.ubifs", "-m", "2048", "-e", "126976", "-c", "60", "-x", "none", "empty"]);
    assert_eq!(sample.ok(&["ls", "-a", "empty"]).out, "");
}

#[test]
fn mkfs_ubifs_labels_files_and_notes_inode_numbers() {
    let sample = Sample::new();
    fs::write(sample.path("contexts"), "/.*\tu:r:all:s0\n/bin/.* -- u:r:bin:s0\n").unwrap();
    let shape = ["-m", "2048", "-e", "126976", "-c", "60", "-x", "none", "-r", "src"];
    let options = ["--selinux=contexts", "-a", "-o", "x.ubifs"];
    sample.ok(&[&["mkfs.ubifs"][..], &shape, &options].concat());
    let stat = |path| sample.ok(&["stat", "x.ubifs", path, "--json"]).out;
    let label =
        |text: &str| text.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    for (path, context) in [("bin/tool", "u:r:bin:s0\0"), ("bin", "u:r:all:s0\0")] {
        let shown = stat(path);
        assert!(
            shown.contains(context.trim_end_matches('\0')) || shown.contains(&label(context)),
            "{shown}"
        );
    }
    let mut value = [0; 16];
    for path in ["bin/tool", "etc"] {
        let host = sample.path("src").join(path);
        let Ok(len) = rustix::fs::lgetxattr(&host, "user.image-inode-number", &mut value) else {
            // The host's file system has no such attributes.
            continue;
        };
        let number = String::from_utf8(value[..len].to_vec()).unwrap();
        let shown: serde_json::Value = serde_json::from_str(&stat(path)).unwrap();
        assert_eq!(shown["ino"].to_string(), number, "{shown}");
    }
    fs::write(sample.path("contexts"), "/bin\n").unwrap();
    let run = sample.run(&[&["mkfs.ubifs"][..], &shape, &options].concat());
    assert_eq!(run.code, 255);
    assert!(run.err.contains("file contexts line 1: 1 fields"), "{}", run.err);
}

#[test]
fn mkfs_ubifs_refuses_with_255() {
    let sample = Sample::new();
    let shape = ["-m", "2048", "-e", "126976", "-c", "60", "-x", "none"];
    for (arguments, message) in [
        (&["-r", "src"][..], "no output file"),
        (&["-r", "nope", "out"], "bad root directory `nope`"),
        (&["-r", "src", "-K", "key", "out"], "encryption"),
        (&["-r", "src", "--hash-algo=sha256", "out"], "signing"),
        (&["-r", "src", "-D", "nope", "out"], "nope"),
        (&["-r", "src", "-f", "2", "out"], "fanout"),
        (&["-r", "src", "-o", "/dev/zero"], "device node"),
        (&["-r", "src", "-g", "9", "out"], "9"),
    ] {
        let run = sample.run(&[&["mkfs.ubifs"][..], &shape, arguments].concat());
        assert_eq!(run.code, 255, "{arguments:?}: {}", run.err);
        assert!(run.err.contains(message), "{arguments:?}: {}", run.err);
    }
}
