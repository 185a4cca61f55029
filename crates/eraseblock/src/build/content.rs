//! What goes into the volumes, written to where the image will have it.

use super::layout::{Content, VolumeTable};
use super::squashfs;
use crate::builder::ubifs_choices::UbifsOptions;
use crate::builder::{self, Summary, VolumeShape};
use crate::error::{Context, Error};
use crate::observe::Observer;
use crate::source;
use eraseblock_base::Leb;
use eraseblock_ubi::image::{ContentSize, VolumeSpec};
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubifs::mkfs::{LebSink, MkfsOptions};
use eraseblock_vfs::SourceTree;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The content of a volume, checked but not read.
#[derive(Debug)]
pub(super) enum VolumeContent {
    /// Nothing.
    Empty,
    /// A file of so many bytes.
    File(PathBuf, u64),
    /// A file of so many bytes that was made for the volume.
    Made(NamedTempFile, u64),
    /// A tree that becomes a UBIFS of so many LEBs, at least and at most.
    Ubifs(Box<Ubifs>),
}

/// A tree with the options of its file system.
#[derive(Debug)]
pub(super) struct Ubifs {
    tree: SourceTree,
    options: MkfsOptions,
    least: u32,
    most: u32,
    /// LEBs of the volume, if the layout states its size.
    fixed: Option<u32>,
    /// LEBs of the smallest volume on which Linux mounts it.
    least_volume: u32,
}

fn too_small(needed: u32, fixed: u32) -> Error {
    Error::new(format!("the content needs at least {needed} LEBs, the volume has {fixed}"))
        .hint("a larger `size`, or another `compressor`")
}

/// The volume a content is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Usable bytes of a LEB.
    pub(super) usable: u32,
    /// The smallest unit that can be written.
    pub(super) min_io: u32,
    /// Most LEBs the volume may ever have, if that is known.
    pub(super) max_lebs: Option<u32>,
    /// The LEBs the volume begins with, if the layout states its size.
    pub(super) fixed: Option<u32>,
}

/// What became of a content.
#[derive(Debug)]
pub(super) struct Written {
    /// LEBs in the image.
    pub(super) lebs: u32,
    /// The same for the image's plan.
    pub(super) size: ContentSize,
    /// What a file system came to.
    pub(super) summary: Option<Summary>,
}

impl VolumeContent {
    /// Opens what the layout names, and checks that it can fit.
    pub(super) fn prepare(
        table: &VolumeTable,
        shape: &Shape,
        folder: &Path,
        output: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        match table.content()? {
            Content::Empty => Ok(Self::Empty),
            Content::File(path) => {
                let path = folder.join(path);
                observer.reads(&path);
                let meta = std::fs::metadata(&path).context(path.display())?;
                if !meta.is_file() || meta.len() == 0 {
                    let path = path.display();
                    return Err(Error::new(format!("{path}: not a file with content")));
                }
                Ok(Self::File(path, meta.len()))
            }
            Content::Squashfs(path, options) => {
                let path = folder.join(path);
                observer.reads(&path);
                observer.writes(output)?;
                let made = squashfs::make(&path, &options, output)?;
                let size = made.as_file().metadata()?.len();
                Ok(Self::Made(made, size))
            }
            Content::Ubifs(path, mut choices) => {
                choices.source.devtable = choices.source.devtable.map(|path| folder.join(path));
                choices.source.selinux = choices.source.selinux.map(|path| folder.join(path));
                let path = folder.join(path);
                Self::prepare_ubifs(&path, &choices, shape, output, observer)
            }
        }
    }

    fn prepare_ubifs(
        path: &Path,
        choices: &UbifsOptions,
        shape: &Shape,
        output: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let max_lebs = choices.max_lebs.or(shape.max_lebs).ok_or_else(|| {
            Error::new("how far the file system may grow is not known")
                .hint("give the flash `blocks`, the volume a `size`, or the content `max-lebs`")
        })?;
        let volume = VolumeShape { leb_size: shape.usable, min_io: shape.min_io, max_lebs };
        let tree = source::load(path, &choices.adjustments(), output, observer)?;
        let options = builder::options(volume, choices);
        let bounds = builder::preflight(&tree, &options)?;
        let (least, most) = (bounds.image_lebs_least, bounds.image_lebs_most);
        if let Some(lebs) = shape.fixed.filter(|lebs| *lebs < least) {
            return Err(too_small(least, lebs));
        }
        let (fixed, least_volume) = (shape.fixed, bounds.layout.least_leb_cnt());
        Ok(Self::Ubifs(Box::new(Ubifs { tree, options, least, most, fixed, least_volume })))
    }

    /// Returns the LEBs of the smallest volume on which Linux takes the content.
    pub(super) fn least_volume(&self) -> u32 {
        match self {
            Self::Ubifs(ubifs) => ubifs.least_volume,
            Self::Empty | Self::File(..) | Self::Made(..) => 0,
        }
    }

    /// Returns whether only building it says that a file system fits its volume.
    pub(super) fn is_open(&self) -> bool {
        let Self::Ubifs(ubifs) = self else { return false };
        let limit = ubifs.fixed.unwrap_or(u32::MAX).min(ubifs.options.layout.max_leb_cnt);
        ubifs.least < ubifs.most && ubifs.most > limit
    }

