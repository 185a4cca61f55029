//! Our turns on a file system that real Linux writes, too: random operations on a simulated chip,
//! through UBI for UBIFS, ended by an unmount or a power cut.

use crate::oracle::compare::{Ignore, differences, summary};
use anyhow::{Context, Result, anyhow, ensure};
use eraseblock_base::random::SplitMix64;
use eraseblock_base::{Geometry, MediumKind, VolumeId};
use eraseblock_jffs2::{Jffs2, Jffs2Rw, OpenOptions as ReadOptions, RwOptions, Source};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{ArmedCut, Chip, ChipConfig, Prefix, Variant};
use eraseblock_ubi::{AttachOptions, NewVolume, OpenOptions, Ubi, UbiDevice};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use eraseblock_ubifs::{MountOptions, OpenOptions as ReadUbifs, Ubifs, UbifsMount};
use eraseblock_ubifs_format::Compression;
use eraseblock_vfs::{
    Background, Caller, FileSystem, FsError, FsErrorKind, NewInode, NewKind, RenameMode, SetAttr,
    WritableFileSystem, XattrMode,
};
use eraseblock_vfs_testkit::manifest::manifest_of;
use eraseblock_vfs_testkit::ops::{
    Change, Make, Object, Op, Place, Slots, Texture, apply, data_of, time_of,
};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// Operations of a turn.
const OPERATIONS: u64 = 700;
/// A cleanmarker in an out-of-band area.
const MARKER: [u8; 8] = [0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0];
/// The tag of erased blocks.
const TAG: [u8; 2] = [0x5A, 0xA5];
/// Maximum number of background steps before an unmount.
const BACKGROUND_STEPS: u32 = 10_000;
/// Number of small files created at once in a turn.
const LITTER: u32 = 120;

/// A chip that both sides simulate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    kind: MediumKind,
    peb: u32,
    pebs: u32,
    page: u32,
    unit: u32,
}

/// NAND with pages of 2 KiB, 8 MiB.
pub(crate) const NAND_2K: Shape =
    Shape { kind: MediumKind::Nand, peb: 128 << 10, pebs: 64, page: 2048, unit: 512 };
/// NAND with pages of 512 bytes, 6 MiB.
pub(crate) const NAND_512: Shape =
    Shape { kind: MediumKind::Nand, peb: 16 << 10, pebs: 384, page: 512, unit: 256 };
/// NOR, 6 MiB.
pub(crate) const NOR: Shape =
    Shape { kind: MediumKind::Nor, peb: 64 << 10, pebs: 96, page: 1, unit: 1 };

/// The write buffer that Linux assumes for the guest's NOR: its recovery handles only tears of this
/// size.
const MTDRAM_BUFFER: u32 = 64;

impl Shape {
    fn chip(self) -> Result<Arc<Chip>> {
        let oob = if self.kind == MediumKind::Nand { self.page / 32 } else { 0 };
        let Self { kind, peb, pebs, page, unit } = self;
        let mut config = ChipConfig::of_geometry(Geometry::new(kind, peb, pebs, page, unit, oob)?)?;
        if kind == MediumKind::Nor {
            config = config.with_buffer(MTDRAM_BUFFER)?;
        }
        Ok(Arc::new(Chip::new(config)))
    }

    /// Returns the offset of the first out-of-band bytes that ECC does not use.
    fn free_oob(self) -> u32 {
        if self.page < 2048 { 8 } else { 2 }
    }

    fn layout(self) -> Result<HeaderLayout> {
        Ok(HeaderLayout::new(self.peb, self.page, self.unit, None)?)
    }
}

/// A file system that both sides write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Played {
    /// UBIFS on the only volume of UBI.
    Ubifs {
        /// The compressor.
        compressor: &'static str,
    },
    /// JFFS2 on the bare chip.
    Jffs2 {
        /// Whether full blocks get a summary.
        summary: bool,
        /// Whether the out-of-band areas, with their cleanmarkers, are exchanged.
        oob: bool,
    },
}

impl Played {
    /// Returns whether out-of-band areas are exchanged.
    pub(crate) fn has_oob(self) -> bool {
        matches!(self, Self::Jffs2 { oob: true, .. })
    }
}

/// A chip with a file system.
#[derive(Debug)]
pub(crate) struct OurChip {
    chip: Arc<Chip>,
    shape: Shape,
    played: Played,
}

/// A mounted file system, and the device below it, which lives as long.
enum Mounted {
    Ubifs { fs: Box<UbifsMount>, ubi: UbiDevice },
    Jffs2(Box<Jffs2Rw>),
}

