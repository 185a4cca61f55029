//! One habit for all commands: what replaces, what is silent, what goes to standard output.

use crate::sample::Sample;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

const SHAPE: [&str; 6] = ["--peb", "128KiB", "--page", "2048", "--max-lebs", "60"];

/// `get` replaced files without asking, and left an empty one when the source was damaged.
#[test]
fn what_is_copied_out_replaces_on_request_only() {
    let sample = Sample::new();
    sample.ubi();
    let image = "all.ubi:rootfs";
    let run = sample.ok(&["get", image, "/etc/hosts", "hosts"]);
    assert_eq!(run.err, "1 file, 0 directories, 20 bytes\n");
    sample.ok(&["chip", "new", "c", "--size", "1MiB", "--peb", "16KiB", "--page", "512", "-q"]);
    for line in [
        "get all.ubi:rootfs /etc/hosts there",
        "extract all.ubi:rootfs --tar there",
        "chip export c there",
        "edit all.ubi:rootfs --size 16MiB -c get\t/etc/hosts\tthere",
    ] {
        fs::write(sample.path("there"), "before").unwrap();
        let words: Vec<String> = line.split(' ').map(|word| word.replace('\t', " ")).collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let run = sample.run(&words);
        assert_eq!(run.code, 3, "{line}: {}", run.err);
        assert!(run.err.contains("there: exists already"), "{line}: {}", run.err);
        assert!(run.err.contains("hint: --force replaces it"), "{line}: {}", run.err);
        assert_eq!(fs::read(sample.path("there")).unwrap(), b"before", "{line}");
        match words.last_mut().filter(|_| line.starts_with("edit")) {
            Some(word) => *word = "get -f /etc/hosts there",
            None => words.push("--force"),
        }
        sample.ok(&words);
        assert_ne!(fs::read(sample.path("there")).unwrap(), b"before", "{line}");
    }
    fs::create_dir_all(sample.path("folder/full")).unwrap();
    sample.ok(&["get", image, "/etc/hosts", "folder"]);
    assert_eq!(fs::read(sample.path("folder/hosts")).unwrap(), b"127.0.0.1 localhost\n");
    let run = sample.run(&["get", image, "/etc", "folder"]);
    assert!(run.code == 3 && run.err.contains("hint: --force"), "{}", run.err);
    sample.ok(&["get", image, "/etc", "folder", "--force"]);
    assert!(sample.path("folder/link").is_symlink());
}

#[test]
fn a_damaged_file_is_not_begun() {
    let sample = Sample::new();
    let noise = crate::sample::noise(200_000);
    fs::write(sample.path("src/noise"), &noise).unwrap();
    let image = sample.ubifs();
    let mut bytes = fs::read(sample.path(image)).unwrap();
    let at = bytes.windows(64).position(|window| window == &noise[8192..8256]).unwrap();
    bytes[at..at + 64].fill(0);
    fs::write(sample.path(image), &bytes).unwrap();
    let run = sample.run(&["get", image, "/noise", "out"]);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.err.contains("/noise: ") && run.err.contains("nothing was written"), "{}", run.err);
    assert!(!sample.path("out").exists());
}

#[test]
fn quiet_is_quiet() {
    let sample = Sample::new();
    let image = sample.ubifs();
    fs::write(sample.path("layout.toml"), crate::sample::LAYOUT).unwrap();
    fs::write(sample.path("kernel"), vec![1; 1000]).unwrap();
    let shape = SHAPE.join(" ");
    for line in [
        "chip new c --size 8MiB --peb 16KiB --page 512",
        "chip cut c --after 100000",
        "chip cut c --disarm",
        "chip age c --pass 1",
        "card new d --preset sd-2012-c10 --size 64MiB",
        "ubi format c",
        "ubi mkvol c v --size 2MiB",
        "ubi rsvol c v --size 3MiB",
        "ubi rename c v w",
        "ubi update c:w kernel",
        "ubi rmvol c w",
        "chip export c c.bin",
        "chip import c c.bin",
        "build layout.toml -o b.ubi",
        &format!("mkfs ubifs src -o u {shape}"),
        "mkfs jffs2 src -o j --peb 64KiB --pad-to 1MiB",
        "put j kernel /k",
        "get j /k k",
        "check j",
        "extract j out",
        "extract j --tar out.tar",
        "man pages",
        "edit j -c sync",
    ] {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.push("-q");
        let run = sample.ok(&words);
        assert_eq!((run.out.as_str(), run.err.as_str()), ("", ""), "{line}");
    }
    assert_eq!(sample.ok(&["ls", image, "-q"]).out, "bin\netc\n");
}

/// `-o -` made a file of that name in two commands and was standard output in the others.
#[test]
fn a_dash_is_standard_output() {
    let sample = Sample::new();
    let image = sample.ubi();
    sample.ubifs();
    sample.ok(&["mkfs", "jffs2", "src", "-o", "j", "--peb", "64KiB"]);
    let shell = |line: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(sample.path("."));
        shell.env("EB", env!("CARGO_BIN_EXE_eraseblock"));
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let shape = format!("{} --compressor zlib -q", SHAPE.join(" "));
    for place in ["-", "/dev/stdout"] {
        for (command, expected) in [
            ("build layout.toml -q", image),
            (&format!("mkfs ubifs src {shape}"), "root.ubifs"),
            ("mkfs jffs2 src --peb 64KiB -q", "j"),
        ] {
            for way in ["> got", "| cat > got"] {
                shell(&format!("$EB {command} -o {place} {way}"));
                let (got, expected) = (sample.path("got"), sample.path(expected));
                assert!(
                    fs::read(got).unwrap() == fs::read(expected).unwrap(),
                    "{command} {place} {way}"
                );
            }
        }
        assert!(!sample.path("-").exists());
    }
    // The classic tools take `-` for a name, and /dev/stdout as it is.
    let classic = "mkfs.ubifs -r src -m 2048 -e 126976 -c 60 -x zlib";
    shell(&format!(
        "$EB {classic} -o plain && $EB {classic} -o - && $EB {classic} -o /dev/stdout | cat > piped"
    ));
    let read = |name: &str| fs::read(sample.path(name)).unwrap();
    assert!(read("plain") == read("-") && read("plain") == read("piped"));
    shell(
        "$EB get all.ubi:rootfs /etc/hosts - > hosts && mkfifo f && (cat f > all & $EB build layout.toml -q -o f; wait)",
    );
    assert!(read("hosts") == read("src/etc/hosts") && read("all") == read(image));
}