    /// Makes the bounds exact.
    pub(super) fn settle(&mut self, observer: &dyn Observer) -> Result<(), Error> {
        let Self::Ubifs(ubifs) = self else { return Ok(()) };
        let lebs = builder::exact_lebs(&ubifs.tree, &ubifs.options, observer)?;
        if let Some(fixed) = ubifs.fixed.filter(|fixed| *fixed < lebs) {
            return Err(too_small(lebs, fixed));
        }
        (ubifs.least, ubifs.most) = (lebs, lebs);
        Ok(())
    }

    /// LEBs it needs at least and at most.
    pub(super) fn bounds(&self, usable: u32) -> (u32, u32) {
        match self {
            Self::Empty => (0, 0),
            Self::File(_, size) | Self::Made(_, size) => {
                let lebs = u32::try_from(size.div_ceil(u64::from(usable))).unwrap_or(u32::MAX);
                (lebs, lebs)
            }
            Self::Ubifs(ubifs) => (ubifs.least, ubifs.most),
        }
    }

    /// Writes it after the previous volumes.
    pub(super) fn write(
        &self,
        file: &mut ImageFile<'_>,
        usable: u32,
        observer: &dyn Observer,
    ) -> Result<Written, Error> {
        match self {
            Self::Empty => Ok(Written { lebs: 0, size: ContentSize::Empty, summary: None }),
            Self::File(path, size) => file.add(path, *size, usable),
            Self::Made(made, size) => file.add(made.path(), *size, usable),
            Self::Ubifs(ubifs) => {
                let mut sink = VolumeSink { file, written: BTreeSet::new(), usable };
                let report = builder::build(&ubifs.tree, &ubifs.options, &mut sink, observer)?;
                file.next_peb += report.leb_cnt;
                let summary = Some(Summary::of(&report));
                let size = ContentSize::Lebs(report.leb_cnt);
                Ok(Written { lebs: report.leb_cnt, size, summary })
            }
        }
    }
}

/// The image, filled volume by volume in the order in which the plan will lay them out.
#[derive(Debug)]
pub(super) struct ImageFile<'a> {
    file: &'a File,
    layout: HeaderLayout,
    next_peb: u32,
    hash: Sha256,
}

impl<'a> ImageFile<'a> {
    /// An image without volumes, the first of which is to begin in `next_peb`.
    pub(super) fn new(file: &'a File, layout: HeaderLayout, next_peb: u32) -> Self {
        Self { file, layout, next_peb, hash: Sha256::new() }
    }

    /// A number made from the volumes and all contents.
    pub(super) fn image_seq(&self, volumes: &[VolumeSpec]) -> u32 {
        source::image_seq(self.hash.clone(), volumes)
    }

    fn data_offset(&self, leb: u32) -> u64 {
        let peb = u64::from(self.next_peb) + u64::from(leb);
        peb * u64::from(self.layout.peb_size()) + u64::from(self.layout.data_offset())
    }

    /// Writes one LEB of the current volume, filled up with erased bytes.
    fn put(&mut self, leb: u32, data: &[u8], usable: u32) -> io::Result<()> {
        let offset = self.data_offset(leb);
        self.file.write_all_at(data, offset)?;
        let rest = (usable as usize).saturating_sub(data.len());
        self.file.write_all_at(&vec![0xFF; rest], offset + data.len() as u64)
    }

    /// Writes a file as the content of the next volume.
    fn add(&mut self, path: &Path, size: u64, usable: u32) -> Result<Written, Error> {
        let lebs = self.copy(path, size, usable).context(path.display())?;
        Ok(Written { lebs, size: ContentSize::Bytes(size), summary: None })
    }

    /// Copies a file, which must have `size` bytes; returns its LEBs.
    fn copy(&mut self, path: &Path, size: u64, usable: u32) -> Result<u32, Error> {
        let mut source = File::open(path)?;
        let mut buffer = vec![0; usable as usize];
        let (mut leb, mut left) = (0, size);
        while left > 0 {
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            source.read_exact(&mut buffer[..len])?;
            self.hash.update(&buffer[..len]);
            self.put(leb, &buffer[..len], usable)?;
            left -= len as u64;
            leb += 1;
        }
        self.next_peb += leb;
        Ok(leb)
    }
}

/// Takes the LEBs of a file system straight into the image.
struct VolumeSink<'a, 'b> {
    file: &'a mut ImageFile<'b>,
    written: BTreeSet<Leb>,
    usable: u32,
}

impl LebSink for VolumeSink<'_, '_> {
    fn write_leb(&mut self, leb: Leb, data: &[u8]) -> io::Result<()> {
        self.file.hash.update(leb.get().to_be_bytes());
        self.file.hash.update(data);
        self.written.insert(leb);
        self.file.put(leb.get(), data, self.usable)
    }

    fn finish(&mut self, leb_cnt: u32) -> io::Result<()> {
        for leb in 0..leb_cnt {
            if !self.written.contains(&Leb::new(leb)) {
                self.file.put(leb, &[], self.usable)?;
            }
        }
        Ok(())
    }
}
