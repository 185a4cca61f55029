//! The promises of every file system (docs/SEMANTICS.md, FS1 to FS11), on UBIFS, JFFS2 and YAFFS2: each
//! promise is tested, and must still hold after a new mount.

use eraseblock_lab::Shape;
use eraseblock_lab::files::{Jffs2Stack, Mounted, Stack, Yaffs2Stack, ubifs};
use eraseblock_mtd::Access;
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{
    Caller, FileKind, FsError, FsErrorKind, Ino, NewInode, NewKind, RenameMode, SetAttr, Timestamp,
    WritableFileSystem, XattrMode,
};
use eraseblock_vfs_testkit::ModelRules;
use std::ops::ControlFlow;
use std::sync::Arc;

type Fs<'a> = &'a dyn WritableFileSystem;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

fn by(seconds: i64) -> Caller {
    Caller::owner(at(seconds))
}

fn new(kind: NewKind<'_>) -> NewInode<'_> {
    NewInode { kind, permissions: 0o644, uid: 5, gid: 6 }
}

fn file(fs: Fs<'_>, dir: Ino, name: &[u8]) -> Ino {
    fs.create(dir, name, &new(NewKind::Regular), &by(1)).unwrap()
}

fn folder(fs: Fs<'_>, dir: Ino, name: &[u8]) -> Ino {
    fs.create(dir, name, &new(NewKind::Directory), &by(1)).unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, FsError>) -> FsErrorKind {
    result.unwrap_err().kind()
}

fn size(fs: Fs<'_>, ino: Ino, size: u64) -> Result<(), FsError> {
    fs.set_attr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }, &by(2))
}

fn names(fs: Fs<'_>, dir: Ino, from: u64) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    fs.read_dir(dir, from, &mut |entry| {
        names.push(entry.name);
        ControlFlow::Continue(())
    })
    .unwrap();
    names
}

/// Tests a promise, then checks it after a new mount.
fn everywhere(trial: impl Fn(Fs<'_>, &ModelRules), look: impl Fn(Fs<'_>, &ModelRules)) {
    let targets: [Box<dyn Stack>; 3] = [
        Box::new(ubifs(Shape::Mini)),
        Box::new(Jffs2Stack::find("nand").unwrap()),
        Box::new(Yaffs2Stack::find("large").unwrap()),
    ];
    for target in targets {
        let rules = target.rules().model;
        let chip = Arc::new(target.format().unwrap());
        let mount = || -> Box<dyn Mounted> { target.mount(&chip, Access::Write).unwrap() };
        let mounted = mount();
        trial(mounted.fs(), &rules);
        mounted.check().unwrap();
        mounted.fs().unmount().unwrap();
        drop(mounted);
        let mounted = mount();
        look(mounted.fs(), &rules);
        mounted.check().unwrap();
    }
}

#[test]
fn names_are_as_long_as_promised() {
    let longest = |rules: &ModelRules| vec![b'n'; rules.name_max];
    everywhere(
        |fs, rules| {
            let root = fs.root();
            let f = file(fs, root, &longest(rules));
            let make = |dir, name: &[u8]| kind(fs.create(dir, name, &new(NewKind::Fifo), &by(1)));
            let too_long = vec![b'n'; rules.name_max + 1];
            assert_eq!(make(root, &too_long), FsErrorKind::NameTooLong);
            assert_eq!(make(f, &too_long), FsErrorKind::NotADirectory);
            for name in [&b"."[..], b"..", b"", b"a/b", b"a\0b"] {
                assert_eq!(make(root, name), FsErrorKind::Invalid, "{name:?}");
            }
            assert_eq!(make(root, &longest(rules)), FsErrorKind::Exists);
        },
        |fs, rules| assert_eq!(names(fs, fs.root(), 0), [longest(rules)]),
    );
}

#[test]
fn names_and_subdirectories_are_counted() {
    let links = |fs: Fs<'_>, path: &[u8]| fs.attr(fs.resolve(path).unwrap()).unwrap().nlink;
    let of_root = |rules: &ModelRules| rules.root_links + u32::from(rules.directory_links);
    everywhere(
        |fs, rules| {
            let root = fs.root();
            let d = folder(fs, root, b"d");
            folder(fs, d, b"e");
            let f = file(fs, d, b"f");
            fs.link(f, root, b"g", &by(3)).unwrap();
            fs.link(f, root, b"h", &by(3)).unwrap();
            assert_eq!((links(fs, b""), links(fs, b"g")), (of_root(rules), 3));
            fs.unlink(d, b"f", &by(4)).unwrap();
        },
        |fs, rules| {
            assert_eq!((links(fs, b""), links(fs, b"g")), (of_root(rules), 2));
            let found = (links(fs, b"d"), links(fs, b"d/e"));
            assert_eq!(found, if rules.directory_links { (3, 2) } else { (1, 1) });
        },
    );
}

