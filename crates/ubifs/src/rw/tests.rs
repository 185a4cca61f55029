//! Steps in states to which operations lead only by luck.

use super::activity::Activity;
use super::budget::Request;
use super::find::Prefer;
use super::flash::Flash;
use super::gc::{Collected, Purpose};
use super::lprops::{Category, Lprops, Use};
use super::lpt::Lpt;
use super::shadow::Shadow;
use super::store::Store;
use super::supply::Supply;
use super::{MountOptions, UbifsMount};
use crate::mount::{OpenOptions, Ubifs};
use eraseblock_base::Leb;
use eraseblock_mtd::{LebDevice, LebFile};
use eraseblock_ubifs_format::lpt::{Lsave, SpaceTable};
use eraseblock_vfs::{
    Caller, FileSystem, FsErrorKind, NewInode, NewKind, Timestamp, WritableFileSystem, XattrMode,
};
use std::ops::Range;
use std::sync::Arc;

const LEB: u32 = 15_872;
pub(super) const BY: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
pub(super) const FILE: NewInode<'_> =
    NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

/// Returns an erased volume.
pub(super) fn blank(lebs: u32) -> Arc<dyn LebDevice> {
    let bytes = vec![0xFF; lebs as usize * LEB as usize];
    let file = LebFile::new(bytes, LEB, 512, Some(lebs)).unwrap();
    Arc::new(Shadow::new(Arc::new(file)))
}

pub(super) fn mount(device: &Arc<dyn LebDevice>, options: MountOptions) -> UbifsMount {
    UbifsMount::mount(Arc::clone(device), options).unwrap().0
}

fn is_sound(fs: &UbifsMount) -> bool {
    let findings = fs.check().unwrap();
    findings.is_empty() || panic!("{findings:?}")
}

/// Creates files with these numbers as names.
pub(super) fn create(fs: &UbifsMount, numbers: std::ops::Range<u32>) {
    for number in numbers {
        fs.create(1, format!("{number:04}").as_bytes(), &FILE, BY).unwrap();
    }
}

/// A block of which this many bytes cannot be compressed.
fn block(number: u32, random: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9) | 1;
    let mut bytes: Vec<u8> = (0..random)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 24) as u8
        })
        .collect();
    bytes.resize(4096, 0);
    bytes
}

/// Right after a mount nothing is known about most LEBs. If the index may need all empty ones, space
/// at the end of the others is used, before garbage is collected for it.
#[test]
fn space_in_lebs_whose_properties_are_not_loaded_is_found() {
    let device = blank(60);
    let fs = mount(&device, MountOptions::default());
    create(&fs, 0..20);
    let ino = fs.lookup(1, b"0000").unwrap();
    fs.write(ino, 0, &block(1, 2000), BY).unwrap();
    fs.unmount().unwrap();
    let mut core = fs.lock();
    let Store { nodes, master, .. } = &mut core.store;
    let mut lprops = Lprops::new(&nodes.flash, &master.node).unwrap();
    assert!(lprops.set(Category::Free).is_empty() && lprops.set(Category::Empty).is_empty());
    let supply = Supply { min_idx_lebs: 1000, queued: 0 };
    let mut find = || lprops.find_room(&mut nodes.flash, supply, 512, Prefer::PartlyUsed).unwrap();
    let found: Vec<_> = std::iter::from_fn(&mut find).collect();
    assert!(!found.is_empty() && found.iter().all(|place| place.offset > 0), "{found:?}");
}

/// Returns a file system with a file of 280 blocks, of which every seventh was written twice.
fn with_little_garbage() -> (Arc<dyn LebDevice>, UbifsMount, u64) {
    let device = blank(400);
    let fs = mount(&device, MountOptions::default());
    let ino = fs.create(1, b"file", &FILE, BY).unwrap();
    for number in 0..280 {
        fs.write(ino, u64::from(number) * 4096, &block(number, 1000), BY).unwrap();
    }
    fs.sync().unwrap();
    for number in (0..280).step_by(7) {
        fs.write(ino, u64::from(number) * 4096, &block(number + 1, 1000), BY).unwrap();
    }
    fs.sync().unwrap();
    (device, fs, ino)
}

