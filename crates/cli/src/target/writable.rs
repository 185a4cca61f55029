//! A file system opened for changing: on an image file or on a simulated chip.

use super::Place;
use crate::args::TargetArgs;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock_jffs2::{Jffs2, Jffs2Rw, OpenOptions, RwOptions, Source};
use eraseblock_mtd::{ImageShape, Mtd, WritableImage};
use eraseblock_nandsim::Chip;
use eraseblock_vfs::{FsError, WritableFileSystem};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// What the first bytes of a simulated chip's file are.
const CHIP_MAGIC: &[u8] = b"EBCHIP\r\n";

/// How to open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mode {
    /// Nothing is to be changed.
    pub read_only: bool,
    /// Bytes the flash has behind an image that is shorter.
    pub size: Option<u64>,
}

/// A mounted file system.
#[derive(Debug)]
pub(crate) struct Writable {
    fs: Jffs2Rw,
    device: Arc<dyn Mtd>,
    read_only: bool,
}

impl Writable {
    /// The file system.
    pub(crate) fn fs(&self) -> &dyn WritableFileSystem {
        &self.fs
    }

    /// Verifies every structure.
    pub(crate) fn check(&self) -> Result<(), FsError> {
        self.fs.check()
    }

    /// Unmounts and hands over what was found.
    pub(crate) fn close(self, session: &mut Session) -> Result<(), Failure> {
        session.report(self.fs.late_findings());
        if !self.read_only {
            self.fs.unmount()?;
            self.device.sync()?;
        }
        Ok(())
    }
}

/// Opens what the arguments point at.
pub(crate) fn open(
    args: &TargetArgs,
    mode: Mode,
    session: &mut Session,
) -> Result<Writable, Failure> {
    let place = Place::parse(&args.target)?;
    open_path(&place, args, mode, session).context(place.path.display())
}

fn open_path(
    place: &Place,
    args: &TargetArgs,
    mode: Mode,
    session: &mut Session,
) -> Result<Writable, Failure> {
    let mut start = [0; 8];
    let len = File::open(&place.path)?.read(&mut start)?;
    let is_chip = start[..len] == *CHIP_MAGIC;
    let is_jffs2 = matches!(start[..len.min(2)], [0x85, 0x19] | [0x19, 0x85]);
    if let Some(volume) = &place.volume {
        let volume = crate::text::name(volume);
        return Err(Failure::new(format!("there is no volume `{volume}` that can be changed")));
    }
    let device: Arc<dyn Mtd> = match (is_chip, is_jffs2) {
        (true, _) if mode.read_only => Arc::new(Chip::load(&place.path)?),
        (true, _) => Arc::new(Chip::open(&place.path)?),
        (false, true) => Arc::new(image(&place.path, args.shape.sizes.peb, mode)?),
        (false, false) => {
            return Err(Failure::new("holds no file system that can be changed")
                .hint("JFFS2 images and simulated chips with JFFS2 can"));
        }
    };
    let options = RwOptions { read_only: mode.read_only, ..RwOptions::default() };
    let (fs, report) = Jffs2Rw::mount(device.clone(), &options)?;
    session.report(report.findings);
    Ok(Writable { fs, device, read_only: mode.read_only })
}

/// An image file as the flash it is meant for.
fn image(path: &Path, peb: Option<u32>, mode: Mode) -> Result<WritableImage, Failure> {
    let options = OpenOptions { erase_size: peb, ..OpenOptions::default() };
    let (jffs2, _) = Jffs2::open(Source::Image(Arc::new(File::open(path)?)), &options)?;
    let shape = jffs2.info().shape;
    let blocks = mode.size.map(|size| size / u64::from(shape.erase_size));
    let blocks = blocks.map(u32::try_from).transpose();
    let shape = ImageShape {
        start: shape.start,
        peb_size: shape.erase_size,
        min_io: 1,
        subpage: 1,
        peb_count: blocks.map_err(|_| Failure::usage("--size: too large for JFFS2"))?,
    };
    Ok(WritableImage::open(path, &shape)?)
}
