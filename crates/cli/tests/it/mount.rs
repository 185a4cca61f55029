//! Mounts of images. Where there is no FUSE, each test says on standard error that it is left out.

use crate::history::used;
use crate::sample::{Run, Sample};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirEntryExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static LEFT_OUT: AtomicU32 = AtomicU32::new(0);

/// Mounts, unless there is no FUSE.
pub(crate) fn mounted(test: &str, run: &Run) -> bool {
    if run.code == 3 && run.err.contains("without FUSE") {
        let count = LEFT_OUT.fetch_add(1, Ordering::Relaxed) + 1;
        let line = format!("left out ({count} so far): {test}: {}", run.err);
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return false;
    }
    assert_eq!(run.code, 0, "{test}: {}{}", run.out, run.err);
    true
}

pub(crate) fn is_mounted(dir: &Path) -> bool {
    let dir = format!(" {} ", dir.canonicalize().unwrap().display());
    fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&dir)
}

#[test]
fn an_image_is_a_directory_and_stays_as_it_is() {
    let sample = Sample::new();
    let image = sample.path(sample.ubi());
    let before = (fs::read(&image).unwrap(), fs::metadata(&image).unwrap().mtime_nsec());
    for dir in ["one", "two"] {
        fs::create_dir(sample.path(dir)).unwrap();
    }
    if !mounted("an image", &sample.run(&["mount", "all.ubi:rootfs", "one"])) {
        return;
    }
    let one = sample.path("one");
    assert!(is_mounted(&one));
    sample.ok(&["mount", "all.ubi", "two", "--uid", "0:1234"]);
    assert_eq!(fs::read(one.join("etc/link")).unwrap(), vec![0x5a; 70_000]);
    assert_eq!(fs::read_to_string(sample.path("two/etc/hosts")).unwrap(), "127.0.0.1 localhost\n");
    let tool = fs::metadata(one.join("bin/alias")).unwrap();
    assert_eq!((tool.nlink(), tool.mode() & 0o777), (2, 0o755));
    let error = fs::write(one.join("etc/new"), "").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    let run = sample.run(&["mount", "all.ubi", "two", "--rw"]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("is in use"), "{}", run.err);
    sample.ok(&["umount", "one"]);
    sample.ok(&["umount", "two"]);
    assert!(!is_mounted(&one));
    assert_eq!(fs::read_dir(&one).unwrap().count(), 0);
    let after = (fs::read(&image).unwrap(), fs::metadata(&image).unwrap().mtime_nsec());
    assert!(before == after, "the image changed");
    let run = sample.run(&["umount", "one"]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("nothing of ours is mounted here"), "{}", run.err);
}

/// Numbers, sizes and kinds of all that lies two levels below a directory, sorted by path.
fn looked_at(dir: &Path) -> Vec<(PathBuf, u64, bool)> {
    let mut all = Vec::new();
    for dir in fs::read_dir(dir).unwrap() {
        for entry in fs::read_dir(dir.unwrap().path()).unwrap() {
            let (path, meta) =
                entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
            all.push((path, meta.len(), meta.is_file()));
        }
    }
    all.sort();
    all
}

#[test]
fn who_read_only_names_for_long_finds_every_attribute() {
    const DIRECTORIES: usize = 100;
    let sample = Sample::new();
    for number in 0..DIRECTORIES {
        let dir = sample.path(&format!("names/{number}"));
        fs::create_dir_all(dir.join("deeper")).unwrap();
        fs::write(dir.join("file"), vec![7; 1 + number]).unwrap();
    }
    sample.ok(&["mkfs", "jffs2", "names", "-o", "names.jffs2", "--peb", "16KiB"]);
    fs::create_dir(sample.path("mnt")).unwrap();
    if !mounted("names", &sample.run(&["mount", "names.jffs2", "mnt"])) {
        return;
    }
    let dir = sample.path("mnt");
    for entry in fs::read_dir(&dir).unwrap() {
        let listed: Vec<_> =
            fs::read_dir(entry.unwrap().path()).unwrap().map(Result::unwrap).collect();
        // Kinds and inode numbers are listed with the names.
        assert_eq!(listed.iter().filter(|entry| entry.file_type().unwrap().is_dir()).count(), 1);
        assert!(listed.iter().all(|entry| entry.ino() > 1));
    }
    let all = looked_at(&dir);
    let files: Vec<u64> =
        all.iter().filter(|(.., is_file)| *is_file).map(|(_, len, _)| *len).collect();
    assert_eq!((all.len(), files.len()), (2 * DIRECTORIES, DIRECTORIES));
    assert_eq!(files.iter().sum::<u64>(), (DIRECTORIES * (DIRECTORIES + 1) / 2) as u64);
    sample.ok(&["umount", "mnt"]);
}

