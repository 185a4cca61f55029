//! The flash costs of UBIFS compared with real Linux: both unpack the same tree twice on the same
//! simulated chip, and mount the same images: those of Linux, unmounted and cut off, and ours.

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
use std::io::BufWriter;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The amount of data and the chip. The chips have blocks of 128 KiB with pages of 2 KiB.
#[derive(Debug)]
pub(super) struct Scale {
    /// The name of the guest's job.
    name: &'static str,
    /// The id from which nandsim creates the chip.
    id: &'static str,
    /// Blocks of the chip.
    pebs: u32,
    /// LEBs of the volume: less than two trees, so that space is used again.
    lebs: u32,
    /// The most bytes of file contents.
    content: usize,
    /// Time limit of the guest in minutes.
    minutes: u64,
}

/// As much as a guest unpacks in a few minutes.
pub(super) const PART: Scale = Scale {
    name: "cost",
    id: "0x20,0xa1,0x00,0x15",
    pebs: 350,
    lebs: 250,
    content: 30_000_000,
    minutes: 20,
};

/// The whole tree.
pub(super) const WHOLE: Scale = Scale {
    name: "cost-whole",
    id: "0x20,0xaa,0x00,0x15",
    pebs: 2040,
    lebs: 1500,
    content: usize::MAX,
    minutes: 120,
};

/// Maximum error of df in either direction, relative to the volume's size.
const DF: f64 = 0.01;

/// The operations of the chip up to a point, and the result of statfs, in its blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    programs: u64,
    erases: u64,
    reads: u64,
    size: u64,
    free: u64,
    available: u64,
}

impl Bench {
    /// Measures pages programmed, blocks erased, pages read and the result of df; the peer is
    /// Linux.
    pub(super) fn ubifs_linux(&mut self, scale: &Scale) -> Result<()> {
        let mut entries = Vec::new();
        load(&self.tree, &mut entries)?;
        shorten(&mut entries, scale.content);
        let ours = Ours::new(chip(scale)?)?;
        let counts = ours.unpack_twice(scale, &entries)?;
        let image = self.path("cost.img");
        ours.chip.export(&mut BufWriter::new(fs::File::create(&image)?), false)?;
        let (mut guest, paths) = machine(self.bin.clone(), false)?;
        guest.timeout = Duration::from_mins(scale.minutes);
        let case = BatchCase {
            name: scale.name.to_owned(),
            script: include_str!("../../guest/cost.sh"),
            variables: vec![
                ("ID", scale.id.to_owned()),
                ("PEBS", scale.pebs.to_string()),
                ("LEBS", scale.lebs.to_string()),
            ],
            files: vec![("tree.tar", self.archive(&entries)?), ("ours", image)],
        };
        let batch = Batch::run(&guest, &paths, scale.name, &[], &[case])?;
        let dir = batch.case_dir(scale.name)?;
        let megabytes = entries.iter().map(Entry::len).sum::<usize>() / 1_000_000;
        self.beside_linux(scale, megabytes, &counts, &dir)?;
        paths.finish(batch)
    }

    /// Adds all rows: our counts, and those of the guest.
    fn beside_linux(
        &mut self,
        scale: &Scale,
        megabytes: usize,
        ours: &[Count; 3],
        dir: &Path,
    ) -> Result<()> {
        let linux = |name: &str| linux_count(dir, name);
        let theirs = [linux("start")?, linux("unpacked")?, linux("again")?];
        let steps = [format!("unpack {megabytes} MB"), "remove it, unpack again".to_owned()];
        for (number, what) in steps.iter().enumerate() {
            let of = |counts: &[Count; 3]| (counts[number], counts[number + 1]);
            self.cost(what, of(ours), of(&theirs));
            self.df(what, ours[number + 1], theirs[number + 1]);
        }
        for name in ["clean", "cut", "ours"] {
            let (before, theirs) = (linux(name)?, linux(&format!("{name}-mounted"))?);
            let (reads, ours) = mount(scale, &dir.join(name))?;
            let what = format!("mount, {name}");
            if name != "ours" {
                let theirs = theirs.reads - before.reads;
                self.counts(format!("ubifs: {what}: pages read"), reads, theirs, 1.0);
            }
            // The results of both for the same image.
            self.df(&what, ours, theirs);
        }
        Ok(())
    }

