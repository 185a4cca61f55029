//! The sequences of operations: all of one, many of two, and long random ones.

use crate::powercut::Plan;
use eraseblock_nandsim::Rng;
use eraseblock_vfs::{FileSystem, FsErrorKind, RenameMode, XattrMode};
use eraseblock_vfs_testkit::ops::{Change, DIRS, Make, NAMES, Object, Op, Place, Texture};

const fn place(dir: u8, name: u8) -> Place {
    Place { dir, name }
}

// The small tree that short sequences begin with.
/// A file of three blocks, `a`; also `d/b`.
const A: Place = place(0, 0);
/// A symbolic link, `b`.
const B: Place = place(0, 1);
/// A directory, `d`.
const D: Place = place(0, 2);
/// A name that is free, `e`.
const E: Place = place(0, 3);
/// A long name that is free.
const LONG: Place = place(0, 5);
/// A small file, `d/a`.
const DA: Place = place(1, 0);
/// The second name of `a`, `d/b`.
const DB: Place = place(1, 1);
/// A name that is free, `d/e`.
const DE: Place = place(1, 3);
/// An empty directory, `d/s`.
const DS: Place = place(1, 4);
/// A name that is free, `s`.
const S: Place = place(0, 4);

/// Returns the operations that create that tree.
pub(crate) fn setup() -> Vec<Op> {
    vec![
        Op::Create(A, Make::Regular),
        write(A, 0, 10_000, Texture::Random),
        Op::SetXattr(Object::At(A), 0, 30, XattrMode::Create),
        Op::Create(B, Make::Symlink(40)),
        Op::Create(D, Make::Directory),
        Op::Create(DA, Make::Regular),
        write(DA, 0, 700, Texture::Text),
        Op::Link(Object::At(A), DB),
        Op::Create(DS, Make::Directory),
        Op::Sync,
    ]
}

fn write(at: Place, offset: u64, len: u32, texture: Texture) -> Op {
    Op::Write { object: Object::At(at), offset, len, texture }
}

fn size(at: Place, size: u64) -> Vec<Op> {
    vec![Op::Change(Object::At(at), Change::Size(size))]
}

fn rename(from: Place, to: Place, mode: RenameMode) -> Vec<Op> {
    vec![Op::Rename(from, to, mode)]
}