/// Each LEB has so little garbage that a LEB becomes free only after many rounds. A commit would not
/// help, because no index LEB waits for it.
#[test]
fn a_long_collection_of_content_asks_for_no_commit() {
    let (_, fs, _) = with_little_garbage();
    let mut core = fs.lock();
    let Store { nodes, gc, .. } = &mut core.store;
    let before = nodes.flash.activity.leaf_lebs_collected;
    let leb = gc.collect(nodes, 1000, Purpose::Budget).unwrap();
    let rounds = nodes.flash.activity.leaf_lebs_collected - before;
    assert!(rounds > 6 && gc.queued().is_empty(), "{rounds} rounds, {:?}", gc.queued());
    nodes.lprops.set_use(&nodes.flash, leb, Use::Available).unwrap();
    drop(core);
    assert!(is_sound(&fs));
}

/// Garbage collection copies nodes with the sequence numbers that they have, and erases the originals
/// without a commit. Opening leniently believes no bud that is older than the last commit, but for such
/// copies: there is no other instance of their content.
#[test]
fn content_copied_since_the_last_commit_is_there_in_a_lenient_look() {
    let (device, fs, ino) = with_little_garbage();
    {
        let mut core = fs.lock();
        let Store { nodes, gc, .. } = &mut core.store;
        let Activity { commits, leaf_lebs_collected: before, .. } = nodes.flash.activity;
        gc.collect(nodes, 1000, Purpose::Budget).unwrap();
        assert!(nodes.flash.activity.leaf_lebs_collected > before);
        assert_eq!(nodes.flash.activity.commits, commits);
    }
    let (seen, _) = Ubifs::open(device, &OpenOptions { strict: false }).unwrap();
    for number in 0..280 {
        let expected = block(if number % 7 == 0 { number + 1 } else { number }, 1000);
        let mut found = vec![0; 4096];
        seen.read(ino, u64::from(number) * 4096, &mut found).unwrap();
        assert!(found == expected, "block {number}");
    }
}

/// Returns the content of every LEB of the main area.
fn main_area(device: &Arc<dyn LebDevice>, fs: &UbifsMount) -> Vec<(Leb, Vec<u8>)> {
    let first = fs.lock().store.nodes.flash.main_first;
    let read = |leb: u32| {
        let mut bytes = vec![0xFF; LEB as usize];
        device.read(Leb::new(leb), 0, &mut bytes).unwrap();
        (Leb::new(leb), bytes)
    };
    (first..device.leb_count()).map(read).collect()
}

/// Writes a block and a name, and returns the LEBs that this took, with the range of their pages.
fn pages_of(
    device: &Arc<dyn LebDevice>,
    fs: &UbifsMount,
    ino: u64,
    content: &[u8],
    name: &[u8],
) -> Vec<(Leb, Vec<u8>, Range<usize>)> {
    let before = main_area(device, fs);
    fs.write(ino, 0, content, BY).unwrap();
    fs.create(1, name, &FILE, BY).unwrap();
    fs.sync_file(ino).unwrap();
    fs.lock().store.nodes.sync_heads().unwrap();
    let pairs = before.into_iter().zip(main_area(device, fs));
    let pages = pairs.filter_map(|((leb, old), (_, new))| {
        let differs = |at: &usize| old[*at..][..512] != new[*at..][..512];
        let start = (0..LEB as usize).step_by(512).find(differs)?;
        let end = (0..LEB as usize).step_by(512).rfind(differs)? + 512;
        Some((leb, new, start..end))
    });
    pages.collect()
}

