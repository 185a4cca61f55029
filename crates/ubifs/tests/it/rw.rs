//! Mounted for writing, compared with the model.

use crate::strict_leb::{StrictLeb, Torn};
use eraseblock_ubifs::mkfs::{self, Compressor, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_ubifs::{MountOptions, OpenOptions, Ubifs, UbifsMount};
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{
    Caller, FileSystem, NewInode, NewKind, RenameMode, SetAttr, SourceTree, Timestamp,
    WritableFileSystem, XattrMode,
};
use eraseblock_vfs_testkit::drive::{DriveOptions, Subject, drive};
use eraseblock_vfs_testkit::model::ModelRules;
use eraseblock_vfs_testkit::{CompareOptions, ModelFs, ops, same_tree};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// Returns an empty file system on a volume of `lebs` LEBs.
pub(crate) fn empty(lebs: u32) -> Arc<StrictLeb> {
    let volume = StrictLeb::new(15_872, 512, 2048, lebs);
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let options =
        MkfsOptions { compressor: Compressor::Lzo, ..MkfsOptions::new(15_872, 512, lebs) };
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    Arc::new(volume)
}

pub(crate) fn mount(volume: &Arc<StrictLeb>) -> Result<UbifsMount, String> {
    let mounted = UbifsMount::mount(Arc::clone(volume) as _, MountOptions::default());
    mounted.map(|(fs, _)| fs).map_err(|error| error.to_string())
}

pub(crate) fn checked(fs: &UbifsMount) -> Result<(), String> {
    let findings = fs.check().map_err(|error| error.to_string())?;
    let lines: Vec<String> = findings.iter().map(|finding| format!("{finding:?}")).collect();
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
}

pub(crate) fn file() -> NewInode<'static> {
    NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 1, gid: 2 }
}

#[test]
fn memory_follows_what_is_loaded() {
    let volume = empty(200);
    let fs = mount(&volume).unwrap();
    let bare = fs.memory();
    for number in 0..400_u32 {
        let ino = fs.create(1, format!("file-{number}").as_bytes(), &file(), NOW).unwrap();
        fs.write(ino, 0, &[number as u8; 3000], NOW).unwrap();
    }
    let waiting = fs.memory();
    assert!(waiting > bare + 300 * 4096, "pages that wait for the flash: {bare} to {waiting}");
    fs.unmount().unwrap();
    let fs = mount(&volume).unwrap();
    let mounted = fs.memory();
    assert!(mounted < 2 * bare + 16_384, "the index is on flash: {bare} to {mounted}");
    for entry in fs.entries(1).unwrap() {
        fs.read(entry.ino, 0, &mut [0; 3000]).unwrap();
    }
    let read = fs.memory();
    // A branch of an index node for each inode, entry and block.
    assert!(read > mounted + 1200 * 20, "index nodes are kept: {mounted} to {read}");
    assert!(read < mounted + (1 << 20), "but not content: {mounted} to {read}");
}

#[test]
fn a_commit_that_is_due_comes_before_the_log_takes_another_leb() {
    let volume = StrictLeb::new(15_872, 512, 2048, 600);
    let mut options =
        MkfsOptions { compressor: Compressor::None, ..MkfsOptions::new(15_872, 512, 600) };
    (options.layout.journal_bytes, options.layout.log_lebs) = (Some(36 * 15_872), Some(6));
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    let fs = mount(&Arc::new(volume)).unwrap();
    let ino = fs.create(1, b"long", &file(), NOW).unwrap();
    for number in 0..1500 {
        fs.write(ino, number * 4096, &[number as u8; 4096], NOW).unwrap();
    }
    fs.sync().unwrap();
    let done = fs.activity();
    assert!(done.commits > 8, "{done:?}");
    // 31 slots in a LEB of the log, one of them for the start of a commit.
    assert!(done.buds > done.commits * 24, "{done:?}");
    assert!(done.log_wraps * 6 <= done.commits + 6, "{done:?}");
}