/// Returns the single operations, each with the inode and the directory to make durable afterwards.
/// Some require preceding operations.
fn cores() -> Vec<(Vec<Op>, Object, Object)> {
    let mut cores = Vec::new();
    let (root, d) = (Object::Root, Object::At(D));
    let mut add = |ops: Vec<Op>, object: Place, dir: Object| {
        cores.push((ops, Object::At(object), dir));
    };
    let make = |at, make| vec![Op::Create(at, make)];
    add(make(E, Make::Regular), E, root);
    add(make(LONG, Make::Regular), LONG, root);
    add(make(DE, Make::Regular), DE, d);
    add(make(E, Make::Directory), E, root);
    add(make(DE, Make::Directory), DE, d);
    add(make(E, Make::Symlink(200)), E, root);
    add(make(E, Make::Char), E, root);
    add(make(DE, Make::Fifo), DE, d);
    add(make(E, Make::Socket), E, root);
    add(vec![Op::Create(E, Make::Regular), write(E, 0, 5000, Texture::Random)], E, root);
    let unnamed = |len| vec![Op::Unnamed(0, 0), Op::Append(Object::Slot(0), len, Texture::Random)];
    let linked = Op::Link(Object::Slot(0), E);
    add([unnamed(5000), vec![linked]].concat(), E, root);
    add([unnamed(900), vec![linked, Op::Release(0)]].concat(), E, root);
    add(unnamed(5000), A, root);
    add(vec![write(A, 100, 50, Texture::Random)], A, root);
    add(vec![write(A, 0, 4096, Texture::Text)], A, root);
    add(vec![write(A, 4000, 5000, Texture::Random)], A, root);
    add(vec![write(A, 20_000, 100, Texture::Text)], A, root);
    add(vec![write(DA, 0, 700, Texture::Zeros)], DA, d);
    add(vec![Op::Append(Object::At(A), 100, Texture::Text)], A, root);
    add(vec![Op::Append(Object::At(A), 9000, Texture::Random)], A, root);
    add(vec![Op::Append(Object::At(DA), 300, Texture::Random)], DA, d);
    for to in [0, 100, 4096, 8191, 10_000, 20_000] {
        add(size(A, to), A, root);
    }
    add([size(A, 100), size(A, 9000)].concat(), A, root);
    add([size(A, 4096), vec![Op::Append(Object::At(A), 3000, Texture::Random)]].concat(), A, root);
    add(vec![Op::Link(Object::At(A), E)], A, root);
    add(vec![Op::Link(Object::At(DA), LONG)], DA, root);
    add(vec![Op::Link(Object::At(B), DE)], B, d);
    add(vec![Op::Unlink(A)], DB, root);
    add(vec![Op::Unlink(DA)], D, d);
    add(vec![Op::Unlink(A), Op::Unlink(DB)], D, root);
    add(vec![Op::Unlink(B)], A, root);
    add(vec![Op::RemoveDir(DS)], D, d);
    let held =
        vec![Op::Open(DA, 1), Op::Unlink(DA), Op::Append(Object::Slot(1), 5000, Texture::Random)];
    add([held.clone(), vec![Op::Release(1)]].concat(), D, d);
    add(held, D, d);
    let plain = RenameMode::Replace;
    add(rename(A, E, plain), E, root);
    add(rename(A, DA, plain), DA, d);
    add(rename(DA, A, plain), A, root);
    add(rename(DA, DE, plain), DE, d);
    add(rename(A, DB, plain), A, root);
    add(rename(DS, S, plain), S, root);
    add(rename(D, E, plain), E, root);
    add([make(E, Make::Directory), rename(DS, E, plain)].concat(), E, root);
    add(rename(A, E, RenameMode::NoReplace), E, root);
    add(rename(A, DA, RenameMode::Exchange), DA, d);
    add(rename(A, DS, RenameMode::Exchange), DS, root);
    add(rename(A, E, RenameMode::Whiteout), E, root);
    add(rename(A, DA, RenameMode::Whiteout), DA, d);
    let xattr = |at, name, len, mode| vec![Op::SetXattr(Object::At(at), name, len, mode)];
    add(xattr(A, 0, 60, XattrMode::Replace), A, root);
    add(xattr(A, 1, 900, XattrMode::Create), A, root);
    add(xattr(D, 2, 10, XattrMode::Either), D, root);
    add(vec![Op::RemoveXattr(Object::At(A), 0)], A, root);
    let change = |at, change| vec![Op::Change(Object::At(at), change)];
    add(change(A, Change::Mode(0o600)), A, root);
    add(change(D, Change::Mode(0o2775)), D, root);
    add(change(DA, Change::Owner(7, 8)), DA, d);
    add(change(A, Change::Times(5, 6)), A, root);
    add(change(B, Change::Owner(3, 4)), B, root);
    debug_assert_eq!(cores.len(), PAIRED);
    cores.extend(more_cores());
    cores
}

/// Number of single operations from which pairs are formed. It is fixed, so that the numbers of
/// pairs do not change.
const PAIRED: usize = 61;

/// Returns single operations that are in no pair: flags of inodes, and forms of others.
fn more_cores() -> Vec<(Vec<Op>, Object, Object)> {
    let mut cores = Vec::new();
    let (root, d) = (Object::Root, Object::At(D));
    let mut add = |ops: Vec<Op>, object: Place, dir: Object| {
        cores.push((ops, Object::At(object), dir));
    };
    let flags = |at, bits| Op::Change(Object::At(at), Change::Flags(bits));
    add(vec![flags(A, COMPRESS | IMMUTABLE)], A, root);
    add(vec![flags(A, COMPRESS | IMMUTABLE), flags(A, COMPRESS)], A, root);
    let append = Op::Append(Object::At(A), 5000, Texture::Random);
    add(vec![flags(A, COMPRESS | APPEND), append], A, root);
    add(vec![flags(A, COMPRESS | SYNC), write(A, 4000, 5000, Texture::Random)], A, root);
    add(vec![flags(DA, COMPRESS | SYNC), Op::Append(Object::At(DA), 300, Texture::Text)], DA, d);
    add(vec![flags(A, 0), write(A, 0, 4096, Texture::Text)], A, root);
    let made = Op::Create(DE, Make::Regular);
    add(vec![flags(D, COMPRESS | DIRSYNC), made], DE, d);
    add(vec![flags(D, COMPRESS | SYNC), made, write(DE, 0, 5000, Texture::Random)], DE, d);
    add(vec![flags(D, COMPRESS | DIRSYNC), Op::Unlink(DA)], D, d);
    add(vec![Op::Create(E, Make::Block)], E, root);
    let unnamed = [Op::Unnamed(1, 0), Op::Append(Object::Slot(0), 5000, Texture::Random)];
    add([unnamed.to_vec(), vec![Op::Link(Object::Slot(0), DE)]].concat(), DE, d);
    add([unnamed.to_vec(), vec![Op::Release(0)]].concat(), A, d);
    add(rename(A, DE, RenameMode::NoReplace), DE, d);
    add(rename(A, DE, RenameMode::Whiteout), DE, d);
    add(rename(A, B, RenameMode::Exchange), A, root);
    add([vec![Op::Create(E, Make::Directory)], rename(DS, E, RenameMode::Exchange)].concat(), E, d);
    let trusted = |object, len| Op::SetXattr(object, 2, len, XattrMode::Either);
    add(vec![trusted(Object::At(B), 20), trusted(Object::At(B), 90)], B, root);
    add(vec![Op::Change(Object::At(A), Change::Mode(0o4711))], A, root);
    cores
}