#[test]
fn mounts_that_cannot_be_say_why() {
    let sample = Sample::new();
    sample.ubifs();
    let cases = [
        (["mount", "root.ubifs", "src/etc/hosts"], 3, "ot a directory"),
        (["mount", "root.ubifs", "nowhere"], 3, "No such file"),
        (["mount", "none", "src"], 3, "none: no such file"),
        (["mount", "root.ubifs:x", "src"], 3, "volume"),
    ];
    for (arguments, code, message) in cases {
        let run = sample.run(&arguments);
        if run.err.contains("without FUSE") {
            return assert!(!mounted("refusals", &run));
        }
        assert_eq!(run.code, code, "{arguments:?}: {}", run.err);
        assert!(run.err.contains(message), "{arguments:?}: {}", run.err);
    }
    let run = sample.run(&["mount", "root.ubifs", "src", "-o", "ro,nonsense"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("no such mount option"), "{}", run.err);
}

#[test]
fn a_signal_ends_a_mount_in_the_foreground() {
    let sample = Sample::new();
    sample.ubifs();
    let dir = sample.path("m");
    fs::create_dir(&dir).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_eraseblock"))
        .args(["mount", "-f", "root.ubifs", "m"])
        .current_dir(sample.path(""))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    err.read_line(&mut line).unwrap();
    if line.starts_with("error") {
        err.read_line(&mut line).unwrap();
        let code = child.wait().unwrap().code().unwrap();
        return assert!(!mounted("a signal", &Run { code, out: String::new(), err: line }));
    }
    assert!(line.contains("root.ubifs on "), "{line}");
    // A process uses the mount, which ends nevertheless.
    let open = fs::File::open(dir.join("etc/hosts")).unwrap();
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!is_mounted(&dir));
    drop(open);
}

#[test]
fn an_ordinary_user_can_mount() {
    const NOBODY: &str = "65534";
    let sample = Sample::new();
    sample.ubifs();
    fs::create_dir(sample.path("m")).unwrap();
    let is_root = fs::metadata(sample.path("m")).unwrap().uid() == 0;
    let mut run = if is_root {
        // On some machines only root may use the node; systems that let users mount open it.
        let _ = fs::set_permissions("/dev/fuse", fs::Permissions::from_mode(0o666));
        fs::set_permissions(sample.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        let binary = sample.path("eraseblock");
        fs::copy(env!("CARGO_BIN_EXE_eraseblock"), binary).unwrap();
        std::os::unix::fs::chown(sample.path("m"), Some(65_534), Some(65_534)).unwrap();
        let mut run = Command::new("setpriv");
        run.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]);
        run.arg(sample.path("eraseblock"));
        run
    } else {
        Command::new(env!("CARGO_BIN_EXE_eraseblock"))
    };
    let run_in = |run: &mut Command, arguments: &[&str]| {
        let output = run.args(arguments).current_dir(sample.path("")).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let code = output.status.code().unwrap();
        Run { code, out: text(output.stdout), err: text(output.stderr) }
    };
    if !mounted("an ordinary user", &run_in(&mut run, &["mount", "root.ubifs", "m"])) {
        return;
    }
    let mut look = if is_root {
        let mut look = Command::new("setpriv");
        look.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "cat"]);
        look
    } else {
        Command::new("cat")
    };
    assert_eq!(run_in(&mut look, &["m/etc/hosts"]).out, "127.0.0.1 localhost\n");
    if is_root {
        // Not even root looks into a user's mount.
        assert!(fs::read(sample.path("m/etc/hosts")).is_err());
    }
    let mut end = Command::new(run.get_program());
    let prefix = if is_root { 7 } else { 0 };
    end.args(run.get_args().take(prefix));
    assert_eq!(run_in(&mut end, &["umount", "m"]).code, 0);
    assert!(!is_mounted(&sample.path("m")));
}

/// The command line that runs the following words as an unprivileged user.
const AS_NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

