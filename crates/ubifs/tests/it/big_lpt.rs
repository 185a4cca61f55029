//! An LPT of the big model in the smallest area: it collects its own garbage, and its save table is
//! used, with cuts at every operation around it.

use crate::rw::{checked, file, mount};
use crate::strict_leb::{StrictLeb, Torn};
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs::UbifsMount;
use eraseblock_ubifs::mkfs::{self, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_ubifs::rw::BigLptActivity;
use eraseblock_ubifs_format::lpt::{LptGeometry, SaveTable};
use eraseblock_ubifs_format::{Limits, decode};
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{Caller, FileSystem, SourceTree, Timestamp, WritableFileSystem};
use eraseblock_vfs_testkit::ops::{Texture, data_of};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
const STILL: u32 = 300_000;

fn big(fs: &UbifsMount) -> BigLptActivity {
    fs.activity().big_lpt.expect("the model is the big one")
}

/// How much of the LPT is in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Model {
    Small,
    Big,
}

/// Returns a volume with much unchanging data, so that old LEBs of the LPT keep some nodes.
pub(crate) fn volume_of(lebs: u32, model: Model) -> Arc<StrictLeb> {
    let volume = StrictLeb::new(15_872, 512, 512, lebs);
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let mut options = MkfsOptions::new(15_872, 512, lebs);
    options.layout.big_lpt = model == Model::Big;
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    let volume = Arc::new(volume);
    let fs = mount(&volume).unwrap();
    let ino = fs.create(1, b"still", &file(), NOW).unwrap();
    fs.write(ino, 0, &data_of(1, 0, STILL, Texture::Random), NOW).unwrap();
    fs.create(1, b"moving", &file(), NOW).unwrap();
    fs.unmount().unwrap();
    volume
}

fn volume() -> Arc<StrictLeb> {
    volume_of(64, Model::Big)
}

/// A small change and a commit.
fn step(fs: &UbifsMount, number: u8) -> Result<(), String> {
    let ino = fs.lookup(1, b"moving").map_err(|error| error.to_string())?;
    fs.write(ino, 0, &[number; 3000], NOW).map_err(|error| error.to_string())?;
    fs.sync().map_err(|error| error.to_string())
}

fn judge(volume: &Arc<StrictLeb>) -> Result<(), String> {
    let fs = mount(volume)?;
    checked(&fs)?;
    let ino = fs.lookup(1, b"still").map_err(|error| error.to_string())?;
    let mut back = vec![0; STILL as usize];
    fs.read(ino, 0, &mut back).map_err(|error| error.to_string())?;
    if back != data_of(1, 0, STILL, Texture::Random) {
        return Err("other content".into());
    }
    let ino = fs.lookup(1, b"moving").map_err(|error| error.to_string())?;
    let mut back = [0; 3000];
    fs.read(ino, 0, &mut back).map_err(|error| error.to_string())?;
    if back.iter().any(|byte| *byte != back[0]) {
        return Err("a mixture".into());
    }
    (0..3).try_for_each(|number| step(&fs, number))?;
    checked(&fs)
}

#[test]
fn a_big_lpt_collects_its_garbage_and_survives_cuts() {
    let volume = volume();
    let mut starts = Vec::new();
    let mut before = Arc::clone(&volume);
    for number in 0..=250_u8 {
        let copy = Arc::new(volume.with(volume.lebs()));
        // A mount for each step: collected nodes are dirty in memory until the next commit.
        let fs = mount(&volume).unwrap();
        assert_eq!(big(&fs).save_tables_used, 1, "{number}");
        step(&fs, number).unwrap();
        assert!(big(&fs).save_tables > 0);
        if big(&fs).lebs_collected > 0 {
            starts.push(Arc::clone(&before));
            starts.push(Arc::clone(&copy));
        }
        fs.unmount().unwrap();
        before = copy;
    }
    assert!(starts.len() >= 4, "{} collections", starts.len());
    judge(&volume).unwrap();
    let mut cuts = 0;
    for start in starts.iter().take(6) {
        'cuts: for cut in 0.. {
            for torn in [Torn::Before, Torn::Half, Torn::Garbage, Torn::After] {
                let volume = Arc::new(start.with(start.lebs()));
                volume.cut_after(cut, torn);
                let done = mount(&volume).and_then(|fs| {
                    (0..4).try_for_each(|number| step(&fs, number))?;
                    fs.unmount().map_err(|error| error.to_string())
                });
                let after = Arc::new(volume.with(volume.lebs()));
                if let Err(why) = judge(&after) {
                    panic!("cut {torn:?} operation {cut}: {why}");
                }
                cuts += 1;
                if done.is_ok() {
                    break 'cuts;
                }
            }
        }
    }
    assert!(cuts > 100, "{cuts} cuts");
}

/// Each mount ends with a commit, and what a commit would collect next is forgotten by a cut.
#[test]
fn a_big_lpt_has_room_for_any_number_of_recoveries() {
    let volume = volume();
    for number in 0..300_u32 {
        let fs = mount(&volume).unwrap_or_else(|why| panic!("mount {number}: {why}"));
        let ino = fs.lookup(1, b"moving").unwrap();
        fs.write(ino, 0, &[number as u8; 3000], NOW).unwrap();
        fs.sync_file(ino).unwrap();
        // The power goes off.
    }
    judge(&volume).unwrap();
}

/// The save table only helps: entries that name no LEB of the main area are passed over.
#[test]
fn a_save_table_with_wrong_entries_is_used() {
    let lebs = 60;
    let volume = volume_of(lebs, Model::Big);
    let mut content = volume.lebs();
    let node = |leb: usize, at: usize| content[leb].as_ref().unwrap()[at..].to_vec();
    let limits = Limits::unknown(15_872);
    let sb = node(0, 0);
    let sb = decode::node(&sb, &limits, Location::Whole).unwrap().superblock().unwrap();
    let master = node(1, content[1].as_ref().unwrap().len() - 512);
    let master = decode::node(&master, &limits, Location::Whole).unwrap().master().unwrap();
    let geometry = LptGeometry::new(sb.lpt_inputs());
    let entries = [sb.main_first() - 1, lebs, 0, lebs + 3, lebs - 1];
    let entries = entries.into_iter().cycle().take(sb.lsave_cnt as usize);
    let table = SaveTable { lebs: entries.map(Leb::new).collect() }.pack(&geometry);
    let at = master.lsave_offs as usize;
    let leb = content[master.lsave_lnum as usize].as_mut().unwrap();
    Arc::make_mut(leb)[at..at + table.len()].copy_from_slice(&table);
    let volume = Arc::new(volume.with(content));
    let fs = mount(&volume).unwrap();
    assert_eq!(big(&fs).save_tables_used, 1);
    step(&fs, 1).unwrap();
    checked(&fs).unwrap();
}
