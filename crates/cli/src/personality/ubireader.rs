//! `ubireader_extract_images` and `ubireader_extract_files`: the volumes of every UBI in a file, and
//! the files of every UBIFS.

use super::reader::{self, Found, Range};
use crate::args::{size32, size64};
use crate::failure::{Context, Failure};
use crate::session::{Session, say};
use clap::Parser;
use eraseblock::raw::base::{Location, VolumeId};
use eraseblock::raw::tree::extract::{ExtractOptions, Owners};
use eraseblock::raw::ubi::UbiVolume;
use eraseblock::target::image::{self, Image, UbiImage};
use eraseblock::target::peek::{self, Content};
use eraseblock::target::{file_name, filesystem};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Options of both.
#[derive(Debug, clap::Args)]
struct Common {
    /// The image
    #[arg(value_name = "FILEPATH")]
    path: PathBuf,
    /// The folder that everything goes into
    #[arg(short, long = "output-dir", value_name = "OUTPATH", default_value = "ubifs-root")]
    output: PathBuf,
    /// Size of an eraseblock
    #[arg(short, long, value_name = "BLOCK_SIZE", value_parser = size32)]
    peb_size: Option<u32>,
    /// Where the image begins in the file
    #[arg(short, long, value_name = "OFFSET", value_parser = size64)]
    start_offset: Option<u64>,
    /// Where it ends
    #[arg(short = 'n', long, value_name = "OFFSET", value_parser = size64)]
    end_offset: Option<u64>,
    /// Where the search for images begins
    #[arg(short, long, value_name = "OFFSET", value_parser = size64, default_value = "0")]
    guess_offset: u64,
    /// Deliver damaged files and volumes, too, with zeros for what cannot be read
    #[arg(short, long)]
    warn_only_block_read_errors: bool,
    /// Accepted: damaged headers never stop anything here
    #[arg(short, long)]
    ignore_block_header_errors: bool,
    /// Accepted: headers without an image number are never left out
    #[arg(short = 'f', long)]
    u_boot_fix: bool,
    /// Accepted: what is found goes to standard error
    #[arg(short, long)]
    log: bool,
    /// Accepted, as --log
    #[arg(short, long)]
    verbose_log: bool,
}

impl Common {
    fn found(&self, leb: Option<u32>, session: &mut Session) -> Result<Vec<Found>, Failure> {
        let range = Range {
            start: self.start_offset,
            end: self.end_offset,
            search: self.guess_offset,
            peb: self.peb_size,
            leb,
        };
        reader::images(&self.path, &range, session)
    }

    fn nothing(&self, what: &str) -> Failure {
        Failure::new(format!("{}: there is no {what} in it", self.path.display()))
    }
}

/// Takes the volumes of a UBI image out.
#[derive(Debug, Parser)]
#[command(name = "ubireader_extract_images", version)]
pub(super) struct ImagesArgs {
    #[command(flatten)]
    common: Common,
    /// What is taken out: UBIFS (each volume) or UBI (the whole image)
    #[arg(short = 'u', long, value_name = "TYPE", default_value = "UBIFS", ignore_case = true,
          value_parser = ["UBIFS", "UBI"])]
    image_type: String,
}

/// Takes the files of a UBI or UBIFS image out.
#[derive(Debug, Parser)]
#[command(name = "ubireader_extract_files", version)]
pub(super) struct FilesArgs {
    #[command(flatten)]
    common: Common,
    /// Set the owners of the image
    #[arg(short, long)]
    keep_permissions: bool,
    /// Set extended attributes
    #[arg(short = 'x', long)]
    preserve_xattr: bool,
    /// Size of a LEB of a bare UBIFS
    #[arg(short = 'e', long, value_name = "BLOCK_SIZE", value_parser = size32)]
    leb_size: Option<u32>,
    /// Accepted: encrypted content is left out
    #[arg(short = 'K', long, value_name = "KEY")]
    master_key: Option<PathBuf>,
}

/// Names of images, by their numbers: the second one of a number gets its offset, too.
#[derive(Debug, Default)]
struct Numbers(BTreeSet<u32>);

impl Numbers {
    fn name(&mut self, image: &UbiImage) -> String {
        let number = image.attachment().image_seq;
        if self.0.insert(number) { number.to_string() } else { format!("{number}@{}", image.start) }
    }
}