#[test]
fn a_file_is_written_and_read_back() {
    let volume = empty(64);
    let content: Vec<u8> = (0..100_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
    {
        let fs = mount(&volume).unwrap();
        checked(&fs).unwrap();
        let ino = fs.create(1, b"hello", &file(), NOW).unwrap();
        fs.write(ino, 0, &content, NOW).unwrap();
        let mut back = vec![0; content.len() + 10];
        assert_eq!(fs.read(ino, 0, &mut back).unwrap(), content.len());
        assert!(back[..content.len()] == content);
        fs.sync().unwrap();
        checked(&fs).unwrap();
        fs.unmount().unwrap();
        assert!(fs.create(1, b"late", &file(), NOW).is_err());
    }
    let (reader, findings) =
        Ubifs::open(Arc::clone(&volume) as _, &OpenOptions { strict: true }).unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    assert!(reader.info().is_clean);
    let ino = reader.lookup(1, b"hello").unwrap();
    let mut back = vec![0; content.len()];
    reader.read(ino, 0, &mut back).unwrap();
    assert!(back == content);
    let fs = mount(&volume).unwrap();
    checked(&fs).unwrap();
    fs.unlink(1, b"hello", NOW).unwrap();
    fs.unmount().unwrap();
    checked(&fs).unwrap();
}

/// A collection that had to wait for a commit halfway returned its LEB as if nothing had been moved
/// out of it: the space of the moved nodes was lost until the LEB was collected again.
#[test]
fn a_collection_that_waits_for_a_commit_counts_what_it_has_moved() {
    let fs = mount(&empty(30)).unwrap();
    let mut last = 0;
    for round in 0..60_u32 {
        let keep = fs.create(1, format!("keep-{round}").as_bytes(), &file(), NOW).unwrap();
        let random = |at: u32| ((at ^ round).wrapping_mul(0x9E37_79B1) >> 13) as u8;
        fs.write(keep, 0, &(0..3000).map(random).collect::<Vec<_>>(), NOW).unwrap();
        fs.sync_file(keep).unwrap();
        let churn = fs.create(1, format!("churn-{round}").as_bytes(), &file(), NOW).unwrap();
        fs.write(churn, 0, &(0..9000).map(random).collect::<Vec<_>>(), NOW).unwrap();
        for (name, age) in [("churn", 4), ("keep", 24)] {
            if let Some(old) = round.checked_sub(age) {
                fs.unlink(1, format!("{name}-{old}").as_bytes(), NOW).unwrap();
            }
        }
        checked(&fs).unwrap_or_else(|error| panic!("{round}: {error}"));
        last = fs.activity().leaf_lebs_collected;
    }
    assert!(last > 5, "{last}");
}

/// A volume and what is mounted on it.
struct Mounted {
    volume: Arc<StrictLeb>,
    fs: UbifsMount,
}

impl Mounted {
    fn new(lebs: u32) -> Self {
        let volume = empty(lebs);
        let fs = mount(&volume).unwrap();
        Self { volume, fs }
    }

    fn again(&mut self) -> Result<(), String> {
        // The reader must see the same as the writer.
        let (reader, _) = Ubifs::open(Arc::clone(&self.volume) as _, &OpenOptions { strict: true })
            .map_err(|error| format!("reader: {error}"))?;
        self.volume = Arc::new(self.volume.with(self.volume.lebs()));
        self.fs = mount(&self.volume)?;
        let options = CompareOptions::ALL;
        let differences = same_tree(&reader, &self.fs, &options);
        match differences.first() {
            None => Ok(()),
            Some(first) => Err(format!("reader and writer: {first}")),
        }
    }
}

impl Subject for Mounted {
    fn fs(&self) -> &dyn WritableFileSystem {
        &self.fs
    }

    fn restart(&mut self) -> Result<(), String> {
        self.again()
    }

    fn power_cut(&mut self) -> Result<(), String> {
        self.again()
    }

    fn check(&self) -> Result<(), String> {
        checked(&self.fs)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_does_what_the_model_does(ops in ops::strategy::ops(60)) {
        let mut subject = Mounted::new(80);
        let model = ModelFs::new(ModelRules::UBIFS, NOW.now);
        let done = drive(&mut subject, &model, &ops, &DriveOptions::default());
        prop_assert!(done.is_ok(), "{}", done.unwrap_err());
    }

    /// On a volume with little or no space, most operations begin by freeing space.
    #[test]
    fn it_does_what_the_model_does_when_it_is_full(
        ops in ops::strategy::ops_when_full(110..180, 400),
    ) {
        let mut subject = Mounted::new(30);
        let model = ModelFs::new(ModelRules::UBIFS, NOW.now);
        let options =
            DriveOptions { may_be_full: true, compare_every: 50, ..DriveOptions::default() };
        let done = drive(&mut subject, &model, &ops, &options);
        prop_assert!(done.is_ok(), "{}", done.unwrap_err());
    }
}

/// A few operations of all kinds, until the power goes.
fn work(volume: &Arc<StrictLeb>) -> Result<(), String> {
    let fs = mount(volume)?;
    let run = || {
        let keep = fs.create(1, b"keep", &file(), NOW)?;
        fs.write(keep, 0, &vec![1; 30_000], NOW)?;
        fs.sync_file(keep)?;
        let dir = NewInode { kind: NewKind::Directory, ..file() };
        let dir = fs.create(1, b"dir", &dir, NOW)?;
        fs.rename((1, b"keep"), (dir, b"kept"), RenameMode::Replace, NOW)?;
        fs.set_xattr(keep, b"user.a", b"value", XattrMode::Either, NOW)?;
        fs.sync()?;
        fs.set_attr(keep, &SetAttr { size: Some(5000), ..SetAttr::default() }, NOW)?;
        fs.create(dir, b"new", &file(), NOW)?;
        fs.open(keep)?;
        fs.unlink(dir, b"kept", NOW)?;
        fs.sync()?;
        fs.release(keep)?;
        fs.unmount()
    };
    run().map_err(|error: eraseblock_vfs::FsError| error.to_string())
}

#[test]
fn every_cut_is_recovered_from() {
    let base = empty(64);
    let whole = Arc::new(base.with(base.lebs()));
    work(&whole).unwrap();
    let mut states = 0;
    for cut in 0..whole.done() {
        for torn in [Torn::Before, Torn::Half, Torn::Garbage, Torn::After] {
            let volume = Arc::new(base.with(base.lebs()));
            volume.cut_after(cut, torn);
            work(&volume).unwrap_err();
            let volume = Arc::new(volume.with(volume.lebs()));
            let fs = mount(&volume).unwrap_or_else(|error| panic!("{cut} {torn:?}: {error}"));
            checked(&fs).unwrap_or_else(|error| panic!("{cut} {torn:?}: {error}"));
            fs.create(1, b"alive", &file(), NOW).unwrap();
            fs.unmount().unwrap();
            let options = OpenOptions { strict: true };
            let (reader, _) = Ubifs::open(Arc::clone(&volume) as _, &options).unwrap();
            assert!(reader.info().is_clean && reader.lookup(1, b"alive").is_ok());
            states += 1;
        }
    }
    assert!(states >= 100, "{states}");
}

/// A group of three nodes is an operation: a name, its inode and its directory.
#[test]
fn an_operation_that_a_cut_left_unfinished_is_reported_with_its_nodes() {
    let base = empty(64);
    let mut found = Vec::new();
    for cut in 0..40 {
        let volume = Arc::new(base.with(base.lebs()));
        volume.cut_after(cut, Torn::Half);
        let Ok(fs) = mount(&volume) else { continue };
        for number in 0..30 {
            let name = format!("{number}{}", "n".repeat(number * 7));
            let done = fs.create(1, name.as_bytes(), &file(), NOW).and_then(|_| fs.flush());
            if done.is_err() {
                break;
            }
        }
        let after = Arc::new(volume.with(volume.lebs()));
        let (_, findings) = Ubifs::open(after, &OpenOptions { strict: true }).unwrap();
        let dropped = findings.iter().filter(|it| it.code == "group-dropped");
        found.extend(dropped.map(|it| it.message.clone()));
    }
    assert!(found.len() > 5, "{found:?}");
    for message in found {
        assert!(
            message.starts_with("1 nodes of") || message.starts_with("2 nodes of"),
            "{message}"
        );
    }
}