// Bits of [`Change::Flags`].
const COMPRESS: u8 = 1;
const SYNC: u8 = 2;
const IMMUTABLE: u8 = 4;
const APPEND: u8 = 8;
const DIRSYNC: u8 = 16;

/// Number of endings of a sequence: nothing, three ways of making it durable, an unmount.
const ENDS: u32 = 5;

fn end(number: u32, object: Object, dir: Object) -> Vec<Op> {
    match number % ENDS {
        0 => Vec::new(),
        1 => vec![Op::SyncFile(object)],
        2 => vec![Op::SyncFile(dir)],
        3 => vec![Op::Sync],
        _ => vec![Op::Restart],
    }
}

fn core_count() -> u32 {
    u32::try_from(cores().len()).unwrap_or(u32::MAX)
}

/// Returns the number of single operations from which pairs are formed.
fn paired_count() -> u32 {
    u32::try_from(PAIRED).unwrap_or(u32::MAX)
}

/// Returns how many [`Plan::Single`] there are.
pub fn single_count() -> u32 {
    core_count() * ENDS
}

/// Returns all sequences of one operation.
pub fn singles() -> Vec<Plan> {
    (0..single_count()).map(Plan::Single).collect()
}

/// Returns how many [`Plan::Pair`] there are.
pub fn pair_count() -> u32 {
    let count = paired_count();
    count * count * 3 * ENDS
}

/// Returns the operations of a short sequence, after [`setup`]; `None` if there is none of this
/// number.
pub(crate) fn short(plan: Plan) -> Option<Vec<Op>> {
    let cores = cores();
    let count = paired_count();
    let core = |number: u32| cores.get(usize::try_from(number).ok()?);
    match plan {
        Plan::Single(number) => {
            let (ops, object, dir) = core(number / ENDS)?;
            Some([ops.clone(), end(number, *object, *dir)].concat())
        }
        Plan::Pair(number) => {
            let (ends, pair) = (number % (3 * ENDS), number / (3 * ENDS));
            if pair / count >= count {
                return None;
            }
            let (first, object, dir) = core(pair / count)?;
            let middle = match ends / ENDS {
                0 => Vec::new(),
                1 => end(1, *object, *dir),
                _ => vec![Op::Sync],
            };
            let (second, object, dir) = core(pair % count)?;
            Some([first.clone(), middle, second.clone(), end(ends, *object, *dir)].concat())
        }
        _ => None,
    }
}

/// The existing entries for random operations.
#[derive(Debug)]
struct Space {
    /// Names that exist.
    taken: Vec<Place>,
    /// Names whose directory exists.
    possible: Vec<Place>,
}

impl Space {
    fn of(fs: &dyn FileSystem) -> Self {
        let mut space = Self { taken: Vec::new(), possible: Vec::new() };
        for dir in 0..u8::try_from(DIRS.len()).unwrap_or(0) {
            let Ok(ino) = fs.resolve(DIRS[usize::from(dir)]) else { continue };
            for name in 0..u8::try_from(NAMES.len()).unwrap_or(0) {
                let place = Place { dir, name };
                match fs.lookup(ino, place.name()) {
                    Ok(_) => space.taken.push(place),
                    Err(error) if error.kind() == FsErrorKind::NotADirectory => continue,
                    Err(_) => {}
                }
                space.possible.push(place);
            }
        }
        space
    }

    /// Returns, most often, a name that exists.
    fn old(&self, rng: &mut Rng) -> Place {
        let any = rng.below(8) == 0 || self.taken.is_empty();
        pick(rng, if any { &self.possible } else { &self.taken })
    }

    /// Returns any name.
    fn any(&self, rng: &mut Rng) -> Place {
        pick(rng, &self.possible)
    }