/// Runs the command with a terminal as its output or error stream; returns what that showed.
fn on_terminal(sample: &Sample, arguments: &[&str], is_output: bool) -> (i32, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = fs::File::options().read(true).write(true).open(name).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_eraseblock"));
    command.args(arguments).current_dir(sample.path(".")).env("TERM", "xterm");
    if is_output {
        command.stdout(slave).stderr(Stdio::null());
    } else {
        command.stderr(slave).stdout(Stdio::null());
    }
    let mut child = command.spawn().unwrap();
    // The child alone holds the other end now, so that reading ends with it.
    drop(command);
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    let mut master = fs::File::from(master);
    while let Ok(count) = master.read(&mut buffer) {
        if count == 0 {
            break;
        }
        shown.extend_from_slice(&buffer[..count]);
    }
    (child.wait().unwrap().code().unwrap(), String::from_utf8_lossy(&shown).into_owned())
}

#[test]
fn a_volume_is_not_written_to_a_terminal() {
    let sample = Sample::new();
    sample.ubi();
    let (code, shown) = on_terminal(&sample, &["cat", "all.ubi:kernel"], true);
    assert_eq!((code, shown.as_str()), (2, ""));
    let (code, shown) = on_terminal(&sample, &["cat", "all.ubi:kernel", "--force"], true);
    assert!(code == 0 && !shown.is_empty());
    let (code, shown) = on_terminal(&sample, &["cat", "all.ubi:rootfs", "/etc/hosts"], true);
    assert!(code == 0 && shown.contains("localhost"), "{shown}");
}

/// `extract` showed 100 % from its first update; six commands showed nothing.
#[test]
fn long_work_shows_progress() {
    let sample = Sample::new();
    fs::write(sample.path("src/large"), vec![7; 24 << 20]).unwrap();
    let image = sample.ubifs();
    let chip = ["--size", "32MiB", "--peb", "128KiB", "--page", "2048"];
    sample.ok(&[&["chip", "new", "c", "-q"][..], &chip].concat());
    sample.ok(&["mkfs", "jffs2", "src", "-o", "j", "--peb", "128KiB", "--pad-to", "64MiB"]);
    for (arguments, word) in [
        (&["extract", image, "out"][..], "extract"),
        (&["extract", image, "--tar", "out.tar"], "extract"),
        (&["get", image, "/large", "large"], "get"),
        (&["put", "j", "large", "/again"], "put"),
        (&["check", "j"], "check"),
        (&["chip", "export", "c", "c.bin"], "export"),
        (&["chip", "import", "c", "c.bin"], "import"),
    ] {
        let (code, shown) = on_terminal(&sample, arguments, false);
        assert_eq!(code, 0, "{arguments:?}: {shown}");
        // The word of a bar is followed by blanks up to a width; that of a message is not.
        let word = format!("{word:<12} ");
        let updates: Vec<&str> = shown.split('\r').filter(|part| part.contains(&word)).collect();
        assert!(!updates.is_empty(), "{arguments:?}: {shown}");
        assert!(!updates[0].contains("100%"), "{arguments:?}: {}", updates[0]);
    }
    let (code, shown) = on_terminal(&sample, &["extract", image, "quiet", "-q"], false);
    assert_eq!((code, shown.as_str()), (0, ""));
}

/// Messages of the layers below showed inode numbers where a path was asked for, and hints fitted
/// no command.
#[test]
fn what_does_not_exist_is_named_as_asked() {
    let sample = Sample::new();
    let image = sample.ubifs();
    for command in ["ls", "tree", "stat", "cat"] {
        let run = sample.run(&[command, image, "/etc/nope"]);
        assert_eq!(run.code, 3);
        let first = run.err.lines().next().unwrap();
        assert_eq!(first, "error: /etc/nope: no such file or directory", "{command}");
    }
    let run = sample.run(&["extract", image, "out", "/nope"]);
    assert!(run.err.contains("/nope: no such file or directory"), "{}", run.err);
    fs::write(sample.path("src").join("a b\u{1b}\n"), "odd").unwrap();
    let image = sample.ubifs();
    let listed = sample.ok(&["ls", image]).out;
    let printed = listed.lines().next().unwrap();
    assert_eq!(printed, r"a b\u{1b}\n");
    assert_eq!(sample.ok(&["cat", image, printed]).out, "odd");
    let pasted = format!("cat {}", printed.replace(' ', r"\ "));
    assert_eq!(sample.ok(&["edit", image, "--size", "8MiB", "-c", &pasted]).out, "odd");
    let run = sample.run(&["put", image, "src", "/", "--size", "-5"]);
    assert_eq!(run.code, 2);
    assert!(!run.err.contains("tip:") && run.err.contains("-5"), "{}", run.err);
}
