//! Random operations that shrink: to fewer operations, to the root and to the first names.

use super::{Change, Make, NAMES, Object, Op, Place, SLOTS, Texture, XATTRS};
use eraseblock_vfs::write::{RenameMode, XattrMode};
use proptest::collection::vec;
use proptest::prelude::*;
use std::ops::Range;

fn index(bound: usize) -> Range<u8> {
    0..u8::try_from(bound).unwrap_or(u8::MAX)
}

fn place() -> impl Strategy<Value = Place> {
    let dir = prop_oneof![4 => Just(0_u8), 3 => Just(1), 1 => Just(2), 2 => Just(3)];
    (dir, index(NAMES.len())).prop_map(|(dir, name)| Place { dir, name })
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        8 => place().prop_map(Object::At),
        2 => index(SLOTS).prop_map(Object::Slot),
        1 => Just(Object::Root),
    ]
}

fn make() -> impl Strategy<Value = Make> {
    prop_oneof![
        6 => Just(Make::Regular),
        6 => Just(Make::Directory),
        1 => (1_u16..300).prop_map(Make::Symlink),
        1 => Just(Make::Block),
        1 => Just(Make::Char),
        1 => Just(Make::Fifo),
        1 => Just(Make::Socket),
    ]
}

fn texture() -> impl Strategy<Value = Texture> {
    prop_oneof![4 => Just(Texture::Text), 4 => Just(Texture::Random), 1 => Just(Texture::Zeros)]
}

/// Generates offsets and sizes around block boundaries, up to six blocks.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..600,
        (0_u64..6, 0_u64..4).prop_map(|(block, by)| block * 4096 + by),
        0_u64..24_576
    ]
}

fn len() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0_u32..200, 1 => Just(4096_u32), 2 => 0_u32..9000]
}

fn rename_mode() -> impl Strategy<Value = RenameMode> {
    prop_oneof![
        4 => Just(RenameMode::Replace),
        1 => Just(RenameMode::NoReplace),
        2 => Just(RenameMode::Exchange),
        1 => Just(RenameMode::Whiteout),
    ]
}

fn xattr_mode() -> impl Strategy<Value = XattrMode> {
    prop_oneof![
        3 => Just(XattrMode::Either),
        1 => Just(XattrMode::Create),
        1 => Just(XattrMode::Replace),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => (0_u16..0o10000).prop_map(Change::Mode),
        1 => (0_u32..70_000, 0_u32..70_000).prop_map(|(uid, gid)| Change::Owner(uid & 0xFFFF, gid & 0xFFFF)),
        2 => (any::<u32>(), any::<u32>()).prop_map(|(atime, mtime)| Change::Times(atime, mtime)),
        1 => (0_u8..32).prop_map(Change::Flags),
        1 => Just(Change::Flags(0)),
        6 => offset().prop_map(Change::Size),
    ]
}

/// Generates one operation.
pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (place(), make()).prop_map(|(at, make)| Op::Create(at, make)),
        2 => (index(4), index(SLOTS)).prop_map(|(dir, slot)| Op::Unnamed(dir, slot)),
        4 => (object(), place()).prop_map(|(object, to)| Op::Link(object, to)),
        6 => place().prop_map(Op::Unlink),
        3 => place().prop_map(Op::RemoveDir),
        8 => (place(), place(), rename_mode()).prop_map(|(from, to, mode)| Op::Rename(from, to, mode)),
        10 => (object(), offset(), len(), texture())
            .prop_map(|(object, offset, len, texture)| Op::Write { object, offset, len, texture }),
        6 => (object(), len(), texture()).prop_map(|(object, len, texture)| Op::Append(object, len, texture)),
        8 => (object(), change()).prop_map(|(object, change)| Op::Change(object, change)),
        5 => (object(), index(XATTRS.len()), 0_u16..900, xattr_mode())
            .prop_map(|(object, name, len, mode)| Op::SetXattr(object, name, len, mode)),
        2 => (object(), index(XATTRS.len())).prop_map(|(object, name)| Op::RemoveXattr(object, name)),
        3 => (place(), index(SLOTS)).prop_map(|(at, slot)| Op::Open(at, slot)),
        2 => index(SLOTS).prop_map(Op::Release),
        4 => object().prop_map(Op::SyncFile),
        2 => Just(Op::Sync),
        3 => Just(Op::Step),
        1 => Just(Op::ReadOnlyAndBack),
        2 => Just(Op::Restart),
        2 => Just(Op::SyncAndCut),
    ]
}

/// Generates up to `most` operations.
pub fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(), 1..=most.max(1))
}

/// Generates operations on a file system after writing this many KiB to three files, as far as
/// there was space: [`DriveOptions::may_be_full`](crate::drive::DriveOptions::may_be_full).
pub fn ops_when_full(kib: Range<u16>, most: usize) -> impl Strategy<Value = Vec<Op>> {
    (kib, ops(most)).prop_map(|(kib, ops)| {
        let places = [3, 4, 5].map(|name| Place { dir: 0, name });
        let create = places.map(|place| Op::Create(place, Make::Regular));
        let append = (0..usize::from(kib)).map(|number| {
            let file = Object::At(places[number % places.len()]);
            Op::Append(file, 1024, Texture::Random)
        });
        create.into_iter().chain(append).chain(ops).collect()
    })
}
