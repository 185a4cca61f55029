//! Judges a file system on a volume of UBI on a small chip: chip, UBI and file system recover
//! together.

use super::below::{Below, RARE, Tally};
use super::habit::Habit;
use super::stack::{Mounted, Rules, Stack};
use crate::Shape;
use crate::story::flash;
use eraseblock_base::VolumeId;
use eraseblock_mtd::{Access, LebDevice};
use eraseblock_nandsim::{Chip, Recorded};
use eraseblock_ubi::{AttachOptions, NewVolume, OpenOptions, Ubi, UbiDevice};
use eraseblock_ubi_format::{VolumeFlags, VolumeKind, VolumeName};
use eraseblock_vfs::WritableFileSystem;
use std::fmt;
use std::sync::Arc;

/// Mounts the file system on a volume, read-only on request; creates an empty file system on an
/// empty volume.
pub type MountFn =
    dyn Fn(Arc<dyn LebDevice>, Access) -> Result<Box<dyn Mounted>, String> + Send + Sync;

/// A file system on the only volume of a chip.
#[derive(Clone)]
pub struct OnUbi {
    /// The first word of replay ids.
    pub fs: &'static str,
    /// The second word of replay ids.
    pub name: &'static str,
    /// The chip.
    pub shape: Shape,
    /// LEBs of the volume.
    pub lebs: u32,
    /// The promises of the file system.
    pub rules: Rules,
    /// The function that mounts it.
    pub mount: Arc<MountFn>,
}

impl fmt::Debug for OnUbi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.fs, self.name)
    }
}

/// LEBs of a volume that fills the chip except for the reserve of UBI.
pub(super) const MOST_LEBS: u32 = 64 - 8;

/// The wear-levelling threshold of a device that works in the background: small enough that UBI
/// often moves LEBs.
const WL_THRESHOLD: u32 = 4;

fn open_options() -> OpenOptions {
    OpenOptions { image_seq: 0x1AB0_0002, ..OpenOptions::default() }
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn text(error: impl ToString) -> String {
    error.to_string()
}

/// A file system and the device below it, which lives as long.
struct OnDevice {
    inner: Box<dyn Mounted>,
    ubi: UbiDevice,
    /// What happens below it in a sequence with a habit, and what of that is counted.
    tally: Option<(Arc<Tally>, &'static [&'static str])>,
}

impl Mounted for OnDevice {
    fn fs(&self) -> &dyn WritableFileSystem {
        self.inner.fs()
    }

    fn check(&self) -> Result<(), String> {
        self.ubi.check_invariants()?;
        self.inner.check()
    }

    fn activity(&self) -> Vec<(&'static str, u64)> {
        let mut counts = self.inner.activity();
        let tally = self.tally.iter();
        counts.extend(tally.flat_map(|(tally, listed)| tally.named(&self.ubi, listed)));
        counts
    }
}

impl OnUbi {
    fn volume(ubi: &UbiDevice) -> Result<Arc<dyn LebDevice>, String> {
        Ok(Arc::new(ubi.volume(VolumeId::new(0)).map_err(text)?))
    }
}

impl OnUbi {
    /// Returns what can happen on the chip: NOR neither corrects bits nor marks blocks bad.
    fn listed(&self) -> &'static [&'static str] {
        if matches!(self.shape, Shape::Nor | Shape::NorWide) { &RARE[..1] } else { &RARE }
    }
}

impl Stack for OnUbi {
    fn name(&self) -> (&'static str, &'static str) {
        (self.fs, self.name)
    }

    fn rules(&self) -> Rules {
        self.rules
    }

    fn format(&self) -> Result<Chip, String> {
        let chip = Arc::new(self.shape.chip());
        let ubi =
            UbiDevice::open(chip.clone(), &self.shape.layout(), &open_options()).map_err(text)?;
        let new = NewVolume {
            id: Some(VolumeId::new(0)),
            name: VolumeName::new(self.fs).ok_or("a short name")?,
            kind: VolumeKind::Dynamic,
            lebs: self.lebs,
            alignment: 1,
            flags: VolumeFlags::default(),
        };
        ubi.create_volume(&new).map_err(text)?;
        let mounted = (self.mount)(Self::volume(&ubi)?, Access::Write)?;
        mounted.fs().unmount().map_err(text)?;
        drop(mounted);
        ubi.flush().map_err(text)?;
        Ok(chip.snapshot().to_chip())
    }

    fn describe(&self, event: &Recorded) -> String {
        flash::on_ubi(event, &self.shape.layout(), &flash::ubifs_nodes)
    }

