//! A mount whose process is killed leaves what a power cut leaves: the judge of the power-cut
//! laboratory says so, which knows what programs did and what of it `fsync` made durable.

use crate::mount::mounted;
use crate::mount_rw::{holder, nor, process_of, with_volumes};
use crate::sample::{Sample, noise};
use eraseblock::raw::lab::Shape;
use eraseblock::raw::lab::files::{Jffs2Stack, Returned, Stack, Witness, ubifs};
use eraseblock::raw::lab::powercut::Violation;
use eraseblock::raw::nandsim::{Chip, Rng, Snapshot};
use eraseblock::raw::vfs::{RenameMode, XattrMode};
use eraseblock::raw::vfs_testkit::ops::{
    Change, Make, Object, Op, Place, Texture, XATTRS, data_of,
};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Kills of each kind of chip.
const ROUNDS: u64 = 8;

/// Does an operation of the laboratory as a program would.
fn act(dir: &Path, op: &Op, number: u64) -> io::Result<()> {
    let path = |place: Place| dir.join(OsStr::from_bytes(&place.path()));
    let object = |object: Object| match object {
        Object::At(place) => path(place),
        _ => dir.to_owned(),
    };
    let mode = Mode::from_raw_mode(0o644);
    match *op {
        Op::Create(at, Make::Directory) => Ok(rustix::fs::mkdir(path(at), mode)?),
        Op::Create(at, Make::Fifo) => {
            Ok(rustix::fs::mknodat(CWD, path(at), FileType::Fifo, mode, 0)?)
        }
        Op::Create(at, _) => {
            fs::File::options().write(true).create_new(true).mode(0o644).open(path(at)).map(drop)
        }
        Op::Link(from, to) => fs::hard_link(object(from), path(to)),
        Op::Unlink(at) => fs::remove_file(path(at)),
        Op::RemoveDir(at) => fs::remove_dir(path(at)),
        Op::Rename(from, to, mode) => {
            let flags = match mode {
                RenameMode::NoReplace => RenameFlags::NOREPLACE,
                RenameMode::Exchange => RenameFlags::EXCHANGE,
                _ => RenameFlags::empty(),
            };
            Ok(rustix::fs::renameat_with(CWD, path(from), CWD, path(to), flags)?)
        }
        Op::Write { object: at, offset, len, texture } => {
            let file = fs::File::options().write(true).open(object(at))?;
            file.write_all_at(&data_of(number, offset, len, texture), offset)
        }
        Op::Change(at, Change::Size(size)) => {
            fs::File::options().write(true).open(object(at))?.set_len(size)
        }
        Op::Change(at, Change::Mode(mode)) => {
            fs::set_permissions(object(at), fs::Permissions::from_mode(mode.into()))
        }
        Op::SetXattr(at, name, len, mode) => {
            let value = data_of(number, 0, len.into(), Texture::Text);
            let flags = match mode {
                XattrMode::Create => XattrFlags::CREATE,
                XattrMode::Replace => XattrFlags::REPLACE,
                XattrMode::Either => XattrFlags::empty(),
            };
            let name = OsStr::from_bytes(XATTRS[usize::from(name)]);
            Ok(rustix::fs::setxattr(object(at), name, &value, flags)?)
        }
        Op::SyncFile(at) => fs::File::open(object(at))?.sync_all(),
        _ => panic!("{op:?} is no system call"),
    }
}

/// A chip for the mount, as the witness left it.
fn put(snapshot: &Snapshot, image: &Path) {
    let mut cells = Vec::new();
    snapshot.to_chip().export(&mut cells, true).unwrap();
    let _ = fs::remove_file(image);
    let chip = Chip::create(image, snapshot.config().clone()).unwrap();
    chip.import(&mut cells.as_slice(), true).unwrap();
}

