//! Mounts of one user that others use, and owners shown as others. All tests need a root that can
//! become another user; otherwise each test reports on standard error that it is skipped.

use crate::mount::mounted;
use crate::mount_rw::with_volumes;
use crate::sample::{Run, Sample, finish};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// The number of an unprivileged user and of its group.
const NOBODY: u32 = 65_534;

/// A chip with a tree of root's, and room for other users around it; none where this is no root.
fn sample_for_others(test: &str) -> Option<Sample> {
    let sample = with_volumes();
    if fs::metadata(sample.path("m")).unwrap().uid() != 0 {
        let line = format!("left out: {test}: needs root\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return None;
    }
    // On some machines only root may use the node; systems that let users mount open it.
    let _ = fs::set_permissions("/dev/fuse", fs::Permissions::from_mode(0o666));
    fs::set_permissions(sample.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_eraseblock"), sample.path("eraseblock")).unwrap();
    if !mounted(test, &sample.run(&["mount", "c:root", "m", "--rw"])) {
        return None;
    }
    let dir = sample.path("m");
    for (name, mode) in [("open", 0o644), ("closed", 0o600)] {
        fs::write(dir.join(name), name).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(dir.join("common")).unwrap();
    fs::set_permissions(dir.join("common"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    sample.ok(&["umount", "m"]);
    Some(sample)
}

/// Gives the unprivileged user the chip and the place of its mount.
fn hand_over(sample: &Sample) {
    for name in ["c", "m"] {
        chown(sample.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// Runs a program as the unprivileged user; `eraseblock` is the command.
fn as_nobody(sample: &Sample, program: &str, arguments: &[&str]) -> Run {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
    match program {
        "eraseblock" => command.arg(sample.path(program)),
        program => command.arg(program),
    };
    finish(command.args(arguments), &sample.path(""))
}

/// Owner and group in the image.
fn stored(sample: &Sample, path: &str) -> (u64, u64) {
    let told = sample.ok(&["stat", "c:root", path, "--json"]).out;
    let told: Value = serde_json::from_str(&told).unwrap();
    (told["uid"].as_u64().unwrap(), told["gid"].as_u64().unwrap())
}

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.uid(), found.gid())
}

#[test]
fn others_come_in_and_are_checked() {
    let Some(sample) = sample_for_others("allow_other") else { return };
    sample.ok(&["mount", "c:root", "m", "--rw"]);
    assert_ne!(as_nobody(&sample, "cat", &["m/open"]).code, 0, "nobody else may come in");
    sample.ok(&["umount", "m"]);
    sample.ok(&["mount", "c:root", "m", "--rw", "-o", "allow_other"]);
    let nobody = |program: &str, arguments: &[&str]| as_nobody(&sample, program, arguments);
    assert_eq!(nobody("cat", &["m/open"]).out, "open");
    for (program, arguments) in [
        ("cat", &["m/closed"][..]),
        ("touch", &["m/new"]),
        ("rm", &["-f", "m/open"]),
        ("chown", &["65534", "m/open"]),
        ("chmod", &["666", "m/open"]),
    ] {
        let run = nobody(program, arguments);
        assert!(run.code != 0 && run.err.contains("ermi"), "{arguments:?}: {}", run.err);
    }
    assert_eq!(nobody("touch", &["m/common/theirs"]).code, 0);
    assert_eq!(nobody("chmod", &["600", "m/common/theirs"]).code, 0);
    assert_eq!(owner(&sample.path("m/common/theirs")), (NOBODY, NOBODY));
    sample.ok(&["umount", "m"]);
    assert_eq!(stored(&sample, "common/theirs"), (NOBODY.into(), NOBODY.into()));
    assert_eq!(stored(&sample, "open"), (0, 0));
}

#[test]
fn others_do_not_get_the_space_kept_for_root() {
    let Some(sample) = sample_for_others("reserved pool") else { return };
    sample.ok(&["mount", "c:root", "m", "--rw", "-o", "allow_other"]);
    // Nothing that can be compressed.
    let content: Vec<u8> =
        (0_u32..16 << 10).flat_map(|n| n.wrapping_mul(0x9E37_79B9).to_le_bytes()).collect();
    fs::write(sample.path("content"), &content).unwrap();
    let fill =
        "i=0; while cp content m/common/$1$i; do i=$((i + 1)); done; rm m/common/$1$i; echo $i";
    let theirs = as_nobody(&sample, "sh", &["-c", fill, "sh", "theirs"]);
    assert!(theirs.err.contains("No space left"), "{}", theirs.err);
    let more = as_nobody(&sample, "cp", &["content", "m/common/more"]);
    assert_ne!(more.code, 0, "all of it was kept: {}", theirs.out);
    fs::write(sample.path("m/common/roots"), &content).unwrap();
    assert_eq!(as_nobody(&sample, "sh", &["-c", "rm m/common/theirs*"]).code, 0);
    assert_eq!(as_nobody(&sample, "cp", &["content", "m/common/again"]).code, 0);
    sample.ok(&["umount", "m"]);
    sample.ok(&["check", "c:root"]);
}

#[test]
fn permissions_are_checked_for_who_mounts_when_asked_for() {
    let Some(sample) = sample_for_others("default_permissions") else { return };
    hand_over(&sample);
    let nobody = |program: &str, arguments: &[&str]| as_nobody(&sample, program, arguments);
    let mount = ["mount", "c:root", "m", "--rw"];
    if !mounted("default_permissions", &nobody("eraseblock", &mount)) {
        return;
    }
    assert_eq!(nobody("cat", &["m/closed"]).out, "closed");
    assert_eq!(nobody("touch", &["m/new"]).code, 0);
    assert_eq!(nobody("eraseblock", &["umount", "m"]).code, 0);
    let asked = [&mount[..], &["-o", "default_permissions"]].concat();
    assert_eq!(nobody("eraseblock", &asked).code, 0);
    assert_eq!(nobody("cat", &["m/open"]).out, "open");
    assert_ne!(nobody("cat", &["m/closed"]).code, 0);
    assert_ne!(nobody("touch", &["m/another"]).code, 0);
    assert_eq!(nobody("touch", &["m/common/mine"]).code, 0);
    assert_eq!(nobody("eraseblock", &["umount", "m"]).code, 0);
    assert_eq!(stored(&sample, "new"), (NOBODY.into(), NOBODY.into()));

    let conf = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if !conf.lines().any(|line| line.trim() == "user_allow_other") {
        let run = nobody("eraseblock", &[&mount[..], &["-o", "allow_other"]].concat());
        assert_eq!(run.code, 3, "{}", run.err);
        assert!(run.err.ends_with("'user_allow_other' is set in /etc/fuse.conf\n"), "{}", run.err);
    }
}

#[test]
fn owners_are_shown_as_others() {
    let Some(sample) = sample_for_others("owners") else { return };
    let shift = ["--uid", "0:100000:65536", "--gid", "0:200000:65536"];
    sample.ok(&[&["mount", "c:root", "m", "--rw", "-o", "allow_other"][..], &shift].concat());
    let open = sample.path("m/open");
    assert_eq!(owner(&open), (100_000, 200_000));
    chown(&open, Some(100_005), Some(200_006)).unwrap();
    let refused = chown(&open, Some(5), None).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::OVERFLOW.raw_os_error()));
    assert!(fs::write(sample.path("m/roots"), "").is_err(), "root has no number there");
    sample.ok(&["umount", "m"]);
    assert_eq!(stored(&sample, "open"), (5, 6));

    hand_over(&sample);
    let nobody = |program: &str, arguments: &[&str]| as_nobody(&sample, program, arguments);
    let mine = ["mount", "c:root", "m", "--rw", "--uid", "0:65534", "--gid", "0:65534"];
    if !mounted("owners", &nobody("eraseblock", &mine)) {
        return;
    }
    assert_eq!(nobody("stat", &["-c", "%u %g", "m/closed"]).out, "65534 65534\n");
    assert_eq!(nobody("stat", &["-c", "%u %g", "m/open"]).out, "65534 65534\n", "outside");
    assert_eq!(nobody("mkdir", &["m/made"]).code, 0);
    assert_eq!(nobody("eraseblock", &["umount", "m"]).code, 0);
    assert_eq!(stored(&sample, "made"), (0, 0));
}

/// An access list in the form that the kernel takes: entries of tag, permissions and number.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Returns an ACL: rw for the owner, `theirs` for the unprivileged user, nothing for all others.
fn list_for_nobody(theirs: u16) -> Vec<u8> {
    const NONE: u32 = u32::MAX;
    let (owner, group, mask, other) = (1, 4, 0x10, 0x20);
    acl(&[
        (owner, 6, NONE),
        (2, theirs, NOBODY),
        (group, 0, NONE),
        (mask, 6, NONE),
        (other, 0, NONE),
    ])
}

#[test]
fn access_lists_are_enforced_against_others() {
    let Some(sample) = sample_for_others("access lists") else { return };
    let jffs2 = ["chip", "new", "j", "--size", "4MiB", "--peb", "64KiB", "--page", "1"];
    sample.ok(&jffs2);
    for target in ["c:root", "j"] {
        sample.ok(&["mount", target, "m", "--rw", "-o", "allow_other"]);
        fs::set_permissions(sample.path("m"), fs::Permissions::from_mode(0o755)).unwrap();
        let nobody = |program: &str, arguments: &[&str]| as_nobody(&sample, program, arguments);
        for (name, theirs) in [("none", 0), ("reads", 4), ("writes", 6)] {
            let path = sample.path("m").join(name);
            fs::write(&path, name).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            let list = list_for_nobody(theirs);
            let name = "system.posix_acl_access";
            let set = rustix::fs::setxattr(&path, name, &list, rustix::fs::XattrFlags::empty());
            set.unwrap_or_else(|error| panic!("{target}: {error}"));
        }
        let can = |program: &str, path: &str| nobody(program, &[path]).code == 0;
        let enforced = |can: &dyn Fn(&str, &str) -> bool| {
            [can("cat", "m/none"), can("cat", "m/reads"), can("cat", "m/writes")]
        };
        assert_eq!(enforced(&can), [false, true, true], "{target}");
        let append = |path: &str| nobody("sh", &["-c", &format!("echo x >> {path}")]).code == 0;
        assert!(!append("m/reads") && append("m/writes"), "{target}");
        sample.ok(&["umount", "m"]);
        // Once more: as it is stored.
        sample.ok(&["mount", target, "m", "-o", "allow_other"]);
        assert_eq!(enforced(&can), [false, true, true], "{target}, stored");
        sample.ok(&["umount", "m"]);
    }
}
