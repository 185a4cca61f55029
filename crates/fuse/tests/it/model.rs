//! Operations of programs on the model.

use crate::stage::Stage;
use eraseblock_vfs::{FileSystem, FsErrorKind};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};

#[test]
fn files_links_and_directories_are_made_and_go() {
    let Some((stage, model)) = Stage::model("files") else { return };
    fs::create_dir(stage.path("d")).unwrap();
    fs::write(stage.path("d/f"), "content").unwrap();
    fs::hard_link(stage.path("d/f"), stage.path("g")).unwrap();
    symlink("d/f", stage.path("l")).unwrap();
    assert_eq!(fs::read_to_string(stage.path("l")).unwrap(), "content");
    assert_eq!(fs::metadata(stage.path("g")).unwrap().nlink(), 2);
    assert_eq!(fs::read_link(stage.path("l")).unwrap().as_os_str(), "d/f");
    fs::rename(stage.path("g"), stage.path("h")).unwrap();
    fs::remove_file(stage.path("d/f")).unwrap();
    assert_eq!(fs::metadata(stage.path("h")).unwrap().nlink(), 1);
    fs::remove_dir(stage.path("d")).unwrap();
    assert!(fs::remove_dir(stage.path("d")).is_err());
    stage.end();
    let names: Vec<_> = model.entries(model.root()).unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, [b"l".to_vec(), b"h".to_vec()]);
}

#[test]
fn a_file_lives_while_it_is_open() {
    let Some((stage, model)) = Stage::model("unlinked") else { return };
    let mut file =
        File::options().read(true).write(true).create_new(true).open(stage.path("f")).unwrap();
    file.write_all(b"before").unwrap();
    fs::remove_file(stage.path("f")).unwrap();
    file.write_all(b" and after").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), file.metadata().unwrap().nlink()), ("before and after", 0));
    assert_eq!(model.inode_count(), 2);
    drop(file);
    assert!(falls_to(1, || model.inode_count()), "the inode was never released");
}

#[test]
fn a_file_without_a_name_gets_one_or_goes() {
    let Some((stage, model)) = Stage::model("unnamed") else { return };
    for (name, is_private) in [(Some("named"), false), (None, false), (None, true)] {
        let mut flags = OFlags::TMPFILE;
        flags.set(OFlags::EXCL, is_private);
        let mut file = File::options()
            .read(true)
            .write(true)
            .mode(0o640)
            .custom_flags(flags.bits().cast_signed())
            .open(stage.dir())
            .unwrap();
        file.write_all(b"unnamed content").unwrap();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        let found = file.metadata().unwrap();
        assert_eq!((text.as_str(), found.nlink()), ("unnamed content", 0));
        assert_eq!(found.mode() & 0o7777, 0o640);
        let here = format!("/proc/self/fd/{}", file.as_raw_fd());
        let to = stage.path(name.unwrap_or("other"));
        let linked = rustix::fs::linkat(CWD, here, CWD, to, AtFlags::SYMLINK_FOLLOW);
        match (name, is_private) {
            (Some(name), _) => {
                linked.unwrap();
                assert_eq!(file.metadata().unwrap().nlink(), 1);
                assert_eq!(fs::read_to_string(stage.path(name)).unwrap(), "unnamed content");
            }
            (None, true) => assert_eq!(linked, Err(Errno::NOENT)),
            (None, false) => fs::remove_file(stage.path("other")).unwrap(),
        }
    }
    // The root and the named inodes.
    assert!(falls_to(2, || model.inode_count()), "an inode was never released");
    assert_eq!(fs::read_to_string(stage.path("named")).unwrap(), "unnamed content");
}

/// Returns whether `count` drops to `wanted`: the kernel forgets with a delay.
fn falls_to(wanted: usize, count: impl Fn() -> usize) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        count() == wanted
    })
}