#[test]
fn what_is_open_lives() {
    everywhere(
        |fs, rules| {
            let root = fs.root();
            let f = file(fs, root, b"f");
            fs.open(f).unwrap();
            fs.unlink(root, b"f", &by(1)).unwrap();
            fs.write(f, 0, b"x", &by(1)).unwrap();
            assert_eq!((fs.attr(f).unwrap().nlink, fs.attr(f).unwrap().size), (0, 1));
            fs.release(f).unwrap();
            assert_eq!(kind(fs.attr(f)), FsErrorKind::NotFound);
            let made = fs.create_unnamed(root, &new(NewKind::Regular), &by(1));
            if !rules.unnamed {
                assert_eq!(kind(made), FsErrorKind::Unsupported);
                return;
            }
            let f = made.unwrap();
            fs.write(f, 0, b"kept", &by(1)).unwrap();
            fs.link(f, root, b"kept", &by(1)).unwrap();
            fs.release(f).unwrap();
        },
        |fs, rules| assert_eq!(names(fs, fs.root(), 0).len(), usize::from(rules.unnamed)),
    );
}

#[test]
fn renames_replace_exchange_and_leave_whiteouts() {
    everywhere(
        |fs, rules| {
            let root = fs.root();
            let d = folder(fs, root, b"d");
            let (f, g) = (file(fs, root, b"f"), file(fs, d, b"g"));
            let go =
                |from: &[u8], to: (Ino, &[u8]), mode| fs.rename((root, from), to, mode, &by(9));
            assert_eq!(kind(go(b"d", (d, b"x"), RenameMode::Replace)), FsErrorKind::Invalid);
            assert_eq!(kind(go(b"no", (d, b"x"), RenameMode::Replace)), FsErrorKind::NotFound);
            assert_eq!(kind(go(b"f", (d, b"g"), RenameMode::NoReplace)), FsErrorKind::Exists);
            if rules.rename_forms {
                go(b"f", (d, b"g"), RenameMode::Exchange).unwrap();
                assert_eq!((fs.resolve(b"f").unwrap(), fs.resolve(b"d/g").unwrap()), (g, f));
                go(b"f", (d, b"h"), RenameMode::Whiteout).unwrap();
                let left = fs.attr(fs.resolve(b"f").unwrap()).unwrap();
                assert_eq!((left.kind, left.rdev), (FileKind::CharDevice, (0, 0)));
            } else {
                for mode in [RenameMode::Exchange, RenameMode::Whiteout] {
                    assert_eq!(kind(go(b"f", (d, b"g"), mode)), FsErrorKind::Invalid);
                }
                go(b"f", (d, b"g"), RenameMode::Replace).unwrap();
                assert_eq!(kind(fs.attr(g)), FsErrorKind::NotFound);
            }
        },
        |fs, rules| {
            let d = fs.resolve(b"d").unwrap();
            let expected: &[&[u8]] = if rules.rename_forms { &[b"g", b"h"] } else { &[b"g"] };
            let mut found = names(fs, d, 0);
            found.sort();
            assert_eq!(found, expected);
        },
    );
}

#[test]
fn times_follow_what_is_done() {
    everywhere(
        |fs, _| {
            let f = file(fs, fs.root(), b"f");
            fs.write(f, 0, b"x", &by(7)).unwrap();
            let attr = fs.attr(f).unwrap();
            assert_eq!((attr.atime, attr.mtime, attr.ctime), (at(1), at(7), at(7)));
            let times = SetAttr { atime: Some(at(4)), mtime: Some(at(3)), ..SetAttr::default() };
            fs.set_attr(f, &times, &by(8)).unwrap();
            assert_eq!(fs.attr(f).unwrap().ctime, at(8));
            let d = folder(fs, fs.root(), b"d");
            let target = NewKind::Symlink(b"target");
            let l = fs.create(fs.root(), b"l", &new(target), &by(1)).unwrap();
            for ino in [f, d, l] {
                let set =
                    |time| fs.set_xattr(ino, b"trusted.a", b"1", XattrMode::Either, &by(time));
                set(12).unwrap();
                assert_eq!(fs.attr(ino).unwrap().ctime, at(12));
                set(13).unwrap();
                assert_eq!(fs.attr(ino).unwrap().ctime, at(13), "the same value again");
            }
            fs.remove_xattr(f, b"trusted.a", &by(14)).unwrap();
            assert_eq!(fs.attr(f).unwrap().ctime, at(14));
            file(fs, fs.root(), b"g");
            fs.unlink(fs.root(), b"g", &by(11)).unwrap();
            let root = fs.attr(fs.root()).unwrap();
            assert_eq!((root.mtime, root.ctime), (at(11), at(11)));
        },
        |fs, _| {
            let attr = fs.attr(fs.resolve(b"f").unwrap()).unwrap();
            assert_eq!((attr.atime, attr.mtime, attr.ctime), (at(4), at(3), at(14)));
            for name in [b"d", b"l"] {
                assert_eq!(fs.attr(fs.resolve(name).unwrap()).unwrap().ctime, at(13));
            }
            assert_eq!(fs.read_link(fs.resolve(b"l").unwrap()).unwrap(), b"target");
            assert_eq!(fs.attr(fs.root()).unwrap().mtime, at(11));
        },
    );
}

