//! File systems on a partition of a simulated chip, and what their steps cost the chip.

use anyhow::{Context, Result, ensure};
use eraseblock_base::{ByteOrder, VolumeId};
use eraseblock_jffs2::{Jffs2Rw, RwOptions as Jffs2Options};
use eraseblock_mtd::Mtd;
use eraseblock_mtd::partition::{Partition, Placed};
use eraseblock_nandsim::{Chip, ChipConfig, Counters};
use eraseblock_squashfs::Squashfs;
use eraseblock_ubi::attach::AttachOptions;
use eraseblock_ubi::{NewVolume, OpenOptions, Ubi, UbiDevice};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_ubifs_format::Compression;
use eraseblock_vfs::{FileSystem, WritableFileSystem};
use eraseblock_yaffs::{
    DataEcc, Layout, OpenOptions as YaffsOpen, RwOptions as YaffsOptions, TagsPlace, Version,
    YaffsRw,
};
use std::fs::File;
use std::ops::Sub;
use std::path::Path;
use std::sync::Arc;

/// The only volume.
const VOLUME: VolumeId = VolumeId::new(0);

/// A file system and its options.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum System {
    Jffs2,
    /// Without summaries, as Linux of 2008 was by default.
    Jffs2Plain,
    Yaffs2,
    Ubifs,
    UbifsNoz,
    Squashfs,
}

impl System {
    pub(super) const ALL: [Self; 6] =
        [Self::Jffs2, Self::Jffs2Plain, Self::Yaffs2, Self::Ubifs, Self::UbifsNoz, Self::Squashfs];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Jffs2 => "jffs2",
            Self::Jffs2Plain => "jffs2 without summaries",
            Self::Yaffs2 => "yaffs2",
            Self::Ubifs => "ubifs",
            Self::UbifsNoz => "ubifs without compression",
            Self::Squashfs => "squashfs on UBI",
        }
    }

    pub(super) const fn is_on_ubi(self) -> bool {
        matches!(self, Self::Ubifs | Self::UbifsNoz | Self::Squashfs)
    }
}

/// Operations of a chip, and the time they take on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ops {
    pub(super) reads: u64,
    pub(super) programs: u64,
    pub(super) erases: u64,
    pub(super) ns: u64,
}

impl Ops {
    fn of(counters: &Counters) -> Self {
        Self {
            reads: counters.page_reads,
            programs: counters.page_programs,
            erases: counters.erases,
            ns: counters.virtual_ns,
        }
    }
}

impl Sub for Ops {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            reads: self.reads - other.reads,
            programs: self.programs - other.programs,
            erases: self.erases - other.erases,
            ns: self.ns - other.ns,
        }
    }
}

/// The first blocks of a chip.
#[derive(Debug)]
pub(super) struct Flash {
    chip: Arc<Chip>,
    part: Arc<dyn Mtd>,
    pub(super) layout: HeaderLayout,
    /// Blocks that UBI reserves for those that go bad.
    reserve: u32,
}

impl Flash {
    /// Returns an erased partition of `blocks` blocks on a new chip.
    pub(super) fn new(config: ChipConfig, blocks: u32, reserve: u32) -> Result<Self> {
        let chip = Arc::new(Chip::new(config));
        let whole = *chip.geometry();
        let size = u64::from(blocks) * u64::from(whole.peb_size());
        let place = Placed { name: "part".to_owned(), offset: 0, size, read_only: false };
        let part = Arc::new(Partition::new(chip.clone(), &place)?);
        let layout = HeaderLayout::new(whole.peb_size(), whole.min_io(), whole.subpage(), None)?;
        Ok(Self { chip, part, layout, reserve })
    }

    /// Returns the operations so far.
    pub(super) fn ops(&self) -> Ops {
        Ops::of(&self.chip.counters())
    }

    pub(super) fn blocks(&self) -> u32 {
        self.part.geometry().peb_count()
    }

    /// Puts the pages of a dump on the chip.
    pub(super) fn import(&self, image: &Path) -> Result<()> {
        let mut file = File::open(image).with_context(|| image.display().to_string())?;
        self.chip.import(&mut file, false)?;
        Ok(())
    }

    /// Reads the first bytes of the out-of-band area of each block of the chip, as a driver does that
    /// looks for bad blocks.
    pub(super) fn read_markers(&self) -> Result<()> {
        let geometry = *self.chip.geometry();
        let mut oob = vec![0; geometry.oob_size() as usize];
        for peb in geometry.pebs() {
            let at = u64::from(peb.get()) * u64::from(geometry.peb_size());
            self.chip.read_oob(at, 0, &mut oob)?;
        }
        Ok(())
    }

    /// Attaches UBI.
    pub(super) fn attach(&self) -> Result<UbiDevice> {
        let options = OpenOptions { max_bad_blocks: Some(self.reserve), ..OpenOptions::default() };
        Ok(UbiDevice::open(self.part.clone(), &self.layout, &options)?)
    }