#[test]
fn renames_have_their_forms() {
    let Some((stage, _)) = Stage::model("renames") else { return };
    fs::write(stage.path("a"), "a").unwrap();
    fs::write(stage.path("b"), "b").unwrap();
    let rename = |from: &str, to: &str, flags| {
        rustix::fs::renameat_with(CWD, stage.path(from), CWD, stage.path(to), flags)
    };
    assert_eq!(rename("a", "b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename("a", "b", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read_to_string(stage.path("a")).unwrap(), "b");
    rename("a", "c", RenameFlags::WHITEOUT).unwrap();
    let whiteout = fs::symlink_metadata(stage.path("a")).unwrap();
    assert_eq!((whiteout.mode() & 0o170_000, whiteout.rdev()), (0o020_000, 0));
    let both = RenameFlags::WHITEOUT | RenameFlags::NOREPLACE;
    assert_eq!(rename("c", "b", both), Err(Errno::EXIST));
    rename("c", "d", both).unwrap();
}

#[test]
fn names_are_bytes() {
    let Some((stage, _)) = Stage::model("names") else { return };
    let long = "x".repeat(255);
    for name in [OsStr::from_bytes(b"\xff\xfe\n"), OsStr::new(&long), OsStr::new("...")] {
        fs::write(stage.dir().join(name), "").unwrap();
    }
    let listed: BTreeSet<_> =
        fs::read_dir(stage.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(listed.contains(OsStr::from_bytes(b"\xff\xfe\n")) && listed.len() == 3);
    let error = fs::write(stage.path(&"x".repeat(256)), "").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()));
}

#[test]
fn times_are_kept_to_the_nanosecond() {
    let Some((stage, _)) = Stage::model("times") else { return };
    fs::write(stage.path("f"), "").unwrap();
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    for (atime, mtime) in [(time(7, 999_999_999), time(-2, 800_000_001)), (time(-9, 0), time(0, 1))]
    {
        let times = Timestamps { last_access: atime, last_modification: mtime };
        rustix::fs::utimensat(CWD, stage.path("f"), &times, AtFlags::empty()).unwrap();
        let found = fs::metadata(stage.path("f")).unwrap();
        assert_eq!((found.atime(), found.atime_nsec()), (atime.tv_sec, atime.tv_nsec));
        assert_eq!((found.mtime(), found.mtime_nsec()), (mtime.tv_sec, mtime.tv_nsec));
    }
}

#[test]
fn holes_are_found() {
    let Some((stage, _)) = Stage::model("holes") else { return };
    let file =
        File::options().read(true).write(true).create_new(true).open(stage.path("f")).unwrap();
    file.write_at(b"x", 100_000).unwrap();
    file.set_len(300_000).unwrap();
    let seek = |to| rustix::fs::seek(&file, to);
    assert_eq!(seek(SeekFrom::Data(0)), Ok(98_304));
    assert_eq!(seek(SeekFrom::Hole(98_304)), Ok(102_400));
    assert_eq!(seek(SeekFrom::Data(102_400)), Err(Errno::NXIO));
    assert_eq!(seek(SeekFrom::Hole(300_000)), Err(Errno::NXIO));
    let mut block = [1; 10];
    file.read_exact_at(&mut block, 200_000).unwrap();
    assert_eq!(block, [0; 10]);
}

#[test]
fn what_flash_cannot_do_is_refused_clearly() {
    let Some((stage, _)) = Stage::model("refusals") else { return };
    let file = File::create(stage.path("f")).unwrap();
    let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 4096);
    assert_eq!(allocated, Err(Errno::OPNOTSUPP));
    let stat = rustix::fs::statvfs(stage.dir()).unwrap();
    assert_eq!((stat.f_namemax, stat.f_bsize), (255, 4096));
}

