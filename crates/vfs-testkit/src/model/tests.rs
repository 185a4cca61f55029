//! One test per rule.

use super::*;
use eraseblock_vfs::Caller;
use eraseblock_vfs::error::{FsError, FsErrorKind};
use eraseblock_vfs::fs::FileSystem;
use eraseblock_vfs::write::{
    NewInode, NewKind, RenameMode, SetAttr, WritableFileSystem as _, XattrMode,
};
use std::ops::ControlFlow;

const ROOT: Ino = ModelFs::ROOT;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

fn by(seconds: i64) -> Caller {
    Caller::owner(at(seconds))
}

fn new(kind: NewKind<'_>) -> NewInode<'_> {
    NewInode { kind, permissions: 0o644, uid: 5, gid: 6 }
}

fn file(fs: &ModelFs, dir: Ino, name: &[u8]) -> Ino {
    fs.create(dir, name, &new(NewKind::Regular), &by(1)).unwrap()
}

fn folder(fs: &ModelFs, dir: Ino, name: &[u8]) -> Ino {
    fs.create(dir, name, &new(NewKind::Directory), &by(1)).unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, FsError>) -> FsErrorKind {
    result.unwrap_err().kind()
}

fn rename(
    fs: &ModelFs,
    from: (Ino, &[u8]),
    to: (Ino, &[u8]),
    mode: RenameMode,
) -> Result<(), FsError> {
    fs.rename(from, to, mode, &by(9))
}

fn flags(fs: &ModelFs, ino: Ino, flags: InodeFlags) {
    fs.set_attr(ino, &SetAttr { flags: Some(flags), ..SetAttr::default() }, &by(2)).unwrap();
}

const IMMUTABLE: InodeFlags = InodeFlags {
    compress: false,
    sync: false,
    immutable: true,
    append: false,
    dirsync: false,
    encrypted: false,
};
const APPEND: InodeFlags = InodeFlags { immutable: false, append: true, ..IMMUTABLE };
const NONE: InodeFlags = InodeFlags { immutable: false, ..IMMUTABLE };

#[test]
fn creation_refuses_in_order() {
    let fs = ModelFs::default();
    let f = file(&fs, ROOT, b"f");
    let make = |dir, name: &[u8]| fs.create(dir, name, &new(NewKind::Regular), &by(1));
    assert_eq!(kind(make(99, b"x")), FsErrorKind::NotFound);
    assert_eq!(kind(make(f, &[b'x'; 300])), FsErrorKind::NotADirectory);
    assert_eq!(kind(make(ROOT, &[b'x'; 256])), FsErrorKind::NameTooLong);
    assert_eq!(kind(make(ROOT, b".")), FsErrorKind::Invalid);
    assert_eq!(kind(make(ROOT, b"f")), FsErrorKind::Exists);
    let link = |target| kind(fs.create(ROOT, b"l", &new(NewKind::Symlink(target)), &by(1)));
    assert_eq!(link(b""), FsErrorKind::NotFound);
    assert_eq!(link(&[b'x'; 4096]), FsErrorKind::NameTooLong);
    assert_eq!(fs.inode_count(), 2);
}

#[test]
fn names_count_as_links() {
    let fs = ModelFs::default();
    let d = folder(&fs, ROOT, b"d");
    let f = file(&fs, d, b"f");
    fs.link(f, ROOT, b"g", &by(3)).unwrap();
    let nlink = |ino| fs.attr(ino).unwrap().nlink;
    assert_eq!((nlink(ROOT), nlink(d), nlink(f)), (3, 2, 2));
    fs.unlink(d, b"f", &by(4)).unwrap();
    assert_eq!(fs.attr(f).unwrap().ctime, at(4));
    fs.remove_dir(ROOT, b"d", &by(4)).unwrap();
    assert_eq!((nlink(ROOT), nlink(f)), (2, 1));
    assert_eq!(kind(fs.attr(d)), FsErrorKind::NotFound);
}

#[test]
fn directories_know_their_size() {
    let fs = ModelFs::default();
    assert_eq!(fs.attr(ROOT).unwrap().size, 160);
    file(&fs, ROOT, b"a");
    file(&fs, ROOT, b"12345678");
    assert_eq!(fs.attr(ROOT).unwrap().size, 160 + 64 + 72);
    let zero = ModelFs::new(ModelRules::JFFS2, at(0));
    file(&zero, ROOT, b"a");
    assert_eq!(zero.attr(ROOT).unwrap().size, 0);
}

#[test]
fn links_are_refused_by_kind() {
    let rules = ModelRules { links_max: 2, ..ModelRules::UBIFS };
    let fs = ModelFs::new(rules, at(0));
    let d = folder(&fs, ROOT, b"d");
    let f = file(&fs, ROOT, b"f");
    assert_eq!(kind(fs.link(d, ROOT, b"e", &by(1))), FsErrorKind::NotPermitted);
    assert_eq!(kind(fs.link(d, ROOT, b"f", &by(1))), FsErrorKind::Exists);
    assert_eq!(kind(fs.link(f, f, b"g", &by(1))), FsErrorKind::NotADirectory);
    fs.link(f, ROOT, b"g", &by(1)).unwrap();
    assert_eq!(kind(fs.link(f, ROOT, b"h", &by(1))), FsErrorKind::TooManyLinks);
    fs.open(f).unwrap();
    fs.unlink(ROOT, b"f", &by(1)).unwrap();
    fs.unlink(ROOT, b"g", &by(1)).unwrap();
    assert_eq!(kind(fs.link(f, ROOT, b"h", &by(1))), FsErrorKind::NotFound);
}

#[test]
fn a_file_made_without_a_name_can_get_one() {
    let fs = ModelFs::default();
    let f = fs.create_unnamed(ROOT, &new(NewKind::Regular), &by(1)).unwrap();
    assert_eq!(fs.attr(f).unwrap().nlink, 0);
    fs.write(f, 0, b"x", &by(1)).unwrap();
    fs.link(f, ROOT, b"f", &by(1)).unwrap();
    fs.release(f).unwrap();
    assert_eq!(fs.attr(f).unwrap().nlink, 1);
    let gone = fs.create_unnamed(ROOT, &new(NewKind::Regular), &by(1)).unwrap();
    fs.release(gone).unwrap();
    assert_eq!(kind(fs.attr(gone)), FsErrorKind::NotFound);
    assert_eq!(kind(fs.create_unnamed(ROOT, &new(NewKind::Fifo), &by(1))), FsErrorKind::Invalid);
    assert_eq!(kind(fs.release(f)), FsErrorKind::Invalid);
    let jffs2 = ModelFs::new(ModelRules::JFFS2, at(0));
    let made = jffs2.create_unnamed(ROOT, &new(NewKind::Regular), &by(1));
    assert_eq!(kind(made), FsErrorKind::Unsupported);
}

#[test]
fn an_open_file_outlives_its_names() {
    let fs = ModelFs::default();
    let f = file(&fs, ROOT, b"f");
    fs.open(f).unwrap();
    fs.unlink(ROOT, b"f", &by(1)).unwrap();
    fs.write(f, 0, b"x", &by(1)).unwrap();
    let copy = fs.clone();
    fs.release(f).unwrap();
    assert_eq!(kind(fs.attr(f)), FsErrorKind::NotFound);
    assert_eq!(copy.attr(f).unwrap().size, 1);
    copy.drop_open();
    assert_eq!(kind(copy.attr(f)), FsErrorKind::NotFound);
}

#[test]
fn a_removed_directory_takes_no_entries() {
    let fs = ModelFs::default();
    let d = folder(&fs, ROOT, b"d");
    file(&fs, ROOT, b"f");
    fs.open(d).unwrap();
    fs.remove_dir(ROOT, b"d", &by(1)).unwrap();
    assert_eq!(kind(fs.create(d, b"x", &new(NewKind::Fifo), &by(1))), FsErrorKind::NotFound);
    let moved = rename(&fs, (ROOT, b"f"), (d, b"f"), RenameMode::Replace);
    assert_eq!(kind(moved), FsErrorKind::NotFound);
    assert_eq!(fs.entries(d).unwrap(), []);
}

#[test]
fn removal_refuses_the_wrong_kind() {
    let fs = ModelFs::default();
    let d = folder(&fs, ROOT, b"d");
    let f = file(&fs, d, b"f");
    assert_eq!(kind(fs.unlink(ROOT, b"d", &by(1))), FsErrorKind::IsADirectory);
    assert_eq!(kind(fs.remove_dir(d, b"f", &by(1))), FsErrorKind::NotADirectory);
    assert_eq!(kind(fs.remove_dir(ROOT, b"d", &by(1))), FsErrorKind::NotEmpty);
    assert_eq!(kind(fs.unlink(ROOT, b"x", &by(1))), FsErrorKind::NotFound);
    assert_eq!(kind(fs.unlink(f, b"x", &by(1))), FsErrorKind::NotADirectory);
}

#[test]
fn renames_are_refused_in_order() {
    let fs = ModelFs::default();
    let d = folder(&fs, ROOT, b"d");
    let e = folder(&fs, d, b"e");
    file(&fs, ROOT, b"f");
    file(&fs, e, b"x");
    let go = |from: (Ino, &[u8]), to: (Ino, &[u8]), mode| kind(rename(&fs, from, to, mode));
    let plain = RenameMode::Replace;
    assert_eq!(go((ROOT, b"no"), (ROOT, b"f"), plain), FsErrorKind::NotFound);
    assert_eq!(go((ROOT, b"f"), (ROOT, b"d"), RenameMode::NoReplace), FsErrorKind::Exists);
    assert_eq!(go((ROOT, b"f"), (ROOT, b"no"), RenameMode::Exchange), FsErrorKind::NotFound);
    assert_eq!(go((ROOT, b"d"), (e, b"y"), plain), FsErrorKind::Invalid);
    assert_eq!(go((ROOT, b"d"), (d, b"y"), plain), FsErrorKind::Invalid);
    assert_eq!(go((e, b"x"), (ROOT, b"d"), plain), FsErrorKind::NotEmpty);
    assert_eq!(go((e, b"x"), (ROOT, b"d"), RenameMode::Exchange), FsErrorKind::Invalid);
    assert_eq!(go((ROOT, b"f"), (ROOT, b"d"), plain), FsErrorKind::IsADirectory);
    assert_eq!(go((d, b"e"), (ROOT, b"f"), plain), FsErrorKind::NotADirectory);
    folder(&fs, ROOT, b"g");
    assert_eq!(go((ROOT, b"g"), (d, b"e"), plain), FsErrorKind::NotEmpty);
    let jffs2 = ModelFs::new(ModelRules::JFFS2, at(0));
    file(&jffs2, ROOT, b"f");
    let whiteout = rename(&jffs2, (ROOT, b"f"), (ROOT, b"g"), RenameMode::Whiteout);
    assert_eq!(kind(whiteout), FsErrorKind::Invalid);
}

#[test]
fn a_rename_onto_the_same_inode_does_nothing() {
    let fs = ModelFs::default();
    let f = file(&fs, ROOT, b"f");
    fs.link(f, ROOT, b"g", &by(2)).unwrap();
    rename(&fs, (ROOT, b"f"), (ROOT, b"g"), RenameMode::Replace).unwrap();
    rename(&fs, (ROOT, b"f"), (ROOT, b"f"), RenameMode::Whiteout).unwrap();
    assert_eq!(fs.entries(ROOT).unwrap().len(), 2);
    assert_eq!(fs.attr(f).unwrap().ctime, at(2));
}

#[test]
fn renames_move_links_and_times() {
    let fs = ModelFs::default();
    let d = folder(&fs, ROOT, b"d");
    let e = folder(&fs, ROOT, b"e");
    let inner = folder(&fs, d, b"x");
    rename(&fs, (d, b"x"), (e, b"x"), RenameMode::Replace).unwrap();
    let nlink = |ino| fs.attr(ino).unwrap().nlink;
    assert_eq!((nlink(d), nlink(e)), (2, 3));
    assert_eq!(fs.attr(inner).unwrap().ctime, at(9));
    assert_eq!((fs.attr(d).unwrap().mtime, fs.attr(e).unwrap().mtime), (at(9), at(9)));
    assert_eq!(
        kind(rename(&fs, (ROOT, b"e"), (inner, b"y"), RenameMode::Replace)),
        FsErrorKind::Invalid
    );
    rename(&fs, (e, b"x"), (ROOT, b"d"), RenameMode::Replace).unwrap();
    assert_eq!((nlink(ROOT), nlink(e)), (4, 2));
    assert_eq!(kind(fs.attr(d)), FsErrorKind::NotFound);
}

#[test]
fn exchange_and_whiteout() {
    let fs = ModelFs::default();
    let d = folder(&fs, ROOT, b"d");
    let f = file(&fs, ROOT, b"f");
    let x = folder(&fs, d, b"x");
    rename(&fs, (ROOT, b"f"), (d, b"x"), RenameMode::Exchange).unwrap();
    assert_eq!((fs.resolve(b"d/x").unwrap(), fs.resolve(b"f").unwrap()), (f, x));
    assert_eq!((fs.attr(ROOT).unwrap().nlink, fs.attr(d).unwrap().nlink), (4, 2));
    rename(&fs, (d, b"x"), (ROOT, b"g"), RenameMode::Whiteout).unwrap();
    let left = fs.attr(fs.resolve(b"d/x").unwrap()).unwrap();
    assert_eq!((left.kind, left.rdev, left.nlink), (FileKind::CharDevice, (0, 0), 1));
}

#[test]
fn set_group_id_is_handed_down() {
    let fs = ModelFs::default();
    let d = folder(&fs, ROOT, b"d");
    let changes = SetAttr { permissions: Some(0o2755), gid: Some(77), ..SetAttr::default() };
    fs.set_attr(d, &changes, &by(1)).unwrap();
    let (f, e) = (file(&fs, d, b"f"), folder(&fs, d, b"e"));
    let (f, e) = (fs.attr(f).unwrap(), fs.attr(e).unwrap());
    assert_eq!((f.gid, f.permissions, e.gid, e.permissions), (77, 0o644, 77, 0o2644));
    let l = fs.create(d, b"l", &new(NewKind::Symlink(b"t")), &by(1)).unwrap();
    assert_eq!((fs.attr(l).unwrap().permissions, fs.attr(l).unwrap().size), (0o777, 1));
}

#[test]
fn flags_are_inherited() {
    let fs = ModelFs::default();
    let d = folder(&fs, ROOT, b"d");
    flags(&fs, d, InodeFlags { compress: true, dirsync: true, ..NONE });
    let (f, e) = (file(&fs, d, b"f"), folder(&fs, d, b"e"));
    assert_eq!(fs.attr(f).unwrap().flags, InodeFlags { compress: true, ..NONE });
    assert!(fs.attr(e).unwrap().flags.dirsync);
    flags(&fs, f, InodeFlags { dirsync: true, ..NONE });
    assert_eq!(fs.attr(f).unwrap().flags, NONE);
    let encrypted =
        SetAttr { flags: Some(InodeFlags { encrypted: true, ..NONE }), ..SetAttr::default() };
    assert_eq!(kind(fs.set_attr(f, &encrypted, &by(1))), FsErrorKind::Unsupported);
}

#[test]
fn immutable_and_append_only_inodes_stay() {
    let fs = ModelFs::default();
    let d = folder(&fs, ROOT, b"d");
    let f = file(&fs, d, b"f");
    let denied = FsErrorKind::NotPermitted;
    let chmod = SetAttr { permissions: Some(0), ..SetAttr::default() };
    let shrink = SetAttr { size: Some(0), ..SetAttr::default() };
    for frozen in [IMMUTABLE, APPEND] {
        flags(&fs, f, frozen);
        assert_eq!(kind(fs.set_attr(f, &chmod, &by(1))), denied);
        assert_eq!(kind(fs.set_attr(f, &shrink, &by(1))), denied);
        assert_eq!(kind(fs.unlink(d, b"f", &by(1))), denied);
        assert_eq!(kind(fs.link(f, ROOT, b"g", &by(1))), denied);
        assert_eq!(kind(rename(&fs, (d, b"f"), (ROOT, b"g"), RenameMode::Replace)), denied);
        assert_eq!(kind(fs.set_xattr(f, b"user.a", b"", XattrMode::Either, &by(1))), denied);
        flags(&fs, f, NONE);
        flags(&fs, d, frozen);
        assert_eq!(kind(fs.unlink(d, b"f", &by(1))), denied);
        let made = fs.create(d, b"n", &new(NewKind::Fifo), &by(1));
        assert_eq!(made.is_ok(), frozen.append);
        flags(&fs, d, NONE);
    }
    let touch = SetAttr { touch: true, ..SetAttr::default() };
    let explicit = SetAttr { atime: Some(at(9)), mtime: Some(at(9)), ..SetAttr::default() };
    for ino in [d, f] {
        flags(&fs, ino, IMMUTABLE);
        assert_eq!(kind(fs.set_attr(ino, &touch, &by(9))), denied);
        flags(&fs, ino, APPEND);
        assert_eq!(kind(fs.set_attr(ino, &explicit, &by(9))), denied);
        fs.set_attr(ino, &touch, &by(9)).unwrap();
        let attr = fs.attr(ino).unwrap();
        assert_eq!((attr.atime, attr.mtime, attr.ctime), (at(9), at(9), at(9)));
        flags(&fs, ino, NONE);
    }
    flags(&fs, f, IMMUTABLE);
    assert_eq!(kind(fs.write(f, 0, b"x", &by(1))), denied);
    flags(&fs, f, APPEND);
    fs.write(f, 0, b"xy", &by(1)).unwrap();
    assert_eq!(kind(fs.write(f, 1, b"x", &by(1))), denied);
    fs.write(f, 2, b"z", &by(1)).unwrap();
}

#[test]
fn times_follow_changes_in_whole_steps() {
    let fs = ModelFs::default();
    let f = file(&fs, ROOT, b"f");
    let now = Timestamp { seconds: 7, nanoseconds: 999 };
    let exactly = &Caller::owner(now);
    fs.write(f, 0, b"", exactly).unwrap();
    assert_eq!(fs.attr(f).unwrap().mtime, at(1));
    fs.write(f, 0, b"x", exactly).unwrap();
    let attr = fs.attr(f).unwrap();
    assert_eq!((attr.atime, attr.mtime, attr.ctime), (at(1), at(7), at(7)));
    let utimes = SetAttr { atime: Some(now), mtime: Some(at(-3)), ..SetAttr::default() };
    fs.set_attr(f, &utimes, &by(8)).unwrap();
    let attr = fs.attr(f).unwrap();
    assert_eq!((attr.atime, attr.mtime, attr.ctime), (at(7), at(-3), at(8)));
    fs.set_attr(f, &SetAttr { size: Some(1), ..SetAttr::default() }, &by(9)).unwrap();
    assert_eq!(fs.attr(f).unwrap().mtime, at(9));
    fs.set_attr(f, &SetAttr::default(), &by(10)).unwrap();
    assert_eq!(fs.attr(f).unwrap().ctime, at(9));
}

#[test]
fn contents_grow_shrink_and_have_holes() {
    let fs = ModelFs::default();
    let f = file(&fs, ROOT, b"f");
    fs.write(f, 3 * 4096 - 1, &[7; 4], &by(1)).unwrap();
    assert_eq!(fs.seek_data(f, 0).unwrap(), Some(2 * 4096));
    assert_eq!(fs.seek_hole(f, 2 * 4096).unwrap(), 3 * 4096 + 3);
    let size = |size| fs.set_attr(f, &SetAttr { size: Some(size), ..SetAttr::default() }, &by(1));
    size(3 * 4096 + 1).unwrap();
    size(5 * 4096).unwrap();
    let mut buf = [9; 5];
    assert_eq!(fs.read(f, 3 * 4096 - 1, &mut buf).unwrap(), 5);
    assert_eq!(buf, [7, 7, 0, 0, 0]);
    assert_eq!(fs.seek_hole(f, 3 * 4096).unwrap(), 4 * 4096);
    assert_eq!(fs.seek_data(f, 4 * 4096).unwrap(), None);
    assert_eq!(fs.seek_hole(f, 6 * 4096).unwrap(), 6 * 4096);
    assert_eq!(fs.read(f, 5 * 4096 - 2, &mut buf).unwrap(), 2);
    assert_eq!(fs.read(f, u64::MAX, &mut buf).unwrap(), 0);
    assert_eq!(kind(size((2 << 40) + 1)), FsErrorKind::TooBig);
    assert_eq!(kind(fs.write(f, 2 << 40, b"x", &by(1))), FsErrorKind::TooBig);
    assert_eq!(kind(fs.write(f, u64::MAX, b"x", &by(1))), FsErrorKind::TooBig);
    assert_eq!(kind(fs.write(ROOT, 0, b"x", &by(1))), FsErrorKind::IsADirectory);
    let resize = SetAttr { size: Some(0), ..SetAttr::default() };
    assert_eq!(kind(fs.set_attr(ROOT, &resize, &by(1))), FsErrorKind::IsADirectory);
    let p = fs.create(ROOT, b"p", &new(NewKind::Fifo), &by(1)).unwrap();
    assert_eq!(kind(fs.write(p, 0, b"x", &by(1))), FsErrorKind::Invalid);
    assert_eq!(kind(fs.read(p, 0, &mut buf)), FsErrorKind::Invalid);
}

#[test]
fn extended_attributes_follow_their_modes() {
    let fs = ModelFs::default();
    let f = file(&fs, ROOT, b"f");
    let set = |name: &[u8], value: &[u8], mode| fs.set_xattr(f, name, value, mode, &by(4));
    assert_eq!(kind(set(b"user.a", b"", XattrMode::Replace)), FsErrorKind::NoAttribute);
    set(b"user.a", b"", XattrMode::Create).unwrap();
    assert_eq!(kind(set(b"user.a", b"", XattrMode::Create)), FsErrorKind::Exists);
    set(b"user.a", b"1", XattrMode::Replace).unwrap();
    assert_eq!(fs.xattr(f, b"user.a").unwrap(), b"1");
    assert_eq!(fs.attr(f).unwrap().ctime, at(4));
    assert_eq!(kind(set(b"user.b", &[0; 4097], XattrMode::Either)), FsErrorKind::OutOfRange);
    fs.remove_xattr(f, b"user.a", &by(5)).unwrap();
    assert_eq!(kind(fs.remove_xattr(f, b"user.a", &by(5))), FsErrorKind::NoAttribute);
    assert_eq!(kind(fs.xattr(f, b"user.a")), FsErrorKind::NoAttribute);
    assert_eq!(fs.list_xattrs(f).unwrap(), Vec::<Vec<u8>>::new());
    let small = ModelFs::new(ModelRules { xattr_list_max: 8, ..ModelRules::UBIFS }, at(0));
    small.set_xattr(ROOT, b"user.a", b"", XattrMode::Either, &by(1)).unwrap();
    let full = small.set_xattr(ROOT, b"user.b", b"", XattrMode::Either, &by(1));
    assert_eq!(kind(full), FsErrorKind::NoSpace);
    small.set_xattr(ROOT, b"user.a", b"2", XattrMode::Either, &by(1)).unwrap();
}

#[test]
fn cookies_stay_valid_across_changes() {
    let fs = ModelFs::default();
    for name in [b"c", b"a", b"b"] {
        file(&fs, ROOT, name);
    }
    let mut first = None;
    fs.read_dir(ROOT, 0, &mut |entry| {
        first = Some(entry);
        ControlFlow::Break(())
    })
    .unwrap();
    let first = first.unwrap();
    fs.unlink(ROOT, &first.name, &by(1)).unwrap();
    file(&fs, ROOT, b"d");
    let mut rest = Vec::new();
    fs.read_dir(ROOT, first.cookie, &mut |entry| {
        rest.push(entry.name);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(rest, [b"a", b"b", b"d"]);
}

#[test]
fn read_only_refuses_changes_and_nothing_else() {
    let fs = ModelFs::default();
    let f = file(&fs, ROOT, b"f");
    fs.become_read_only().unwrap();
    assert_eq!(kind(fs.unlink(ROOT, b"f", &by(1))), FsErrorKind::ReadOnly);
    assert_eq!(kind(fs.write(f, 0, b"x", &by(1))), FsErrorKind::ReadOnly);
    fs.sync_file(f).unwrap();
    fs.sync().unwrap();
    fs.become_writable().unwrap();
    fs.write(f, 0, b"x", &by(1)).unwrap();
    fs.unmount().unwrap();
    assert_eq!(kind(fs.write(f, 0, b"x", &by(1))), FsErrorKind::ReadOnly);
}