    /// Attaches UBI, and creates its volume over everything that is left if it has none.
    pub(super) fn attach_volume(&self) -> Result<UbiDevice> {
        let ubi = self.attach()?;
        if ubi.volumes().is_empty() {
            let lebs = ubi.available_lebs();
            ensure!(lebs > 0, "UBI leaves no block for a volume");
            ubi.create_volume(&NewVolume {
                id: Some(VOLUME),
                name: VolumeName::new("data").context("a name")?,
                kind: VolumeKind::Dynamic,
                lebs,
                alignment: 1,
                flags: VolumeFlags::default(),
            })?;
        }
        Ok(ubi)
    }

    /// Writes an image into the volume; returns false if it does not fit.
    pub(super) fn write_volume(&self, image: &[u8]) -> Result<bool> {
        let ubi = self.attach_volume()?;
        let lebs = ubi.volumes().first().map_or(0, |volume| volume.reserved_lebs);
        let fits = image.len() as u64 <= u64::from(lebs) * u64::from(self.layout.leb_size());
        if fits {
            ubi.update_volume(VOLUME, image.len() as u64, &mut &*image)?;
        }
        ubi.flush()?;
        ubi.detach()?;
        Ok(fits)
    }

    /// Mounts a file system, on an erased partition a new one.
    pub(super) fn mount(&self, system: System) -> Result<Mounted> {
        let (fs, ubi) = match system {
            System::Jffs2 | System::Jffs2Plain => {
                let summary = system == System::Jffs2;
                let options = Jffs2Options { summary, ..Jffs2Options::default() };
                (Fs::Write(Box::new(Jffs2Rw::mount(self.part.clone(), &options)?.0)), None)
            }
            System::Yaffs2 => {
                let layout = Some(self.yaffs_layout());
                let open = YaffsOpen { layout, ..YaffsOpen::default() };
                let options = YaffsOptions { open, ..YaffsOptions::default() };
                (Fs::Write(Box::new(YaffsRw::mount(self.part.clone(), &options)?.0)), None)
            }
            System::Ubifs | System::UbifsNoz => {
                let ubi = self.attach_volume()?;
                let compression =
                    if system == System::Ubifs { Compression::Lzo } else { Compression::None };
                let options =
                    MountOptions { compression: Some(compression), ..MountOptions::default() };
                let volume = Arc::new(ubi.volume(VOLUME)?);
                (Fs::Write(Box::new(UbifsMount::mount(volume, options)?.0)), Some(ubi))
            }
            System::Squashfs => {
                let options = AttachOptions { whole_device: true, ..AttachOptions::default() };
                let ubi = Ubi::attach(self.part.clone(), &self.layout, &options)?;
                (Fs::Read(Box::new(Squashfs::open(Arc::new(ubi.volume(VOLUME)?))?)), None)
            }
        };
        Ok(Mounted { fs, ubi })
    }

    /// The tags follow the bad-block marker, as Linux places them; the chip corrects.
    fn yaffs_layout(&self) -> Layout {
        let geometry = self.part.geometry();
        Layout {
            version: Version::Yaffs2,
            page: geometry.min_io(),
            spare: geometry.oob_size(),
            pages_per_block: geometry.pages_per_peb(),
            order: ByteOrder::Little,
            place: TagsPlace::spare(2, true),
            tags_ecc: true,
            data_ecc: DataEcc::None,
        }
    }
}

#[derive(Debug)]
enum Fs {
    Write(Box<dyn WritableFileSystem>),
    Read(Box<dyn FileSystem>),
}

/// A mounted file system, and the device that it keeps attached.
#[derive(Debug)]
pub(super) struct Mounted {
    fs: Fs,
    ubi: Option<UbiDevice>,
}

impl Mounted {
    pub(super) fn reader(&self) -> &dyn FileSystem {
        match &self.fs {
            Fs::Write(fs) => fs.as_ref(),
            Fs::Read(fs) => fs.as_ref(),
        }
    }

    /// Returns it for writing; `None` if it cannot be written to.
    pub(super) fn writer(&self) -> Option<&dyn WritableFileSystem> {
        match &self.fs {
            Fs::Write(fs) => Some(fs.as_ref()),
            Fs::Read(_) => None,
        }
    }

    /// Unmounts, and detaches UBI.
    pub(super) fn end(self) -> Result<()> {
        if let Fs::Write(fs) = &self.fs {
            fs.unmount()?;
        }
        drop(self.fs);
        if let Some(ubi) = self.ubi {
            ubi.flush()?;
            ubi.detach()?;
        }
        Ok(())
    }

    /// Returns the bytes in use as df counts them.
    pub(super) fn used(&self) -> Result<u64> {
        let sizes = self.reader().stat_fs()?;
        Ok((sizes.blocks - sizes.blocks_free) * u64::from(sizes.block_size))
    }
}