#[test]
fn extended_attributes_are_kept() {
    let Some((stage, model)) = Stage::model("xattrs") else { return };
    fs::write(stage.path("f"), "").unwrap();
    let f = stage.path("f");
    let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&f, name, value, flags);
    set("user.a", b"1", XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.a", b"2", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(set("user.b", b"2", XattrFlags::REPLACE), Err(Errno::NODATA));
    set("security.x", &[7; 300], XattrFlags::empty()).unwrap();
    let mut value = vec![0; 10];
    assert_eq!(rustix::fs::getxattr(&f, "user.a", value.as_mut_slice()), Ok(1));
    assert_eq!(rustix::fs::getxattr(&f, "security.x", value.as_mut_slice()), Err(Errno::RANGE));
    value.resize(400, 0);
    assert_eq!(rustix::fs::getxattr(&f, "security.x", value.as_mut_slice()), Ok(300));
    let mut list = vec![0; 100];
    let len = rustix::fs::listxattr(&f, list.as_mut_slice()).unwrap();
    assert_eq!(&list[..len], b"security.x\0user.a\0");
    rustix::fs::removexattr(&f, "user.a").unwrap();
    let ino = model.resolve(b"f").unwrap();
    assert_eq!(model.xattr(ino, b"user.a").unwrap_err().kind(), FsErrorKind::NoAttribute);
}

/// Returns an ACL with a named user, in the format of setxattr(2).
fn list_with_user(user: u32, permissions: u16, mask: u16) -> Vec<u8> {
    let entries = [
        (1, 6, u32::MAX),
        (2, permissions, user),
        (4, 4, u32::MAX),
        (16, mask, u32::MAX),
        (32, 0, u32::MAX),
    ];
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        value.extend_from_slice(&u16::to_le_bytes(tag));
        value.extend_from_slice(&u16::to_le_bytes(bits));
        value.extend_from_slice(&u32::to_le_bytes(id));
    }
    value
}

#[test]
fn access_lists_and_modes_go_together() {
    let Some((stage, model)) = Stage::model("lists") else { return };
    let mode = |name: &str| fs::metadata(stage.path(name)).unwrap().mode() & 0o7777;
    let set = |name: &str, attribute: &str, value: &[u8]| {
        rustix::fs::setxattr(stage.path(name), attribute, value, XattrFlags::empty())
    };
    fs::write(stage.path("f"), "").unwrap();
    let default = rustix::fs::getxattr(stage.path("f"), "system.posix_acl_default", &mut [0; 64]);
    assert_eq!(default, Err(Errno::NODATA));
    set("f", "system.posix_acl_access", &list_with_user(1000, 7, 5)).unwrap();
    assert_eq!(mode("f"), 0o650);
    fs::set_permissions(stage.path("f"), fs::Permissions::from_mode(0o620)).unwrap();
    let ino = model.resolve(b"f").unwrap();
    let kept = model.xattr(ino, b"system.posix_acl_access").unwrap();
    assert_eq!(kept, list_with_user(1000, 7, 2));
    fs::create_dir(stage.path("d")).unwrap();
    set("d", "system.posix_acl_default", &list_with_user(1000, 7, 6)).unwrap();
    fs::create_dir(stage.path("d/sub")).unwrap();
    fs::write(stage.path("d/f"), "").unwrap();
    assert_eq!((mode("d/sub"), mode("d/f")), (0o660, 0o660));
    let sub = model.resolve(b"d/sub").unwrap();
    assert!(model.xattr(sub, b"system.posix_acl_default").is_ok());
    let plain: Vec<u8> = list_with_user(1000, 0, 0);
    let only_a_mode = [&plain[..12], &plain[20..28], &plain[36..]].concat();
    set("f", "system.posix_acl_access", &only_a_mode).unwrap();
    assert_eq!(mode("f"), 0o640);
    assert!(model.xattr(ino, b"system.posix_acl_access").is_err());
}

