//! Image builders as build systems run them: as an ordinary user under fakeroot or pseudo, which
//! pretend to be root by replacing functions of the C library.
//!
//! The command once made system calls itself: foreign owners became those of the user, devices
//! became empty files, and the exit code was 0.

use crate::sample::{Run, Sample, finish};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// The number of an unprivileged user and of its group.
const NOBODY: u32 = 65_534;

/// What only root can make, in `w`. Times are whole seconds, as JFFS2 stores them.
const MAKE: &str = r"
umask 022
mkdir -p w/dev w/d
mknod -m 620 w/dev/console c 5 1 && chown 5:6 w/dev/console
mknod -m 660 w/dev/blk b 8 300 && chown 0:6 w/dev/blk
mknod w/dev/fifo p
echo content > w/f && chown 1234:5678 w/f && chmod 4755 w/f && ln w/f w/d/hard
ln -s f w/link && chown -h 7:8 w/link
chown 9:10 w/d && chmod 2711 w/d
echo ping > w/capped && chown 0:0 w/capped && chmod 755 w/capped && setcap cap_net_raw+ep w/capped
setfattr -n user.note -v hi w/f
chown 11:12 w && chmod 750 w
find w -exec touch -h -d @1700000000 {} +
";

/// The manifest of `w`, without what depends on the file system.
const EXPECTED: &[&str] = &[
    ". d 0750 11:12 dev=- group=- content=- xattrs=-",
    "capped - 0755 0:0 dev=- group=- xattrs=security.capability:\
     0100000200200000000000000000000000000000",
    "d d 2711 9:10 dev=- group=- content=- xattrs=-",
    "d/hard - 4755 1234:5678 dev=- group=1 xattrs=user.note:6869",
    "dev d 0755 0:0 dev=- group=- content=- xattrs=-",
    "dev/blk b 0660 0:6 dev=8:300 group=- content=- xattrs=-",
    "dev/console c 0620 5:6 dev=5:1 group=- content=- xattrs=-",
    "dev/fifo p 0644 0:0 dev=- group=- content=- xattrs=-",
    "f - 4755 1234:5678 dev=- group=1 xattrs=user.note:6869",
    "link l 0777 7:8 dev=- group=- content=target:f xattrs=-",
];

/// What the pretending tool says about everything in a folder.
const LOOK: &str = r#"
look() {
    (cd "$1" && find . | LC_ALL=C sort | while read -r name; do
        stat -c '%n %F %a %u:%g %h %t,%T %Y %N' "$name"
        getfattr -h -d -m - -e hex "$name"
    done)
}
"#;

/// A folder of an ordinary user, with the command in it.
fn sample() -> Sample {
    let sample = Sample::new();
    fs::copy(env!("CARGO_BIN_EXE_eraseblock"), sample.path("eraseblock")).unwrap();
    fs::set_permissions(sample.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    if is_root(&sample) {
        chown(sample.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    sample
}

fn is_root(sample: &Sample) -> bool {
    fs::metadata(sample.path("src")).unwrap().uid() == 0
}

/// Runs a script as an ordinary user under `tool`.
fn pretend(sample: &Sample, tool: &str, script: &str) -> Run {
    let mut command = Command::new(tool);
    if is_root(sample) {
        command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--", tool]);
    }
    command.args(["--", "sh", "-ec", &format!("{LOOK}{script}")]);
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    finish(command.env_remove("LD_PRELOAD").env_remove("FAKEROOTKEY"), &sample.path(""))
}

/// The same, and it has to succeed.
fn pretend_ok(sample: &Sample, tool: &str, script: &str) -> Run {
    let run = pretend(sample, tool, script);
    assert_eq!(run.code, 0, "{tool}: {script}\n{}{}", run.out, run.err);
    run
}

/// The programs that pretend; each says on standard error if it is left out.
fn tools() -> Vec<&'static str> {
    let rows = [
        ("fakeroot", &["/usr/bin/fakeroot-sysv", "/usr/bin/fakeroot"][..]),
        ("pseudo", &["/usr/bin/fakeroot-pseudo"]),
    ];
    let mut found = Vec::new();
    for (name, places) in rows {
        if let Some(place) = places.iter().find(|place| Path::new(place).exists()) {
            found.push(*place);
        } else {
            let line = format!("left out: {name} is not installed\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
        }
    }
    found
}

/// The manifest of an image, without what depends on the file system.
fn manifest(sample: &Sample, target: &str) -> Vec<String> {
    let varies = |word: &&str| {
        let beginnings = ["nlink=", "mtime=", "size=", "content=sha256:"];
        beginnings.iter().any(|beginning| word.starts_with(beginning))
    };
    let words =
        |line: &str| line.split(' ').filter(|word| !varies(word)).collect::<Vec<_>>().join(" ");
    sample.ok(&["manifest", target]).out.lines().map(words).collect()
}

#[test]
fn images_have_what_fakeroot_and_pseudo_show() {
    for tool in tools() {
        let sample = sample();
        let shape = "-m 2048 -e 126976 -c 60";
        fs::write(sample.path("layout.toml"), LAYOUT).unwrap();
        let script = format!(
            "{MAKE}
            ./eraseblock mkfs.ubifs -r w {shape} -x zlib -o ours.ubifs
            ./eraseblock mkfs.jffs2 --with-xattr -d w -o ours.jffs2
            ./eraseblock build layout.toml -o ours.ubi -q
            ./eraseblock mkfs.ubifs {shape} -o put.ubifs
            ./eraseblock put put.ubifs w -q
            ! command -v mkfs.ubifs || mkfs.ubifs -r w {shape} -x zlib -o theirs.ubifs"
        );
        pretend_ok(&sample, tool, &script);
        for image in ["ours.ubifs", "ours.jffs2", "ours.ubi", "put.ubifs"] {
            let found = manifest(&sample, image);
            assert_eq!(found, EXPECTED, "{tool}: {image}");
        }
        if sample.path("theirs.ubifs").exists() {
            let plain = |lines: Vec<String>| -> Vec<String> {
                // Debian's mkfs.ubifs stores no attributes.
                let cut = |line: String| line.split(" xattrs=").next().unwrap().to_owned();
                lines.into_iter().map(cut).collect()
            };
            let theirs = plain(manifest(&sample, "theirs.ubifs"));
            let ours = plain(manifest(&sample, "ours.ubifs"));
            assert_eq!(theirs, ours, "{tool}: the classic tool sees the same");
        }
    }
}

#[test]
fn what_is_taken_out_is_what_was_put_in() {
    for tool in tools() {
        let sample = sample();
        let script = format!(
            "{MAKE}
            ./eraseblock mkfs.ubifs -r w -m 2048 -e 126976 -c 60 -o w.ubifs
            ./eraseblock extract w.ubifs x >&2
            ./eraseblock get w.ubifs / y >&2
            look w > w.look; look x > x.look; look y > y.look"
        );
        let run = pretend_ok(&sample, tool, &script);
        let look = |name: &str| fs::read_to_string(sample.path(name)).unwrap();
        assert!(look("w.look").contains("./dev/console character special file 620 5:6"), "{tool}");
        assert_eq!(look("x.look"), look("w.look"), "{tool}: extract\n{}", run.err);
        assert_eq!(look("y.look"), look("w.look"), "{tool}: get\n{}", run.err);
        assert!(!run.err.contains("warning"), "{tool}: {}", run.err);
    }
}

const LAYOUT: &str = r#"
[flash]
peb = "128KiB"
page = 2048
blocks = 64

[[volume]]
name = "rootfs"
size = "4MiB"
content = { ubifs = "w", compressor = "zlib" }
"#;