#[test]
fn what_was_never_written_is_zero() {
    let look = |fs: Fs<'_>| {
        let f = fs.resolve(b"f").unwrap();
        let mut all = vec![9; 20_481];
        assert_eq!(fs.read(f, 0, &mut all).unwrap(), 20_480);
        let written = |index: usize| index == 12_287 || index == 12_288;
        let is_right = |(index, byte): (usize, &u8)| *byte == if written(index) { 7 } else { 0 };
        assert!(all[..20_480].iter().enumerate().all(is_right));
        assert_eq!(fs.read(f, u64::MAX, &mut all).unwrap(), 0);
    };
    everywhere(
        |fs, rules| {
            let f = file(fs, fs.root(), b"f");
            fs.write(f, 12_287, &[7; 600], &by(1)).unwrap();
            size(fs, f, 12_289).unwrap();
            size(fs, f, 20_480).unwrap();
            look(fs);
            assert_eq!(kind(fs.write(f, rules.size_max, b"x", &by(1))), FsErrorKind::TooBig);
        },
        |fs, _| look(fs),
    );
}

#[test]
fn groups_and_flags_are_inherited() {
    let compress = InodeFlags { compress: true, sync: true, ..InodeFlags::default() };
    everywhere(
        |fs, rules| {
            let d = folder(fs, fs.root(), b"d");
            let change = SetAttr { permissions: Some(0o2755), gid: Some(77), ..SetAttr::default() };
            fs.set_attr(d, &change, &by(1)).unwrap();
            let flags = SetAttr { flags: Some(compress), ..SetAttr::default() };
            if rules.flags {
                fs.set_attr(d, &flags, &by(1)).unwrap();
            }
            file(fs, d, b"f");
            folder(fs, d, b"e");
        },
        |fs, rules| {
            let attr = |path: &[u8]| fs.attr(fs.resolve(path).unwrap()).unwrap();
            let (f, e) = (attr(b"d/f"), attr(b"d/e"));
            assert_eq!((f.gid, f.permissions), (77, 0o644));
            assert_eq!((e.gid, e.permissions), (77, 0o2644));
            if rules.flags {
                assert_eq!((f.flags, e.flags), (compress, compress));
            }
        },
    );
}

#[test]
fn immutable_and_append_only_files_keep_what_they_have() {
    let none = InodeFlags::default();
    let immutable = InodeFlags { immutable: true, ..none };
    let append = InodeFlags { append: true, ..none };
    let denied = FsErrorKind::NotPermitted;
    let touch = SetAttr { touch: true, ..SetAttr::default() };
    let explicit = SetAttr { atime: Some(at(9)), mtime: Some(at(9)), ..SetAttr::default() };
    let frozen = |fs: Fs<'_>, name: &[u8]| {
        let f = fs.resolve(name).unwrap();
        assert_eq!(kind(fs.set_attr(f, &explicit, &by(9))), denied);
        assert_eq!(kind(fs.write(f, 0, b"x", &by(1))), denied);
        assert_eq!(kind(size(fs, f, 0)), denied);
        assert_eq!(kind(fs.unlink(fs.root(), name, &by(1))), denied);
        assert_eq!(kind(fs.link(f, fs.root(), b"g", &by(1))), denied);
        let to = (fs.root(), &b"g"[..]);
        assert_eq!(kind(fs.rename((fs.root(), name), to, RenameMode::Replace, &by(1))), denied);
        assert_eq!(kind(fs.set_xattr(f, b"user.a", b"", XattrMode::Either, &by(1))), denied);
    };
    everywhere(
        |fs, rules| {
            for (name, flags) in [(b"i", immutable), (b"a", append)] {
                let f = file(fs, fs.root(), name);
                fs.write(f, 0, b"xy", &by(1)).unwrap();
                let change = SetAttr { flags: Some(flags), ..SetAttr::default() };
                let changed = fs.set_attr(f, &change, &by(1));
                if rules.flags {
                    changed.unwrap();
                    frozen(fs, name);
                    let touched = fs.set_attr(f, &touch, &by(7));
                    assert_eq!(touched.is_ok(), flags.append);
                } else {
                    assert_eq!(kind(changed), FsErrorKind::Unsupported);
                }
            }
        },
        |fs, rules| {
            if rules.flags {
                frozen(fs, b"i");
                frozen(fs, b"a");
                let a = fs.resolve(b"a").unwrap();
                let attr = fs.attr(a).unwrap();
                assert_eq!((attr.atime, attr.mtime, attr.ctime), (at(7), at(7), at(7)));
                fs.write(a, 2, b"z", &by(1)).unwrap();
                assert_eq!(kind(fs.write(fs.resolve(b"i").unwrap(), 2, b"z", &by(1))), denied);
            }
        },
    );
}