    /// Adds rows for the operations between two points.
    fn cost(&mut self, what: &str, ours: (Count, Count), linux: (Count, Count)) {
        let taken =
            |(from, to): (Count, Count)| (to.programs - from.programs, to.erases - from.erases);
        let (mine, theirs) = (taken(ours), taken(linux));
        self.counts(format!("ubifs: {what}: pages programmed"), mine.0, theirs.0, 1.0);
        self.counts(format!("ubifs: {what}: blocks erased"), mine.1, theirs.1, 1.0);
    }

    /// Adds rows for statfs: the ratio is the difference relative to the volume's size.
    #[allow(clippy::cast_precision_loss)] // counts far below 2^52
    fn df(&mut self, what: &str, ours: Count, linux: Count) {
        let used = |count: Count| count.size - count.free;
        let rows =
            [("used", used(ours), used(linux)), ("available", ours.available, linux.available)];
        for (field, ours, peer) in rows {
            let what = format!("ubifs: {what}: df, {field}, off by");
            let ratio = ours.abs_diff(peer) as f64 / linux.size.max(1) as f64;
            let (ours, peer) = (ours as f64, peer as f64);
            self.add(Row { what, ours, peer, unit: "", ratio, wanted: DF, met: ratio <= DF });
        }
    }

    #[allow(clippy::cast_precision_loss)] // counts far below 2^52
    fn counts(&mut self, what: String, ours: u64, peer: u64, wanted: f64) {
        let (ours, peer) = (ours as f64, peer as f64);
        let ratio = ours / peer.max(1.0);
        self.add(Row { what, ours, peer, unit: "", ratio, wanted, met: ratio <= wanted });
    }

    /// Returns the entries as an archive.
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

/// Drops entries beyond `content` bytes.
fn shorten(entries: &mut Vec<Entry>, content: usize) {
    let (mut bytes, mut depth, mut kept) = (0, 0_usize, 0);
    for entry in entries.iter() {
        bytes += entry.len();
        if bytes > content {
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
        [programs, erases, reads, size, free, available] => {
            Ok(Count { programs, erases, reads, size, free, available })
        }
        _ => bail!("Linux counted `{line}` at `{name}`"),
    }
}

fn chip(scale: &Scale) -> Result<Arc<Chip>> {
    let geometry = Geometry::new(MediumKind::Nand, 128 << 10, scale.pebs, 2048, 512, 64)?;
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
        let (counters, space) = (self.chip.counters(), mounted.stat_fs()?);
        Ok(Count {
            programs: counters.page_programs,
            erases: counters.erases,
            reads: counters.page_reads,
            size: space.blocks,
            free: space.blocks_free,
            available: space.blocks_available,
        })
    }

    /// Counts before, between and after; unmounted in the end.
    fn unpack_twice(&self, scale: &Scale, entries: &[Entry]) -> Result<[Count; 3]> {
        self.ubi.create_volume(&NewVolume {
            id: Some(VolumeId::new(0)),
            name: VolumeName::new("data").context("a name")?,
            kind: VolumeKind::Dynamic,
            lebs: scale.lebs,
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
        mounted.unmount()?;
        self.ubi.flush()?;
        Ok([begin, once, twice])
    }
}

/// Returns the pages read to mount an image, without those of UBI, and all counts then.
fn mount(scale: &Scale, image: &Path) -> Result<(u64, Count)> {
    let chip = chip(scale)?;
    chip.import(&mut fs::File::open(image)?, false)?;
    let ours = Ours::new(chip)?;
    let before = ours.chip.counters().page_reads;
    let mounted = ours.mount()?;
    let reads = ours.chip.counters().page_reads - before;
    let count = ours.count(&mounted)?;
    let findings = mounted.check()?;
    ensure!(findings.iter().next().is_none(), "{} is not right: {findings:?}", image.display());
    Ok((reads, count))
}
