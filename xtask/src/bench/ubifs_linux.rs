//! What UBIFS costs the flash, against real Linux: both unpack the same tree twice on the same
//! simulated chip, and mount the same images, which Linux left unmounted and cut off.

use super::ubifs_rw::{Entry, load, remove, unpack};
use super::{Bench, Row};
use crate::command;
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::machine;
use anyhow::{Context, Result, bail, ensure};
use eraseblock_base::{Geometry, MediumKind, VolumeId};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_ubi::{NewVolume, OpenOptions, UbiDevice};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_ubifs_format::Compression;
use eraseblock_vfs::{FileSystem, WritableFileSystem};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Blocks of the chip: 128 KiB with pages of 2 KiB.
const PEBS: u32 = 350;
/// LEBs of the volume: less than two trees, so that space is used again.
const LEBS: u32 = 250;
/// Bytes of file contents that are unpacked.
const CONTENT: usize = 30_000_000;

/// What had been done to the chip at a point, and what statfs said.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    programs: u64,
    erases: u64,
    reads: u64,
    available: u64,
}

impl Bench {
    /// Pages programmed, blocks erased and pages read; the peer is Linux.
    pub(super) fn ubifs_linux(&mut self) -> Result<()> {
        let mut entries = Vec::new();
        load(&self.tree, &mut entries)?;
        shorten(&mut entries);
        let (guest, paths) = machine(self.bin.clone(), false)?;
        let case = BatchCase {
            name: "cost".to_owned(),
            script: include_str!("../../guest/cost.sh"),
            variables: vec![("PEBS", PEBS.to_string()), ("LEBS", LEBS.to_string())],
            files: vec![("tree.tar", self.archive(&entries)?)],
        };
        let batch = Batch::run(&guest, &paths, "cost", &[], &[case])?;
        let dir = batch.case_dir("cost")?;
        let linux = |name: &str| linux_count(&dir, name);
        let (begin, once, twice) = (linux("start")?, linux("unpacked")?, linux("again")?);
        let ours = Ours::new(chip()?)?;
        let (our_begin, our_once, our_twice) = ours.unpack_twice(&entries)?;
        let megabytes = entries.iter().map(Entry::len).sum::<usize>() / 1_000_000;
        let unpacked = format!("unpack {megabytes} MB");
        self.cost(&unpacked, (our_begin, our_once), (begin, once));
        self.cost("remove it, unpack again", (our_once, our_twice), (once, twice));
        for (name, mounted) in [("clean", "clean-mounted"), ("cut", "cut-mounted")] {
            let theirs = linux(mounted)?.reads - linux(name)?.reads;
            let ours = reads_at_mount(&dir.join(name))?;
            self.counts(format!("ubifs: mount, {name}: pages read"), ours, theirs, 1.0);
        }
        paths.finish(batch)
    }

    /// Rows for what happened from one point to another.
    fn cost(&mut self, what: &str, ours: (Count, Count), linux: (Count, Count)) {
        let taken =
            |(from, to): (Count, Count)| (to.programs - from.programs, to.erases - from.erases);
        let (mine, theirs) = (taken(ours), taken(linux));
        self.counts(format!("ubifs: {what}: pages programmed"), mine.0, theirs.0, 1.0);
        self.counts(format!("ubifs: {what}: blocks erased"), mine.1, theirs.1, 1.0);
        let (mine, theirs) = (ours.1.available, linux.1.available);
        // All ratios are read alike: what Linux has left is ours to have.
        self.counts(format!("ubifs: {what}: available, Linux's in ours"), theirs, mine, 1.01);
    }

    #[allow(clippy::cast_precision_loss)] // counts far below 2^52
    fn counts(&mut self, what: String, ours: u64, peer: u64, wanted: f64) {
        let (ours, peer) = (ours as f64, peer as f64);
        let ratio = ours / peer.max(1.0);
        self.add(Row { what, ours, peer, unit: "", ratio, wanted, met: ratio <= wanted });
    }