/// Takes volumes out.
pub(super) fn images(args: &ImagesArgs, session: &mut Session) -> Result<(), Failure> {
    let common = &args.common;
    let base = common.path.file_name().ok_or_else(|| common.nothing("UBI"))?;
    let folder = common.output.join(base);
    let (mut numbers, mut written) = (Numbers::default(), 0);
    for found in common.found(None, session)? {
        let Image::Ubi(image) = found.image else { continue };
        image.report(session)?;
        let number = numbers.name(&image);
        std::fs::create_dir_all(&folder).context(folder.display())?;
        if args.image_type.eq_ignore_ascii_case("UBI") {
            copy_image(&image, &folder.join(format!("img-{number}.ubi")), session)?;
            written += 1;
            continue;
        }
        for info in &image.attachment().volumes {
            let name = file_name(&image.attachment().volumes, info.id);
            let mut file = std::ffi::OsString::from(format!("img-{number}_vol-"));
            file.push(name);
            file.push(".ubifs");
            let volume = image.open(info)?;
            if !image::check_static(&volume, session) && !common.warn_only_block_read_errors {
                continue;
            }
            copy_volume(&volume, most(&image), &folder.join(file), session)?;
            written += 1;
        }
    }
    if written == 0 { Err(common.nothing("volume of a UBI")) } else { Ok(()) }
}

/// Returns how many LEBs a volume of the image can have.
fn most(image: &UbiImage) -> u32 {
    image.ubi.device().geometry().peb_count()
}

/// Writes a volume up to its last mapped LEB; a UBIFS up to the end that its superblock names, as if
/// erased, unless that is more than the `most` LEBs that the image can hold. Programs that go on with this file take
/// no UBIFS that is shorter than that.
fn copy_volume(
    volume: &UbiVolume,
    most: u32,
    path: &Path,
    session: &Session,
) -> Result<(), Failure> {
    let mut output = session.create_named(path)?;
    let copied = io::copy(&mut volume.mapped_reader(), &mut output.file).context(path.display())?;
    if let Content::Ubifs(superblock) = peek::content(volume)
        && superblock.leb_cnt <= most
    {
        let end = u64::from(superblock.leb_cnt) * u64::from(superblock.leb_size);
        let mut erased = io::repeat(0xff).take(end.saturating_sub(copied));
        io::copy(&mut erased, &mut output.file).context(path.display())?;
    }
    output.commit()
}

/// The eraseblocks of an image, one after the other.
fn copy_image(image: &UbiImage, path: &Path, session: &Session) -> Result<(), Failure> {
    let device = image.ubi.device();
    let geometry = *device.geometry();
    let mut output = session.create_named(path)?;
    let mut block = vec![0; geometry.peb_size() as usize];
    for peb in 0..geometry.peb_count() {
        let at = u64::from(peb) * u64::from(geometry.peb_size());
        device.read(at, &mut block).context(path.display())?;
        output.file.write_all(&block).context(path.display())?;
    }
    output.commit()
}

/// Takes files out.
pub(super) fn files(args: &FilesArgs, session: &mut Session) -> Result<(), Failure> {
    let common = &args.common;
    if args.master_key.is_some() {
        say("warning: nothing is decrypted: encrypted files are left out");
    }
    let found = common.found(args.leb_size, session)?;
    let bare = found.iter().filter(|found| matches!(found.image, Image::Ubifs(_))).count();
    let (mut numbers, mut written) = (Numbers::default(), 0);
    for Found { offset, image } in found {
        match image {
            Image::Ubi(image) => {
                image.report(session)?;
                let folder = common.output.join(numbers.name(&image));
                written += args.volumes(&image, &folder, session)?;
            }
            Image::Ubifs(image) => {
                let opened = filesystem::open(image.device, None, session)?;
                let dest = reader::folder(&common.output, offset, bare > 1);
                args.extract(opened, &dest, session)?;
                written += 1;
            }
            Image::Jffs2(_) | Image::Yaffs(_) | Image::Read(_) => {}
        }
    }
    if written == 0 { Err(common.nothing("UBIFS that can be read")) } else { Ok(()) }
}

impl FilesArgs {
    /// Every volume with a file system; one that cannot be read does not stop the others.
    fn volumes(
        &self,
        image: &UbiImage,
        folder: &Path,
        session: &mut Session,
    ) -> Result<u64, Failure> {
        let mut written = 0;
        for info in &image.attachment().volumes {
            let volume = image.open(info)?;
            if !peek::content(&volume).is_file_system() {
                continue;
            }
            let dest = folder.join(file_name(&image.attachment().volumes, info.id));
            match self.volume(volume, info.id, &dest, session) {
                Ok(()) => written += 1,
                Err(failure) => session.refused(Location::Volume(info.id), failure.message()),
            }
        }
        Ok(written)
    }

    fn volume(
        &self,
        volume: UbiVolume,
        id: VolumeId,
        dest: &Path,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let opened = filesystem::open_volume(volume, Some(id), None, session)?;
        self.extract(opened, dest, session)
    }

    fn extract(
        &self,
        opened: filesystem::Opened,
        dest: &Path,
        session: &mut Session,
    ) -> Result<(), Failure> {
        session.lines([format!("Extracting files to: {}", dest.display())])?;
        let options = ExtractOptions::default()
            .force(true)
            .kept(session.inputs().files())
            .owners(if self.keep_permissions { Owners::Keep } else { Owners::Skip })
            .xattrs(self.preserve_xattr)
            .keep_damaged(self.common.warn_only_block_read_errors);
        reader::extract(opened, dest, &options, session)
    }
}