#[test]
fn attributes_are_set_as_their_modes_say() {
    everywhere(
        |fs, rules| {
            let f = file(fs, fs.root(), b"f");
            let set = |name: &[u8], value: &[u8], mode| fs.set_xattr(f, name, value, mode, &by(4));
            assert_eq!(kind(set(b"user.a", b"", XattrMode::Replace)), FsErrorKind::NoAttribute);
            set(b"user.a", b"", XattrMode::Create).unwrap();
            assert_eq!(kind(set(b"user.a", b"", XattrMode::Create)), FsErrorKind::Exists);
            set(b"user.a", b"1", XattrMode::Replace).unwrap();
            set(b"trusted.b", &[2; 900], XattrMode::Either).unwrap();
            set(b"security.c", b"3", XattrMode::Either).unwrap();
            let too_long = vec![0; rules.xattr_value_max + 1];
            assert_eq!(kind(set(b"user.d", &too_long, XattrMode::Either)), FsErrorKind::OutOfRange);
            fs.remove_xattr(f, b"security.c", &by(5)).unwrap();
            assert_eq!(kind(fs.remove_xattr(f, b"security.c", &by(5))), FsErrorKind::NoAttribute);
        },
        |fs, _| {
            let f = fs.resolve(b"f").unwrap();
            let mut names = fs.list_xattrs(f).unwrap();
            names.sort();
            assert_eq!(names, [&b"trusted.b"[..], b"user.a"]);
            assert_eq!(fs.xattr(f, b"user.a").unwrap(), b"1");
            assert_eq!(fs.xattr(f, b"trusted.b").unwrap(), [2; 900]);
        },
    );
}

#[test]
fn a_cookie_outlives_changes_of_its_directory() {
    everywhere(
        |fs, _| {
            let root = fs.root();
            let all: Vec<Vec<u8>> = (0..30).map(|n| format!("name-{n}").into_bytes()).collect();
            for name in &all {
                file(fs, root, name);
            }
            let entries = fs.entries(root).unwrap();
            let (seen, rest) = entries.split_at(11);
            for entry in seen {
                fs.unlink(root, &entry.name, &by(1)).unwrap();
            }
            for number in 0..20 {
                file(fs, root, format!("new-{number}").as_bytes());
            }
            let later = names(fs, root, seen[10].cookie);
            assert!(rest.iter().all(|entry| later.contains(&entry.name)));
            assert!(seen.iter().all(|entry| !later.contains(&entry.name)));
        },
        |fs, _| assert_eq!(names(fs, fs.root(), 0).len(), 39),
    );
}

#[test]
fn read_only_refuses_every_change() {
    everywhere(
        |fs, _| {
            let root = fs.root();
            let f = file(fs, root, b"f");
            fs.write(f, 0, b"x", &by(1)).unwrap();
            fs.become_read_only().unwrap();
            let refused = [
                fs.unlink(root, b"f", &by(1)),
                fs.write(f, 0, b"y", &by(1)),
                size(fs, f, 0),
                fs.link(f, root, b"g", &by(1)),
                fs.remove_dir(root, b"d", &by(1)),
                fs.rename((root, b"f"), (root, b"g"), RenameMode::Replace, &by(1)),
                fs.set_xattr(f, b"user.a", b"", XattrMode::Either, &by(1)),
                fs.remove_xattr(f, b"user.a", &by(1)),
                fs.create(root, b"g", &new(NewKind::Fifo), &by(1)).map(drop),
            ];
            for (number, result) in refused.into_iter().enumerate() {
                assert_eq!(kind(result), FsErrorKind::ReadOnly, "{number}");
            }
            assert_eq!(fs.read(f, 0, &mut [0; 4]).unwrap(), 1);
            fs.sync_file(f).unwrap();
            fs.sync().unwrap();
            fs.become_writable().unwrap();
            fs.write(f, 1, b"y", &by(1)).unwrap();
        },
        |fs, _| assert_eq!(fs.attr(fs.resolve(b"f").unwrap()).unwrap().size, 2),
    );
}