    /// The entries as an archive.
    fn archive(&self, entries: &[Entry]) -> Result<PathBuf> {
        let (dir, archive) = (self.path("part"), self.path("part.tar"));
        super::remove(&dir)?;
        fs::create_dir(&dir)?;
        let mut place = dir.clone();
        for entry in entries {
            let name = |name: &[u8]| std::ffi::OsStr::from_bytes(name).to_owned();
            match entry {
                Entry::Dir(dir) => {
                    place.push(name(dir));
                    fs::create_dir(&place)?;
                }
                Entry::File(file, content) => fs::write(place.join(name(file)), content)?,
                Entry::Link(link, target) => symlink(name(target), place.join(name(link)))?,
                Entry::End => {
                    place.pop();
                }
            }
        }
        let words = ["--sort=name", "--owner=0", "--group=0", "--format=gnu", "-C"];
        let mut tar = std::process::Command::new("tar");
        tar.args(words).arg(&dir).arg("-cf").arg(&archive);
        let names = fs::read_dir(&dir)?.collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<_> = names.iter().map(fs::DirEntry::file_name).collect();
        names.sort();
        command::output(tar.args(names))?;
        super::remove(&dir)?;
        Ok(archive)
    }
}

/// Leaves out what exceeds [`CONTENT`].
fn shorten(entries: &mut Vec<Entry>) {
    let (mut bytes, mut depth, mut kept) = (0, 0_usize, 0);
    for entry in entries.iter() {
        bytes += entry.len();
        if bytes > CONTENT {
            break;
        }
        kept += 1;
        match entry {
            Entry::Dir(_) => depth += 1,
            Entry::End => depth -= 1,
            _ => {}
        }
    }
    entries.truncate(kept);
    entries.extend((0..depth).map(|_| Entry::End));
}

fn linux_count(dir: &Path, name: &str) -> Result<Count> {
    let counts = fs::read_to_string(dir.join("counts"))?;
    let line = counts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.with_context(|| format!("Linux counted nothing at `{name}`"))?;
    let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    match numbers[..] {
        [programs, erases, reads, _, _, available] => {
            Ok(Count { programs, erases, reads, available })
        }
        _ => bail!("Linux counted `{line}` at `{name}`"),
    }
}

fn chip() -> Result<Arc<Chip>> {
    let geometry = Geometry::new(MediumKind::Nand, 128 << 10, PEBS, 2048, 512, 64)?;
    Ok(Arc::new(Chip::new(ChipConfig::of_geometry(geometry)?)))
}

/// Our side.
struct Ours {
    chip: Arc<Chip>,
    ubi: UbiDevice,
}

impl Ours {
    fn new(chip: Arc<Chip>) -> Result<Self> {
        let layout = HeaderLayout::new(128 << 10, 2048, 512, None)?;
        let ubi = UbiDevice::open(chip.clone(), &layout, &OpenOptions::default())?;
        Ok(Self { chip, ubi })
    }

    fn mount(&self) -> Result<UbifsMount> {
        let options =
            MountOptions { compression: Some(Compression::Lzo), ..MountOptions::default() };
        Ok(UbifsMount::mount(Arc::new(self.ubi.volume(VolumeId::new(0))?), options)?.0)
    }

    fn count(&self, mounted: &UbifsMount) -> Result<Count> {
        // UBI erases in the background.
        self.ubi.flush()?;
        let counters = self.chip.counters();
        Ok(Count {
            programs: counters.page_programs,
            erases: counters.erases,
            reads: counters.page_reads,
            available: mounted.stat_fs()?.blocks_available,
        })
    }

    /// Counts before, between and after.
    fn unpack_twice(&self, entries: &[Entry]) -> Result<(Count, Count, Count)> {
        self.ubi.create_volume(&NewVolume {
            id: Some(VolumeId::new(0)),
            name: VolumeName::new("data").context("a name")?,
            kind: VolumeKind::Dynamic,
            lebs: LEBS,
            alignment: 1,
            flags: VolumeFlags::default(),
        })?;
        self.mount()?.unmount()?;
        let mounted = self.mount()?;
        let begin = self.count(&mounted)?;
        unpack(&mounted, entries)?;
        mounted.sync()?;
        let once = self.count(&mounted)?;
        remove(&mounted, mounted.root())?;
        unpack(&mounted, entries)?;
        mounted.sync()?;
        let twice = self.count(&mounted)?;
        Ok((begin, once, twice))
    }
}

/// Pages we read to mount what is in an image, UBI's not counted.
fn reads_at_mount(image: &Path) -> Result<u64> {
    let chip = chip()?;
    chip.import(&mut fs::File::open(image)?, false)?;
    let ours = Ours::new(chip)?;
    let before = ours.chip.counters().page_reads;
    let mounted = ours.mount()?;
    let reads = ours.chip.counters().page_reads - before;
    let findings = mounted.check()?;
    ensure!(findings.iter().next().is_none(), "what Linux left is not right: {findings:?}");
    Ok(reads)
}