impl OurChip {
    /// Creates a new chip with an empty file system.
    pub(crate) fn new(shape: Shape, played: Played) -> Result<Self> {
        let this = Self { chip: shape.chip()?, shape, played };
        match played {
            Played::Ubifs { compressor } => this.make_ubifs(compressor)?,
            Played::Jffs2 { .. } => this.begin_jffs2()?,
        }
        Ok(this)
    }

    /// Writes a first file, so that no cut leaves a chip without a sign of JFFS2, and attributes of
    /// the root, which has no node before.
    fn begin_jffs2(&self) -> Result<()> {
        let mounted = self.mount()?;
        let (fs, by) = (mounted.fs(), &Caller::owner(time_of(0)));
        let new = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 1, gid: 2 };
        let changes = SetAttr { uid: Some(3), ..SetAttr::default() };
        fs.create(fs.root(), b"first", &new, by)?;
        fs.set_attr(fs.root(), &changes, by)?;
        Ok(fs.unmount()?)
    }

    fn make_ubifs(&self, compressor: &str) -> Result<()> {
        let ubi = self.attach()?;
        let lebs = ubi.available_lebs();
        let new = NewVolume {
            id: Some(VolumeId::new(0)),
            name: VolumeName::new("data").context("a name")?,
            kind: VolumeKind::Dynamic,
            lebs,
            alignment: 1,
            flags: VolumeFlags::default(),
        };
        ubi.create_volume(&new)?;
        let compression = match compressor {
            "zstd" => Compression::Zstd,
            "none" => Compression::None,
            _ => Compression::Lzo,
        };
        let options = MountOptions { compression: Some(compression), ..MountOptions::default() };
        let volume = Arc::new(ubi.volume(VolumeId::new(0))?);
        UbifsMount::mount(volume, options)?.0.unmount()?;
        Ok(ubi.detach()?)
    }

    /// Creates a chip with the content of an image.
    pub(crate) fn of_image(shape: Shape, played: Played, image: &[u8]) -> Result<Self> {
        let chip = shape.chip()?;
        chip.import(&mut &*image, played.has_oob())?;
        Ok(Self { chip, shape, played })
    }

    /// Returns an independent copy of the chip.
    fn copy(&self) -> Self {
        let chip = Arc::new(self.chip.snapshot().to_chip());
        Self { chip, shape: self.shape, played: self.played }
    }

    /// Its content.
    pub(crate) fn image(&self) -> Result<Vec<u8>> {
        let mut image = Vec::new();
        self.chip.export(&mut image, self.played.has_oob())?;
        Ok(image)
    }

    /// Returns erased blocks, by whether they have a cleanmarker in the out-of-band area (spec:
    /// jffs2 11.2).
    fn empty(&self, marked: bool) -> Result<BTreeSet<u32>> {
        let mut block = vec![0; self.shape.peb as usize];
        self.blocks_where(|at| {
            self.chip.read(at, &mut block)?;
            let expected = if marked { MARKER } else { [0xFF; 8] };
            Ok(self.marker_at(at)? == expected && block.iter().all(|byte| *byte == 0xFF))
        })
    }

    /// Returns blocks with a cleanmarker, regardless of their content.
    fn marked(&self) -> Result<BTreeSet<u32>> {
        self.blocks_where(|at| Ok(self.marker_at(at)? == MARKER))
    }

    /// Returns the blocks whose address satisfies a condition.
    fn blocks_where(&self, mut is_so: impl FnMut(u64) -> Result<bool>) -> Result<BTreeSet<u32>> {
        let geometry = *self.chip.geometry();
        let mut found = BTreeSet::new();
        for peb in geometry.pebs() {
            if is_so(geometry.address_of(peb))? {
                found.insert(peb.get());
            }
        }
        Ok(found)
    }

    /// Returns the place of the cleanmarker of the block at an address.
    fn marker_at(&self, block: u64) -> Result<[u8; 8]> {
        let mut marker = [0; 8];
        self.chip.read_oob(block, self.shape.free_oob(), &mut marker)?;
        Ok(marker)
    }

    /// Returns the content with a tag in the out-of-band area of the last page of each erased
    /// block. No driver reads the tag, and an erase removes it.
    pub(crate) fn tagged(&self) -> Result<Vec<u8>> {
        let copy = Self { chip: self.shape.chip()?, ..self.copy() };
        copy.chip.import(&mut self.image()?.as_slice(), true)?;
        for peb in self.empty(true)?.union(&self.empty(false)?) {
            copy.chip.program_oob(self.last_page(*peb), self.shape.free_oob(), &TAG)?;
        }
        copy.image()
    }

    fn last_page(&self, peb: u32) -> u64 {
        u64::from(peb + 1) * u64::from(self.shape.peb) - u64::from(self.shape.page)
    }

    /// Checks that erased blocks with a cleanmarker, from round 2 by either side, are not erased
    /// again, neither by Linux, which only mounted the tagged image and left `idle`, nor by us.
    pub(crate) fn judge_markers(&self, idle: &[u8]) -> Result<()> {
        let (marked, unmarked) = (self.empty(true)?, self.empty(false)?);
        ensure!(!marked.is_empty(), "no erased block has a cleanmarker");
        let idle = Self::of_image(self.shape, self.played, idle)?;
        let geometry = *self.chip.geometry();
        let (mut tag, mut erased) = ([0; TAG.len()], BTreeSet::new());
        for peb in marked.union(&unmarked) {
            idle.chip.read_oob(self.last_page(*peb), self.shape.free_oob(), &mut tag)?;
            if tag != TAG {
                erased.insert(*peb);
            }
        }
        let twice = marked.intersection(&erased).count();
        ensure!(twice == 0, "Linux erases {twice} of {} blocks with a cleanmarker", marked.len());
        // The other blocks prove that Linux erases and that this is visible. It takes its time.
        let few = unmarked.len().min(8);
        ensure!(erased.len() >= few, "Linux erased {erased:?} only of {unmarked:?}");
        // Linux may have written to some of them in the meantime: a program does not remove a
        // marker.
        let still_marked = idle.marked()?;
        let lost = marked.difference(&still_marked).collect::<Vec<_>>();
        ensure!(lost.is_empty(), "Linux took the cleanmarkers of blocks {lost:?} away");
        let copy = Self::of_image(self.shape, self.played, &self.image()?)?;
        let counts = || geometry.pebs().map(|peb| copy.chip.erase_count(peb)).collect::<Vec<_>>();
        let before = counts();
        settle(copy.mount()?.fs())?;
        for (peb, (old, new)) in (0..).zip(before.iter().zip(counts())) {
            let is_left_alone = *old == new || !marked.contains(&peb);
            ensure!(is_left_alone, "we erase block {peb}, which has a cleanmarker");
        }
        Ok(())
    }

    fn attach(&self) -> Result<UbiDevice> {
        let options = OpenOptions { image_seq: 0x0B17_E5E0, ..OpenOptions::default() };
        Ok(UbiDevice::open(self.chip.clone(), &self.shape.layout()?, &options)?)
    }

    fn mount(&self) -> Result<Mounted> {
        if let Played::Jffs2 { summary, .. } = self.played {
            let options = RwOptions { summary, ..RwOptions::default() };
            let (fs, _) = Jffs2Rw::mount(self.chip.clone(), &options)?;
            return Ok(Mounted::Jffs2(Box::new(fs)));
        }
        let ubi = self.attach()?;
        let (fs, _) =
            UbifsMount::mount(Arc::new(ubi.volume(VolumeId::new(0))?), MountOptions::default())?;
        Ok(Mounted::Ubifs { fs: Box::new(fs), ubi })
    }

    /// Returns the view of a read-only mount.
    fn look(&self) -> Result<String> {
        if let Played::Jffs2 { .. } = self.played {
            let source = Source::Device(self.chip.clone());
            return list(&Jffs2::open(source, &ReadOptions::default())?.0);
        }
        let ubi = Ubi::attach(self.chip.clone(), &self.shape.layout()?, &AttachOptions::default())?;
        let options = MountOptions { read_only: true, ..MountOptions::default() };
        let (fs, _) = UbifsMount::mount(Arc::new(ubi.volume(VolumeId::new(0))?), options)?;
        list(&fs)
    }

    /// Compares its content with the expected one, for read-only and writable mounts, and checks
    /// it.
    pub(crate) fn hold_against(&self, expected: &str) -> Result<()> {
        let copy = self.copy();
        let found = copy.look()?;
        let compared = differences(expected, &found, Ignore::Nothing);
        ensure!(compared.is_empty(), "read-only: {}", summary(&compared));
        let mounted = copy.mount()?;
        mounted.check()?;
        let found = list(mounted.fs())?;
        let compared = differences(expected, &found, Ignore::Nothing);
        ensure!(compared.is_empty(), "for writing: {}", summary(&compared));
        Ok(())
    }

    /// Performs our turn of a round. Returns how it ended, and the content now.
    pub(crate) fn work(&mut self, round: u32) -> Result<(String, String)> {
        let is_cut = !round.is_multiple_of(3);
        let how = if is_cut { self.cut(round)? } else { "after an unmount".to_owned() };
        if !is_cut {
            self.mount()?.turn(round, true).map_err(|error| anyhow!("{error}"))?;
        }
        // The state that Linux will find.
        let found = Self::of_image(self.shape, self.played, &self.image()?)?;
        let listed = found.look().with_context(|| how.clone())?;
        found.hold_against(&listed).with_context(|| how.clone())?;
        Ok((how, listed))
    }

    /// Performs a turn that is cut off at a random event, except those from which the recovery of
    /// Linux 6.1 goes wrong.
    fn cut(&mut self, round: u32) -> Result<String> {
        let trial = self.copy();
        let begin = trial.chip.next_event();
        trial.mount()?.turn(round, false).map_err(|error| anyhow!("{error}"))?;
        let events = trial.chip.next_event() - begin;
        let mut random = SplitMix64::new(round.into());
        let first = random.below(events);
        let programs = [Variant::P0, Variant::P1, Variant::P2(Prefix::Half), Variant::P3];
        let erases = [Variant::E0, Variant::E1, Variant::E2 { scattered: false }];
        let program = programs[random.index(programs.len())];
        let erase = erases[random.index(erases.len())];
        for event in (first..events).chain(0..first) {
            let tried = self.copy();
            let cut = ArmedCut { event: begin + event, program, erase, seed: round.into() };
            tried.chip.arm_cut(Some(cut))?;
            let ended = tried.mount().map(|mounted| mounted.turn(round, false));
            let is_cut = !tried.chip.is_powered();
            ensure!(is_cut, "the cut never came: {:?}", ended.map(Result::err));
            tried.chip.power_on();
            tried.chip.arm_cut(None)?;
            if tried.attributes_of_orphans()? == 0 {
                *self = tried;
                return Ok(format!("cut at event {event} of {events} ({program}, {erase})"));
            }
        }
        Err(anyhow!("every cut leaves orphans with attributes"))
    }

    /// Returns the number of xattrs of unlinked, open files in the orphans of the last commit: the
    /// recovery of Linux 6.1 leaves their inodes without a name, and its own check then complains.
    fn attributes_of_orphans(&self) -> Result<u64> {
        if let Played::Jffs2 { .. } = self.played {
            return Ok(0);
        }
        let ubi = Ubi::attach(self.chip.clone(), &self.shape.layout()?, &AttachOptions::default())?;
        let volume = Arc::new(ubi.volume(VolumeId::new(0))?);
        Ok(Ubifs::open(volume, &ReadUbifs::default())?.0.info().orphan_attributes_removed)
    }
}