/// Mounts in a namespace where `hide` has removed something, and expects a message with
/// alternatives. Needs a root that may create namespaces.
fn is_told_what_works_instead(hide: &str, cause: &str) {
    let sample = Sample::new();
    sample.ubifs();
    fs::create_dir(sample.path("m")).unwrap();
    fs::set_permissions(sample.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(sample.path("m"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_eraseblock"), sample.path("eraseblock")).unwrap();
    let words = ["-m", "sh", "-c", hide, "sh", "./eraseblock", "mount", "root.ubifs", "m"];
    let run = sample.classic("unshare", &words);
    let Some(run) = run.filter(|run| run.code != 77 && !run.err.contains("unshare")) else {
        let line = format!("left out: without FUSE ({cause}): no root that may hide it\n");
        return std::io::stderr().write_all(line.as_bytes()).unwrap();
    };
    assert_eq!(run.code, 3, "{}", run.err);
    for word in [cause, "eraseblock extract", "eraseblock edit", "eraseblock serve nfs"] {
        assert!(run.err.contains(word), "{word}: {}", run.err);
    }
}

#[test]
fn without_fuse_the_message_names_what_works_instead() {
    is_told_what_works_instead(
        "mount -t tmpfs none /dev 2>/dev/null && mknod -m 666 /dev/null c 1 3 || exit 77; \
         exec \"$@\"",
        "/dev/fuse: does not exist",
    );
}

/// Containers hide devices so.
#[test]
fn another_device_in_its_place_is_no_fuse() {
    is_told_what_works_instead(
        "mount --bind /dev/null /dev/fuse 2>/dev/null || exit 77; exec \"$@\"",
        "/dev/fuse: is not the FUSE device",
    );
}

#[test]
fn a_device_that_is_closed_is_no_fuse() {
    is_told_what_works_instead(
        &format!(
            "mount -t tmpfs none /dev 2>/dev/null && mknod -m 666 /dev/null c 1 3 \
             && mknod -m 600 /dev/fuse c 10 229 || exit 77; exec {AS_NOBODY} \"$@\""
        ),
        "this user may not use FUSE",
    );
}

#[test]
fn a_helper_that_cannot_be_started_is_no_fuse() {
    is_told_what_works_instead(
        &format!(
            "helper=$(command -v fusermount3) && cp $helper closed && chmod 700 closed \
             && mount --bind closed $helper 2>/dev/null && test -c /dev/fuse \
             && mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 \
             && mknod -m 666 /dev/fuse c 10 229 || exit 77; exec {AS_NOBODY} \"$@\""
        ),
        "fusermount3 cannot be started",
    );
}

#[test]
fn a_past_state_is_mounted_next_to_the_present_one() {
    let sample = used();
    let before = fs::read(sample.path("used")).unwrap();
    for dir in ["past", "now"] {
        fs::create_dir(sample.path(dir)).unwrap();
    }
    let refused: [(&[&str], i32, &str); 5] = [
        (&["--as-of", "commit:0", "--rw"], 2, "a state of the past cannot be changed"),
        (&["--as-of", "commit:0", "-o", "rw"], 2, "a state of the past cannot be changed"),
        (&["--as-of", "commit:0", "--also", "x=now"], 2, "cannot be used with"),
        (&["--as-of", "commit:99"], 3, "no master node of commit 99"),
        (&["--as-of", "sqnum:1"], 3, "no commit is left that ended before 1"),
    ];
    for (options, code, words) in refused {
        let run = sample.run(&[&["mount", "used", "past"][..], options].concat());
        assert_eq!(run.code, code, "{options:?}: {}", run.err);
        assert!(run.err.contains(words), "{options:?}: {}", run.err);
    }
    let run = sample.run(&["mount", "used", "past", "--as-of", "commit:0"]);
    if !mounted("a past state", &run) {
        return;
    }
    sample.ok(&["mount", "used", "now"]);
    let read = |name: &str| fs::read_to_string(sample.path(name));
    assert_eq!((read("past/kept").unwrap(), read("past/gone").unwrap()), {
        ("first\n".to_owned(), "secret\n".to_owned())
    });
    assert_eq!(read("now/kept").unwrap(), "second\n");
    assert_eq!(read("now/gone").unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let error = fs::write(sample.path("past/kept"), "x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    sample.ok(&["umount", "past"]);
    sample.ok(&["umount", "now"]);
    assert_eq!(fs::read(sample.path("used")).unwrap(), before);
}