/// A bud has the pages of another eraseblock, written before the last commit: what they say is not
/// true any more, and the index stands.
#[test]
fn pages_of_the_past_in_a_bud_overrule_nothing() {
    let device = blank(80);
    let fs = mount(&device, MountOptions::default());
    let ino = fs.create(1, b"file", &FILE, BY).unwrap();
    fs.sync().unwrap();
    let past = pages_of(&device, &fs, ino, &block(1, 1000), b"name");
    fs.write(ino, 0, &block(2, 1000), BY).unwrap();
    fs.unlink(1, b"name", BY).unwrap();
    let newer = fs.create(1, b"name", &FILE, BY).unwrap();
    fs.sync().unwrap();
    let now = pages_of(&device, &fs, ino, &block(3, 1000), b"lost");
    assert!(past.len() == 2 && now.len() == 2, "{} and {} LEBs", past.len(), now.len());
    for ((_, old, pages), (leb, mut bytes, place)) in past.into_iter().zip(now) {
        assert!(pages.len() >= place.len());
        bytes[place.start..][..pages.len()].copy_from_slice(&old[pages]);
        device.change(leb, &bytes).unwrap();
    }
    let (seen, _) = Ubifs::open(device, &OpenOptions { strict: false }).unwrap();
    let mut found = vec![0; 4096];
    seen.read(ino, 0, &mut found).unwrap();
    assert!(found == block(2, 1000));
    assert_eq!(seen.lookup(1, b"name").unwrap(), newer);
    assert_eq!(seen.lookup(1, b"lost").unwrap_err().kind(), FsErrorKind::NotFound);
}

/// Takes all LEBs of the main area for which something holds, and returns them.
fn take(store: &mut Store, wanted: impl Fn(&super::lprops::Lp) -> bool) -> Vec<u32> {
    let super::nodes::Nodes { flash, lprops, .. } = &mut store.nodes;
    let mut taken = Vec::new();
    for leb in flash.main_first..flash.leb_cnt {
        let lp = lprops.get(flash, leb).unwrap();
        if !lp.taken && wanted(&lp) {
            lprops.set_use(flash, leb, Use::Taken).unwrap();
            taken.push(leb);
        }
    }
    taken
}

/// A commit that finds no empty LEB writes the index into the gaps of LEBs that were collected since
/// the last one. They were to be erased after it; now they hold the index.
#[test]
fn a_collected_leb_whose_gaps_a_commit_fills_is_kept() {
    let device = blank(80);
    let fs = mount(&device, MountOptions::default());
    for number in 0..60 {
        create(&fs, number * 8..number * 8 + 8);
        fs.sync().unwrap();
    }
    let mut core = fs.lock();
    let collected = take(&mut core.store, |lp| lp.index);
    assert!(collected.len() > 1, "{collected:?}");
    let Store { nodes, gc, .. } = &mut core.store;
    for leb in collected {
        assert_eq!(gc.collect_leb(nodes, leb).unwrap(), Collected::IndexFreed);
    }
    let empty = take(&mut core.store, |lp| lp.reclaimable() == LEB);
    core.store.commit().unwrap();
    let Store { nodes, .. } = &mut core.store;
    assert!(nodes.flash.activity.gaps_filled > 0);
    for leb in empty {
        nodes.lprops.set_use(&nodes.flash, leb, Use::Available).unwrap();
    }
    drop(core);
    assert!(is_sound(&fs));
    drop(fs);
    let fs = mount(&device, MountOptions::default());
    assert!(is_sound(&fs));
    assert_eq!(fs.entries(1).unwrap().len(), 480);
}

/// After a commit that filled gaps, the root of the index is not in the LEB in which the index goes
/// on. If its LEB is collected, it must move before the LEB is erased.
#[test]
fn an_index_of_one_node_leaves_a_collected_leb() {
    let device = blank(60);
    let fs = mount(&device, MountOptions::default());
    create(&fs, 0..2);
    fs.sync().unwrap();
    let mut core = fs.lock();
    let Store { nodes, gc, master, .. } = &mut core.store;
    let leb = nodes.tnc.root.leb;
    assert_eq!(master.index_head().leb, leb);
    let next = nodes.lprops.find_index_leb(&mut nodes.flash).unwrap().unwrap();
    (master.node.ihead_lnum, master.node.ihead_offs) = (next, 0);
    assert_eq!(gc.collect_leb(nodes, leb).unwrap(), Collected::IndexFreed);
    core.store.commit().unwrap();
    drop(core);
    assert!(is_sound(&fs));
    drop(fs);
    let fs = mount(&device, MountOptions::default());
    assert!(is_sound(&fs));
    assert_eq!(fs.entries(1).unwrap().len(), 2);
}