#[test]
fn chattr_flags_are_kept_and_obeyed() {
    let Some((stage, _)) = Stage::model("chattr") else { return };
    let file = File::create(stage.path("f")).unwrap();
    let none = rustix::fs::ioctl_getflags(&file).unwrap();
    let frozen = none | rustix::fs::IFlags::IMMUTABLE;
    rustix::fs::ioctl_setflags(&file, frozen).unwrap();
    assert_eq!(rustix::fs::ioctl_getflags(&file).unwrap(), frozen);
    let refused = |result: std::io::Result<File>| {
        result.unwrap_err().raw_os_error() == Some(Errno::PERM.raw_os_error())
    };
    assert!(refused(File::options().append(true).open(stage.path("f"))));
    rustix::fs::ioctl_setflags(&file, none | rustix::fs::IFlags::APPEND).unwrap();
    assert!(refused(File::options().write(true).open(stage.path("f"))));
    File::options().append(true).open(stage.path("f")).unwrap().write_all(b"x").unwrap();
    let time = |tv_nsec| Timespec { tv_sec: 5, tv_nsec };
    let set_times = |last_access, last_modification| {
        let times = Timestamps { last_access, last_modification };
        rustix::fs::utimensat(CWD, stage.path("f"), &times, AtFlags::empty())
    };
    let now = time(rustix::fs::UTIME_NOW);
    set_times(now, now).unwrap();
    assert!(fs::metadata(stage.path("f")).unwrap().mtime() > 5);
    assert_eq!(set_times(time(0), time(0)), Err(Errno::PERM));
    assert_eq!(set_times(now, time(rustix::fs::UTIME_OMIT)), Err(Errno::PERM));
    rustix::fs::ioctl_setflags(&file, none).unwrap();
    let compressed = none | rustix::fs::IFlags::NODUMP;
    assert_eq!(rustix::fs::ioctl_setflags(&file, compressed), Err(Errno::OPNOTSUPP));
}

/// Number of entries of a directory that needs many replies.
const NAMES: usize = 1000;

#[test]
fn directories_change_while_they_are_read() {
    let Some((stage, _)) = Stage::model("listing") else { return };
    let name = |number: usize| format!("a-name-of-some-length-{number:05}");
    for number in 0..NAMES {
        File::create(stage.path(&name(number))).unwrap();
    }
    let dir = rustix::fs::open(stage.dir(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
    let mut listed = BTreeSet::new();
    let mut count = 0;
    for (seen, entry) in rustix::fs::Dir::new(dir.unwrap()).unwrap().enumerate() {
        let entry = entry.unwrap();
        let name_bytes = entry.file_name().to_bytes();
        if name_bytes == b"." || name_bytes == b".." {
            continue;
        }
        count += 1;
        assert!(listed.insert(name_bytes.to_vec()), "listed twice");
        fs::remove_file(stage.dir().join(OsStr::from_bytes(name_bytes))).unwrap();
        if name_bytes.starts_with(b"a-name") {
            fs::write(stage.path(&format!("new-{seen}")), "").unwrap();
        }
        assert!(count <= 2 * NAMES, "a listing without end");
    }
    for number in 0..NAMES {
        assert!(listed.contains(name(number).as_bytes()), "{number} was passed over");
    }
}

#[test]
fn readers_and_writers_work_at_once() {
    let Some((stage, _)) = Stage::model("threads") else { return };
    std::thread::scope(|scope| {
        for worker in 0..4_u8 {
            let dir = stage.path(&format!("w{worker}"));
            scope.spawn(move || {
                fs::create_dir(&dir).unwrap();
                for number in 0..100_u8 {
                    let content = vec![worker ^ number; 5000];
                    fs::write(dir.join(number.to_string()), &content).unwrap();
                    assert_eq!(fs::read(dir.join(number.to_string())).unwrap(), content);
                }
                fs::remove_dir_all(&dir).unwrap();
            });
        }
    });
    assert_eq!(fs::read_dir(stage.dir()).unwrap().count(), 0);
}

#[test]
fn a_mount_ends_although_files_are_open() {
    let Some((stage, model)) = Stage::model("busy") else { return };
    let file = File::create(stage.path("f")).unwrap();
    file.write_at(b"kept", 0).unwrap();
    stage.end();
    assert!(file.write_at(b"lost", 0).is_err() || model.attr(2).is_ok_and(|attr| attr.size == 4));
    let ino = model.resolve(b"f").unwrap();
    let mut content = [0; 4];
    assert_eq!(model.read(ino, 0, &mut content).unwrap(), 4);
    assert_eq!(&content, b"kept");
}