    fn mount(&self, chip: &Arc<Chip>, access: Access) -> Result<Box<dyn Mounted>, String> {
        let layout = self.shape.layout();
        if !access.is_write() {
            let ubi = Ubi::attach(chip.clone(), &layout, &AttachOptions::default());
            let volume = ubi.map_err(text)?.volume(VolumeId::new(0)).map_err(text)?;
            return (self.mount)(Arc::new(volume), Access::Read);
        }
        let ubi = UbiDevice::open(chip.clone(), &layout, &open_options()).map_err(text)?;
        let inner = (self.mount)(Self::volume(&ubi)?, Access::Write)?;
        Ok(Box::new(OnDevice { inner, ubi, tally: None }))
    }

    fn mount_with(
        &self,
        chip: &Arc<Chip>,
        access: Access,
        habit: Habit,
    ) -> Result<Box<dyn Mounted>, String> {
        if !access.is_write() || habit == Habit::default() {
            return self.mount(chip, access);
        }
        let mut options = open_options();
        if habit.works_below {
            options.wl_threshold = WL_THRESHOLD;
        }
        let layout = self.shape.layout();
        let ubi = UbiDevice::open(chip.clone(), &layout, &options).map_err(text)?;
        let tally = Arc::new(Tally::default());
        let volume = Self::volume(&ubi)?;
        let below = Below::new(volume, ubi.clone(), chip.clone(), habit, tally.clone());
        let inner = (self.mount)(Arc::new(below), Access::Write)?;
        Ok(Box::new(OnDevice { inner, ubi, tally: Some((tally, self.listed())) }))
    }

    fn rare(&self) -> Vec<&'static str> {
        self.listed().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_base::Leb;
    use eraseblock_vfs_testkit::ModelFs;

    struct Plain(ModelFs);

    impl Mounted for Plain {
        fn fs(&self) -> &dyn WritableFileSystem {
            &self.0
        }

        fn check(&self) -> Result<(), String> {
            Ok(())
        }
    }

    /// Writes a mark into an empty volume, and finds it later.
    #[allow(clippy::needless_pass_by_value)] // the form of a `MountFn`
    fn mark(device: Arc<dyn LebDevice>, access: Access) -> Result<Box<dyn Mounted>, String> {
        let mut first = vec![0; device.min_io() as usize];
        device.read(Leb::new(0), 0, &mut first).map_err(text)?;
        assert_eq!((device.is_read_only(), device.leb_count()), (!access.is_write(), MOST_LEBS));
        match (first[0], access) {
            (0xFF, Access::Write) => {
                first.fill(7);
                device.write(Leb::new(0), 0, &first).map_err(text)?;
            }
            (7, _) => {}
            _ => return Err("no mark".into()),
        }
        Ok(Box::new(Plain(ModelFs::default())))
    }

    /// The data area of a NOR block begins in the middle of a program buffer, so a buffer extends
    /// across a multiple of its size in the LEB: the part that recovery examines there would end
    /// too early.
    #[test]
    fn a_write_is_cut_where_what_a_power_cut_tears_ends() {
        for (shape, buffer) in [(Shape::Nor, 256), (Shape::NorWide, 1024), (Shape::Mini, 512)] {
            let fs = super::super::ubifs(shape);
            let chip = Arc::new(fs.format().unwrap());
            let ubi = UbiDevice::open(chip.clone(), &shape.layout(), &open_options()).unwrap();
            let volume = OnUbi::volume(&ubi).unwrap();
            assert_eq!(volume.max_write(), buffer);
            volume.unmap(Leb::new(20)).unwrap();
            volume.map(Leb::new(20)).unwrap();
            let before = chip.counters().page_programs;
            volume.write(Leb::new(20), 0, &vec![1; 4 * buffer as usize]).unwrap();
            let halves = if shape == Shape::Mini { 1 } else { 2 };
            assert_eq!(chip.counters().page_programs - before, 4 * halves, "{shape:?}");
        }
    }

    #[test]
    fn the_volume_is_there_again() {
        for shape in Shape::ALL {
            let target = OnUbi {
                fs: "mark",
                name: shape.name(),
                shape,
                lebs: MOST_LEBS,
                rules: Rules::UBIFS,
                mount: Arc::new(mark),
            };
            let chip = Arc::new(target.format().unwrap());
            let mounted = target.mount(&chip, Access::Write).unwrap();
            mounted.check().unwrap();
            drop(mounted);
            target.mount(&chip, Access::Read).unwrap();
        }
    }
}