fn kill(image: &Path) {
    let pid = Pid::from_raw(process_of(image).cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// Unmounts what a killed process left. A process that another test begins has copies of our open files for a moment.
fn take_away(sample: &Sample) {
    let start = Instant::now();
    loop {
        let run = sample.run(&["umount", "m"]);
        if run.code == 1 {
            return assert!(run.err.contains("had died"), "{}", run.err);
        }
        let is_busy = run.err.contains("is in use");
        assert!(is_busy && start.elapsed() < Duration::from_secs(10), "{}", run.err);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Works on a mount until its process is killed. With `lies`, no fsync takes place. Returns the
/// violations that the judge finds, or `None` without FUSE.
fn killed(target: &dyn Stack, name: &str, seed: u64, lies: bool) -> Option<Vec<Violation>> {
    let sample = Sample::new();
    let (image, dir) = (sample.path("c"), sample.path("m"));
    let (mut witness, snapshot) = Witness::new(target, seed).unwrap();
    put(&snapshot, &image);
    fs::create_dir(&dir).unwrap();
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let ids = [format!("0:{}", uid.as_raw()), format!("100:{}", gid.as_raw())];
    let run = sample.run(&["mount", name, "m", "--rw", "--uid", &ids[0], "--gid", &ids[1]]);
    if !mounted("a kill", &run) {
        return None;
    }
    let mut rng = Rng::new(seed, 1);
    let before = 5 + rng.below(150);
    let delay = Duration::from_micros(u64::from(rng.below(2000)));
    std::thread::scope(|scope| {
        let (ready, wait) = channel();
        let image = &image;
        scope.spawn(move || {
            if wait.recv().is_ok() {
                std::thread::sleep(delay);
                kill(image);
            }
        });
        for count in 0_u32.. {
            if count == before {
                ready.send(()).unwrap();
            }
            let (op, number) = witness.begin().unwrap();
            let done = match op {
                Op::SyncFile(_) if lies => Ok(()),
                op => act(&dir, &op, number),
            };
            let returned = match done.map_err(|error| Errno::from_io_error(&error)) {
                Ok(()) => Returned::Done,
                Err(Some(Errno::NOTCONN | Errno::CONNABORTED)) => break,
                Err(Some(Errno::NOSPC)) => Returned::NoSpace,
                Err(_) => Returned::Refused,
            };
            witness.end(returned).unwrap_or_else(|wrong| panic!("{name}, seed {seed}: {wrong}"));
        }
    });
    take_away(&sample);
    let start = Instant::now();
    while holder(&image).is_some() {
        assert!(start.elapsed() < Duration::from_secs(10), "the image stays locked");
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(witness.judge(Chip::load(&image).unwrap()).into_iter().collect())
}

/// Kills mounts in the midst of random operations.
fn survives(target: &dyn Stack, name: &str) {
    for seed in 0..ROUNDS {
        let Some(found) = killed(target, name, seed, false) else { return };
        if let Some(found) = found.into_iter().next() {
            let operations = found.operations.join("\n");
            panic!("{name}, seed {seed}: {}: {}\n{operations}", found.rule, found.message);
        }
    }
    // Where the kill comes in the midst of nothing that was to be durable, nothing is missing.
    let mut rounds = (0..8 * ROUNDS).filter_map(|seed| killed(target, name, seed, true));
    assert!(rounds.any(|found| !found.is_empty()), "{name}: without any fsync nothing is missing");
}

#[test]
fn a_killed_ubifs_mount_is_a_power_cut() {
    survives(&ubifs(Shape::Mini), "c:ubifs");
}

#[test]
fn a_killed_jffs2_mount_is_a_power_cut() {
    survives(&Jffs2Stack::find("nand").unwrap(), "c");
}

/// NOR has no buffer: nothing depends on fsync there.
#[test]
fn a_killed_jffs2_mount_on_nor_is_a_power_cut() {
    let target = Jffs2Stack::find("nor").unwrap();
    for seed in 0..ROUNDS {
        let found = killed(&target, "c", seed, true);
        assert!(found.is_none_or(|found| found.is_empty()), "seed {seed}");
    }
}

/// Mounts once the dead process has let go of the file, which may take a moment.
fn again(sample: &Sample, target: &str) {
    let start = Instant::now();
    while sample.run(&["mount", target, "m", "--rw"]).code == 3 {
        assert!(start.elapsed() < Duration::from_secs(10), "the image stays locked");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills the process of the mount on `dir` and waits until the kernel has noticed.
fn killed_and_gone(image: &Path, dir: &Path) {
    kill(image);
    let start = Instant::now();
    while !eraseblock::raw::fuse::is_dead(dir) {
        assert!(start.elapsed() < Duration::from_secs(10), "the mount lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `umount` was silent about it, and another mount said that the place is no directory.
#[test]
fn the_death_of_a_mount_is_reported() {
    let sample = with_volumes();
    let (image, dir) = (sample.path("c"), sample.path("m"));
    if !mounted("a death", &sample.run(&["mount", "c:root", "m", "--rw"])) {
        return;
    }
    // What the kernel has cached of the root must not hide it.
    assert!(fs::metadata(&dir).unwrap().is_dir());
    fs::write(dir.join("lost"), "content").unwrap();
    killed_and_gone(&image, &dir);
    for arguments in [&["mount", "c:root", "m"][..], &["mount", "--stats", "m"]] {
        let run = sample.run(arguments);
        assert_eq!(run.code, 3, "{arguments:?}: {}", run.err);
        for word in ["has died", "eraseblock umount"] {
            assert!(run.err.contains(word), "{arguments:?}: {}", run.err);
        }
    }
    let run = sample.run(&["umount", "m"]);
    assert_eq!(run.code, 1, "{}", run.err);
    for word in ["had died", "not made durable", "eraseblock check"] {
        assert!(run.err.contains(word), "{}", run.err);
    }
    sample.ok(&["mount", "c:root", "m"]);
    killed_and_gone(&image, &dir);
    let run = sample.ok(&["umount", "m"]);
    assert!(run.err.contains("had died") && run.err.contains("as it was"), "{}", run.err);
}

/// A file without a name.
fn unnamed(dir: &Path) -> std::io::Result<fs::File> {
    let flags = OFlags::TMPFILE.bits().cast_signed();
    fs::File::options().read(true).write(true).custom_flags(flags).open(dir)
}

/// A file without a name takes space while it is open, and none when its process is gone, however
/// it went; once it has a name it is like any other.
fn unnamed_files_go(sample: &Sample, target: &str) {
    let (image, dir) = (sample.path("c"), sample.path("m"));
    let free = || rustix::fs::statvfs(&dir).unwrap().f_bfree;
    if !mounted("files without names", &sample.run(&["mount", target, "m", "--rw"])) {
        return;
    }
    let (before, content) = (free(), noise(1 << 20));
    let is_back = || free() >= before - before / 10;
    let mut file = unnamed(&dir).unwrap();
    file.write_all(&content).unwrap();
    file.sync_all().unwrap();
    assert!(!is_back());
    drop(file);
    assert!((0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_back()
    }));
    let mut lost = unnamed(&dir).unwrap();
    lost.write_all(&content).unwrap();
    lost.sync_all().unwrap();
    let mut named = unnamed(&dir).unwrap();
    named.write_all(b"found").unwrap();
    let here = format!("/proc/self/fd/{}", named.as_raw_fd());
    rustix::fs::linkat(CWD, here, CWD, dir.join("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    named.sync_all().unwrap();
    kill(&image);
    drop((lost, named));
    take_away(sample);
    again(sample, target);
    assert!(is_back(), "{} of {before} are free", free());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(dir.join("named")).unwrap(), "found");
    sample.ok(&["umount", "m"]);
    let run = sample.ok(&["check", target]);
    assert!(run.err.contains("consistent"), "{}", run.err);
}

#[test]
fn files_without_names_go() {
    unnamed_files_go(&with_volumes(), "c:root");
}

/// As Linux's own JFFS2 does.
#[test]
fn jffs2_has_no_files_without_names() {
    let sample = nor();
    if mounted("files without names", &sample.run(&["mount", "c", "m", "--rw"])) {
        let refused = unnamed(&sample.path("m")).unwrap_err().raw_os_error();
        assert_eq!(refused, Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()));
        sample.ok(&["umount", "m"]);
    }
}