impl Mounted {
    fn fs(&self) -> &dyn WritableFileSystem {
        match self {
            Self::Ubifs { fs, .. } => fs.as_ref(),
            Self::Jffs2(fs) => fs.as_ref(),
        }
    }

    fn check(&self) -> Result<()> {
        let (fs, ubi) = match self {
            Self::Ubifs { fs, ubi } => (fs, ubi),
            Self::Jffs2(fs) => return Ok(fs.check()?),
        };
        ubi.check_invariants().map_err(|error| anyhow!("UBI: {error}"))?;
        let findings = fs.check()?;
        let first = findings.iter().next();
        ensure!(first.is_none(), "check: {first:?}");
        Ok(())
    }

    /// Performs random operations, a third of them before the small files.
    fn turn(self, round: u32, unmount: bool) -> Result<(), FsError> {
        let mut random = SplitMix64::new(u64::from(round) << 32);
        let mut slots = Slots::default();
        for number in 0..OPERATIONS {
            if number == OPERATIONS / 3 {
                accept(self.litter(round))?;
            }
            let op = operation(&mut random);
            accept(apply(self.fs(), &mut slots, &op, u64::from(round) * OPERATIONS + number))?;
            if number % 16 == 0 {
                self.fs().background_step()?;
            }
        }
        if unmount {
            settle(self.fs())?;
            self.fs().unmount()?;
            if let Self::Ubifs { ubi, .. } = &self {
                let detached = ubi.detach();
                detached.map_err(|error| FsError::new(FsErrorKind::Io, error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Creates many small files, replacing those of two rounds before.
    fn litter(&self, round: u32) -> Result<(), FsError> {
        let fs = self.fs();
        let by = &Caller::owner(time_of(u64::from(round)));
        if let Ok(old) =
            fs.lookup(fs.root(), format!("litter-{}", round.wrapping_sub(2)).as_bytes())
        {
            for entry in fs.entries(old)? {
                fs.unlink(old, &entry.name, by)?;
            }
        }
        let mut new = NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 1, gid: 2 };
        let dir = fs.create(fs.root(), format!("litter-{round}").as_bytes(), &new, by)?;
        new.kind = NewKind::Regular;
        for number in 0..LITTER {
            let file = fs.create(dir, format!("file {number}").as_bytes(), &new, by)?;
            let content = data_of(number.into(), 0, 37 * number, Texture::Text);
            fs.write(file, 0, &content, by)?;
        }
        Ok(())
    }
}

/// Runs all background work.
fn settle(fs: &dyn WritableFileSystem) -> Result<(), FsError> {
    for _ in 0..BACKGROUND_STEPS {
        if fs.background_step()? == Background::Idle {
            break;
        }
    }
    Ok(())
}

/// Accepts refusals; fails if the device is broken.
fn accept(result: Result<(), FsError>) -> Result<(), FsError> {
    use FsErrorKind::{Corrupted, Io, ReadOnly};
    match result {
        Err(error) if matches!(error.kind(), Corrupted | Io | ReadOnly) => Err(error),
        _ => Ok(()),
    }
}

/// Any operation on the small name space.
fn operation(random: &mut SplitMix64) -> Op {
    let [dir, name, other_dir, other_name, slot, ..] = random.next_u64().to_le_bytes();
    let (one, other) = (Place { dir, name }, Place { dir: other_dir, name: other_name });
    let object = match random.below(8) {
        0 => Object::Root,
        1 | 2 => Object::Slot(slot),
        _ => Object::At(one),
    };
    let texture = [Texture::Random, Texture::Text, Texture::Zeros][random.index(3)];
    let longest = if random.below(4) == 0 { 60_000 } else { 6000 };
    let len = u32::try_from(random.below(longest)).unwrap_or(0);
    let short = u16::try_from(len % 700).unwrap_or(0);
    let offset = random.below(100_000) * random.below(2);
    match random.below(26) {
        0..=3 => Op::Create(one, Make::Regular),
        4 | 5 => Op::Create(one, Make::Directory),
        6 => match random.below(5) {
            0 => Op::Create(one, Make::Symlink(1 + short)),
            1 => Op::Create(one, Make::Block),
            2 => Op::Create(one, Make::Char),
            3 => Op::Create(one, Make::Fifo),
            _ => Op::Create(one, Make::Socket),
        },
        7 => Op::Unnamed(one.dir, slot),
        8 => Op::Link(object, other),
        9 => Op::Unlink(one),
        10 => Op::RemoveDir(one),
        11..=13 => {
            use RenameMode::{Exchange, NoReplace, Replace, Whiteout};
            Op::Rename(one, other, [Replace, NoReplace, Exchange, Whiteout][random.index(4)])
        }
        14..=17 => Op::Write { object, offset, len, texture },
        18 => Op::Append(object, len, texture),
        19 => match random.below(5) {
            0 => Op::Change(object, Change::Mode(short)),
            1 => Op::Change(object, Change::Owner(slot.into(), len)),
            2 => Op::Change(object, Change::Times(len, len / 2)),
            // Compression only: files must stay removable.
            3 => Op::Change(object, Change::Flags(slot % 2)),
            _ => Op::Change(object, Change::Size(offset)),
        },
        20 | 21 => Op::SetXattr(object, slot, short, XattrMode::Either),
        22 => Op::RemoveXattr(object, slot),
        23 => Op::Open(one, slot),
        24 => Op::Release(slot),
        _ if random.below(6) == 0 => Op::Sync,
        _ => Op::SyncFile(object),
    }
}

fn list(fs: &dyn FileSystem) -> Result<String> {
    let mut problems = Vec::new();
    let mut problem = |path: &[u8], error: &FsError| {
        problems.push(format!("{}: {error}", String::from_utf8_lossy(path)));
    };
    let mut out = String::new();
    for line in manifest_of(fs, &mut problem) {
        writeln!(out, "{line}")?;
    }
    ensure!(problems.is_empty(), "unreadable: {}", problems.join("; "));
    Ok(out)
}