/// A recovery that finds no empty LEB moves nodes into the rest of the LEB in which garbage collection
/// was cut. Without such a LEB, it is refused before it writes a commit.
#[test]
fn a_recovery_without_space_commits_nothing() {
    let fs = mount(&blank(60), MountOptions::default());
    create(&fs, 0..1);
    let ino = fs.lookup(1, b"0000").unwrap();
    for number in 0..20 {
        fs.write(ino, u64::from(number) * 4096, &block(number, 2000), BY).unwrap();
    }
    fs.sync().unwrap();
    let mut core = fs.lock();
    take(&mut core.store, |lp| lp.reclaimable() == LEB);
    let before = core.store.nodes.flash.activity.commits;
    let refused = core.store.recover_gc_leb().expect_err("there is no space");
    assert!(refused.is_no_space(), "{refused:?}");
    assert_eq!(core.store.nodes.flash.activity.commits, before);
}

/// An operation promises no more than it may write: here, an entry and two inodes without content.
/// Otherwise it would be refused on a volume with space for it.
#[test]
fn an_attribute_is_removed_if_the_least_space_is_left() {
    const MOST_WRITTEN: u32 = 312 + 2 * 160;
    for (left, is_done) in [(MOST_WRITTEN, true), (MOST_WRITTEN - 8, false)] {
        let fs = mount(&blank(60), MountOptions::default());
        create(&fs, 0..1);
        let ino = fs.lookup(1, b"0000").unwrap();
        fs.set_xattr(ino, b"user.a", b"1", XattrMode::Either, BY).unwrap();
        fs.sync().unwrap();
        let mut core = fs.lock();
        core.store.set_caller(BY);
        let bytes = |count: u32| Request { dirtied_data: count * 8, ..Request::default() };
        let mut fits = |count: u32| {
            let Store { nodes, budget, .. } = &mut core.store;
            budget.promise(&nodes.flash, &bytes(count));
            let fits = core.store.is_admissible();
            core.cancel(&bytes(count));
            fits
        };
        let (mut least, mut over) = (0, 60 * LEB / 8);
        while over - least > 1 {
            let middle = u32::midpoint(least, over);
            *(if fits(middle) { &mut least } else { &mut over }) = middle;
        }
        let Store { nodes, budget, .. } = &mut core.store;
        budget.promise(&nodes.flash, &bytes(least - left / 8));
        drop(core);
        let done = fs.remove_xattr(ino, b"user.a", BY);
        let kind = done.as_ref().err().map(eraseblock_vfs::FsError::kind);
        assert_eq!(kind, (!is_done).then_some(FsErrorKind::NoSpace), "{left} left: {done:?}");
    }
}

/// Linux mounts a volume whose LPT area is just twice the tree.
#[test]
fn an_lpt_area_of_just_the_size_needed_is_enough() {
    let device = blank(60);
    let fs = mount(&device, MountOptions::default());
    let core = fs.lock();
    let of = |lebs: u32| {
        let mut sb = core.store.nodes.flash.sb.clone();
        (sb.leb_cnt, sb.max_leb_cnt) = (lebs, lebs);
        Flash::new(Arc::clone(&device), sb)
    };
    let needed = |flash: &Flash| (2 * flash.lpt.total_size(Lsave::IfBig)).div_ceil(LEB.into());
    let over = (60..).step_by(4).find(|lebs| needed(&of(*lebs)) > 2).unwrap();
    for (lebs, fits) in [(over - 4, true), (over, false)] {
        let flash = of(lebs);
        assert_eq!((flash.sb.lpt_lebs, needed(&flash)), (2, if fits { 2 } else { 3 }));
        let first = flash.sb.lpt_first();
        let mut table = SpaceTable { lebs: vec![(LEB, 0); 2] }.pack(&flash.lpt);
        table.resize(512, 0xFF);
        device.change(Leb::new(first), &table).unwrap();
        let mut master = core.store.master.node.clone();
        (master.ltab_lnum, master.ltab_offs) = (first, 0);
        let loaded = Lpt::load(&flash, &master).map(drop).map_err(|fault| fault.describe());
        assert_eq!(loaded.is_ok(), fits, "{lebs} LEBs: {loaded:?}");
        assert!(loaded.err().is_none_or(|why| why.contains("the LPT area needs 3 LEBs")));
    }
}
