//! Mounts a large UBIFS volume with many files: time and memory must not grow with the size.

use super::{Bench, MIB, Row, timed};
use anyhow::{Context, Result};
use eraseblock_base::{Geometry, MediumKind, VolumeId};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_ubi::{NewVolume, OpenOptions, UbiDevice};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::{Caller, FileSystem, NewInode, NewKind, Timestamp, WritableFileSystem};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of an eraseblock.
const PEB: u32 = 128 << 10;
/// Bytes of a page.
const PAGE: u32 = 2048;
/// Eraseblocks of the chip: those of the volume and some for UBI itself.
const BLOCKS: u32 = 34_816;
/// Bytes of the volume, at least.
const VOLUME: u64 = 4 << 30;
/// Directories, and files in each of them.
const DIRS: u32 = 1000;
const FILES: u32 = 1000;
/// Limits of a mount: seconds of the host, and MiB.
const SECONDS: f64 = 0.2;
const MEMORY: f64 = 64.0;

impl Bench {
    /// Mounts a volume of 4 GiB with a million files.
    #[allow(clippy::cast_precision_loss)] // sizes for people
    pub(super) fn ubifs_large(&mut self) -> Result<()> {
        let file = self.path("large.chip");
        super::remove(&file)?;
        println!("{} files on a volume of {} GiB", DIRS * FILES, VOLUME >> 30);
        fill(&file)?;
        let mut best = f64::MAX;
        for _ in 0..self.rounds.max(3) {
            best = best.min(mount_time(&file)?);
        }
        self.limit("mount of 1,000,000 files on 4 GiB", best, SECONDS, "s");
        // The command attaches UBI, mounts, lists a directory, and unmounts.
        let target = format!("{}:data", file.display());
        let words = ["edit", &target, "-c", "ls /d500"].map(String::from);
        let edit = timed(&[vec![self.binary()], words.to_vec()].concat())?;
        let memory = edit.peak_bytes as f64 / MIB as f64;
        self.limit("its memory, UBI and a listing included", memory, MEMORY, "MiB");
        super::remove(&file)
    }

    fn limit(&mut self, what: &str, ours: f64, peer: f64, unit: &'static str) {
        let ratio = ours / peer;
        self.add(Row {
            what: what.to_owned(),
            ours,
            peer,
            unit,
            ratio,
            wanted: 1.0,
            met: ratio <= 1.0,
        });
    }
}

fn open(chip: Chip) -> Result<UbiDevice> {
    let layout = HeaderLayout::new(PEB, PAGE, PAGE, None)?;
    Ok(UbiDevice::open(Arc::new(chip), &layout, &OpenOptions::default())?)
}

fn mount(ubi: &UbiDevice) -> Result<UbifsMount> {
    let volume = Arc::new(ubi.volume(VolumeId::new(0))?);
    Ok(UbifsMount::mount(volume, MountOptions::default())?.0)
}

/// Makes the chip, and the files on it.
fn fill(file: &Path) -> Result<()> {
    let geometry = Geometry::new(MediumKind::Nand, PEB, BLOCKS, PAGE, PAGE, 64)?;
    let ubi = open(Chip::create(file, ChipConfig::of_geometry(geometry)?)?)?;
    ubi.create_volume(&NewVolume {
        id: Some(VolumeId::new(0)),
        name: VolumeName::new("data").context("a name")?,
        kind: VolumeKind::Dynamic,
        lebs: u32::try_from(VOLUME.div_ceil(u64::from(PEB - 2 * PAGE)))?,
        alignment: 1,
        flags: VolumeFlags::default(),
    })?;
    let mounted = mount(&ubi)?;
    let by = &Caller::owner(Timestamp::from_seconds(1_700_000_000));
    let new = |kind| NewInode { kind, permissions: 0o755, uid: 0, gid: 0 };
    for dir in 0..DIRS {
        let name = format!("d{dir}").into_bytes();
        let parent = mounted.create(mounted.root(), &name, &new(NewKind::Directory), by)?;
        for number in 0..FILES {
            let name = format!("file-{number}").into_bytes();
            let ino = mounted.create(parent, &name, &new(NewKind::Regular), by)?;
            mounted.write(ino, 0, format!("file {number} of {dir}\n").as_bytes(), by)?;
        }
    }
    mounted.unmount()?;
    drop(mounted);
    ubi.flush()?;
    Ok(())
}

/// Seconds from an attached device to the root directory of its volume.
fn mount_time(file: &Path) -> Result<f64> {
    let ubi = open(Chip::open(file)?)?;
    let before = Instant::now();
    let mounted = mount(&ubi)?;
    mounted.attr(mounted.root())?;
    let taken = before.elapsed().as_secs_f64();
    mounted.unmount()?;
    Ok(taken)
}