    fn object(&self, rng: &mut Rng) -> Object {
        match rng.below(12) {
            0 => Object::Root,
            1 => Object::Slot(small(rng, 3)),
            _ => Object::At(self.old(rng)),
        }
    }
}

fn pick(rng: &mut Rng, places: &[Place]) -> Place {
    let index = rng.below(u32::try_from(places.len()).unwrap_or(u32::MAX)) as usize;
    places.get(index).copied().unwrap_or(A)
}

/// Returns the next operation of a random sequence on what is in `fs`; writes begin below `room`
/// bytes.
pub(crate) fn random(rng: &mut Rng, fs: &dyn FileSystem, room: u32) -> Op {
    let space = Space::of(fs);
    let object = space.object(rng);
    match rng.below(100) {
        0..16 => Op::Create(space.any(rng), random_make(rng)),
        16..18 => Op::Unnamed(small(rng, 4), small(rng, 3)),
        18..22 => Op::Link(object, space.any(rng)),
        22..30 => Op::Unlink(space.old(rng)),
        30..33 => Op::RemoveDir(space.old(rng)),
        33..42 => Op::Rename(space.old(rng), space.any(rng), random_mode(rng)),
        42..57 => {
            let offset = u64::from(rng.below(room));
            Op::Write { object, offset, len: random_len(rng), texture: random_texture(rng) }
        }
        57..62 => Op::Change(object, Change::Size(u64::from(rng.below(12_000)))),
        62..70 => random_change(rng, object),
        70..75 => {
            let len = u16::try_from(rng.below(600)).unwrap_or(0);
            Op::SetXattr(object, small(rng, 4), len, XattrMode::Either)
        }
        75..78 => Op::RemoveXattr(object, small(rng, 4)),
        78..81 => Op::Open(space.old(rng), small(rng, 3)),
        81..84 => Op::Release(small(rng, 3)),
        84..90 => Op::SyncFile(object),
        90..93 => Op::Sync,
        93..98 => Op::Step,
        98 => Op::ReadOnlyAndBack,
        _ => Op::Restart,
    }
}

fn small(rng: &mut Rng, bound: u32) -> u8 {
    u8::try_from(rng.below(bound)).unwrap_or(0)
}

fn random_make(rng: &mut Rng) -> Make {
    match rng.below(10) {
        0..5 => Make::Regular,
        5..8 => Make::Directory,
        8 => Make::Symlink(30),
        _ => Make::Fifo,
    }
}

fn random_mode(rng: &mut Rng) -> RenameMode {
    match rng.below(8) {
        0 => RenameMode::NoReplace,
        1 => RenameMode::Whiteout,
        2 | 3 => RenameMode::Exchange,
        _ => RenameMode::Replace,
    }
}

fn random_len(rng: &mut Rng) -> u32 {
    if rng.below(3) == 0 { rng.below(9000) } else { rng.below(500) }
}

fn random_texture(rng: &mut Rng) -> Texture {
    match rng.below(5) {
        0 => Texture::Zeros,
        1 | 2 => Texture::Text,
        _ => Texture::Random,
    }
}

fn random_change(rng: &mut Rng, object: Object) -> Op {
    let change = match rng.below(3) {
        0 => Change::Mode(u16::try_from(rng.below(0o10000)).unwrap_or(0)),
        1 => Change::Owner(rng.below(9), rng.below(9)),
        _ => Change::Times(rng.below(1_000_000), rng.below(1_000_000)),
    };
    Op::Change(object, change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs_testkit::ModelFs;
    use eraseblock_vfs_testkit::ops::{Slots, apply};

    #[test]
    fn short_sequences_do_what_they_are_meant_to() {
        let start = ModelFs::default();
        let mut slots = Slots::default();
        for (number, op) in (0..).zip(setup()) {
            apply(&start, &mut slots, &op, number).unwrap();
        }
        for number in 0..single_count() {
            let fs = start.clone();
            let mut slots = Slots::default();
            for (at, op) in (100..).zip(short(Plan::Single(number)).unwrap()) {
                let done = apply(&fs, &mut slots, &op, at);
                assert!(done.is_ok(), "seq1-{number} {op:?}: {done:?}");
            }
        }
        // The number of a sequence is its name: new ones are added at the end.
        assert_eq!((single_count(), pair_count()), (79 * ENDS, 61 * 61 * 3 * ENDS));
        assert!(short(Plan::Single(single_count())).is_none());
        assert!(short(Plan::Pair(pair_count() - 1)).is_some());
        assert!(short(Plan::Pair(pair_count())).is_none());
    }
}
