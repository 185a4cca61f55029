//! `eraseblock extract`: files out of an image, into a folder or a tar archive.

use crate::args::{PastArgs, TargetArgs, path_bytes};
use crate::failure::{Context, Failure};
use crate::filter::Filter;
use crate::session::Session;
use eraseblock::ErrorKind;
use eraseblock::raw::base::size::format_size;
use eraseblock::raw::base::{Location, VolumeId};
use eraseblock::raw::tree::TreeError;
use eraseblock::raw::tree::extract::{ExtractOptions, ExtractReport, Owners, to_dir};
use eraseblock::raw::tree::tar_out::{self, TarOptions};
use eraseblock::raw::ubi::UbiVolume;
use eraseblock::raw::vfs::FileSystem;
use eraseblock::target::filesystem::{self, Opened};
use eraseblock::target::formats::ReadImage;
use eraseblock::target::image::{self, Image, Jffs2Image, UbiImage};
use eraseblock::target::yaffs::YaffsImage;
use eraseblock::target::{Place, file_name, open_file_system, peek};
use eraseblock::text;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// Arguments of `extract`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExtractArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    past: PastArgs,
    /// The folder; made if it does not exist. Several volumes get a folder each in it
    #[arg(required_unless_present = "tar")]
    dest: Option<PathBuf>,
    /// Only these paths and what is below them
    paths: Vec<OsString>,
    /// Write a tar archive instead of a folder; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "dest")]
    tar: Option<PathBuf>,
    /// Only this path and what is below it, with --tar; may be repeated
    #[arg(long, value_name = "PATH")]
    only: Vec<OsString>,
    /// Deliver damaged files, too, with zeros for what cannot be read
    #[arg(long)]
    keep_damaged: bool,
    /// Extract into a folder that holds something, and replace what is in the way; replace FILE
    #[arg(short, long)]
    force: bool,
    /// Set the owners of the image, root or not
    #[arg(long, conflicts_with = "no_same_owner")]
    same_owner: bool,
    /// Do not set the owners of the image, root or not
    #[arg(long)]
    no_same_owner: bool,
    /// Do not set extended attributes
    #[arg(long)]
    no_xattrs: bool,
}

/// What was extracted, as JSON.
#[derive(Debug, Default, Serialize)]
struct Summary {
    volumes: Vec<VolumeSummary>,
}

/// One volume of it.
#[derive(Debug, Default, Serialize)]
struct VolumeSummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    dest: String,
    files: u64,
    directories: u64,
    symlinks: u64,
    specials: u64,
    hard_links: u64,
    bytes: u64,
    left_out: u64,
    damaged: u64,
}

/// Extracts.
pub(crate) fn run(args: &ExtractArgs, session: &mut Session) -> Result<(), Failure> {
    let mut summary = Summary::default();
    match (&args.tar, &args.dest) {
        (Some(tar), _) => summary.volumes.push(args.to_tar(tar, session)?),
        (None, Some(dest)) => args.to_folder(dest, session, &mut summary)?,
        (None, None) => return Err(Failure::usage("where to?")),
    }
    if session.options.json && args.tar.as_deref() != Some(Path::new("-")) {
        return session.json(&summary);
    }
    for volume in &summary.volumes {
        session.remark(&volume.line());
    }
    Ok(())
}

impl ExtractArgs {
    fn options(&self, session: &Session) -> ExtractOptions {
        let owners = match (self.same_owner, self.no_same_owner) {
            (true, _) => Owners::Keep,
            (_, true) => Owners::Skip,
            _ => Owners::IfRoot,
        };
        ExtractOptions::default()
            .force(self.force)
            .kept(session.inputs().files())
            .owners(owners)
            .xattrs(!self.no_xattrs)
            .keep_damaged(self.keep_damaged)
    }

    fn paths(&self) -> Vec<&[u8]> {
        self.paths.iter().chain(&self.only).map(path_bytes).collect()
    }

    fn to_folder(
        &self,
        dest: &Path,
        session: &mut Session,
        summary: &mut Summary,
    ) -> Result<(), Failure> {
        if self.past.as_of.is_some() {
            let opened = open_file_system(&self.past.of(&self.target), session)?;
            summary.volumes.push(self.files(opened, dest, session)?);
            return Ok(());
        }
        let place = Place::parse(&self.target.target)?;
        session.keep_still(&place.path)?;
        let image = match image::open(&place, &self.target.shape.shape(), session)? {
            Image::Ubifs(image) => {
                place.refuse_volume()?;
                let opened = filesystem::open(image.device, None, session)?;
                summary.volumes.push(self.files(opened, dest, session)?);
                return Ok(());
            }
            Image::Jffs2(Jffs2Image { opened, .. })
            | Image::Yaffs(YaffsImage { opened, .. })
            | Image::Read(ReadImage { opened, .. }) => {
                place.refuse_volume()?;
                summary.volumes.push(self.files(opened, dest, session)?);
                return Ok(());
            }
            Image::Ubi(image) => image,
        };
        image.report(session)?;
        if let Some(name) = &place.volume {
            let volume = image.named_volume(name)?;
            summary.volumes.push(self.volume(volume, None, dest, session)?);
            return Ok(());
        }
        if let [only] = image.attachment().volumes.as_slice() {
            let volume = image.open(only)?;
            if peek::content(&volume).is_file_system() {
                summary.volumes.push(self.volume(volume, None, dest, session)?);
                return Ok(());
            }
        }
        self.all_volumes(&image, dest, session, summary)
    }

    /// One file system as an archive.
    fn to_tar(&self, path: &Path, session: &mut Session) -> Result<VolumeSummary, Failure> {
        let opened = open_file_system(&self.past.of(&self.target), session)?;
        let filter = Filter::new(opened.fs(), &self.paths())?;
        let options = TarOptions {
            xattrs: !self.no_xattrs,
            keep_damaged: self.keep_damaged,
            ..TarOptions::default()
        };
        let top = filter.root();
        let bar = session.counter("extract");
        let report = if path == Path::new("-") {
            session.take_out()?;
            let mut out = bar.wrap_write(&mut session.out);
            tar_out::write(&filter, top, &mut out, &options)?
        } else {
            let output = session.create_new(path, self.force)?;
            let out = BufWriter::with_capacity(1 << 20, &output.file);
            let mut out = bar.wrap_write(out);
            let report =
                tar_out::write(&filter, top, &mut out, &options).context(path.display())?;
            drop(out);
            output.commit()?;
            report
        };
        bar.finish_and_clear();
        opened.finish(session);
        let summary = VolumeSummary::of(&report, path);
        session.report(report.findings);
        Ok(summary)
    }

    /// Every volume under its own name in `dest`; one that fails does not stop the others.
    fn all_volumes(
        &self,
        image: &UbiImage,
        dest: &Path,
        session: &mut Session,
        summary: &mut Summary,
    ) -> Result<(), Failure> {
        if image.attachment().volumes.is_empty() {
            return Err(image.choose("nothing to extract").into());
        }
        std::fs::create_dir_all(dest).context(dest.display())?;
        if !self.force && std::fs::read_dir(dest).context(dest.display())?.next().is_some() {
            return Err(Failure::new(format!("{}: the folder is not empty", dest.display()))
                .hint("--force extracts into it and replaces what is in the way"));
        }
        for info in &image.attachment().volumes {
            let volume = image.open(info)?;
            let below = dest.join(file_name(&image.attachment().volumes, info.id));
            match self.volume(volume, Some(info.id), &below, session) {
                Ok(volume) => summary.volumes.push(volume),
                // The next volume would not find more space.
                Err(failure) if failure.kind() == ErrorKind::HostFull => return Err(failure),
                Err(failure) => session.refused(Location::Volume(info.id), failure.message()),
            }
        }
        if summary.volumes.is_empty() {
            return Err(Failure::new("no volume could be extracted"));
        }
        Ok(())
    }

    fn volume(
        &self,
        volume: UbiVolume,
        id: Option<VolumeId>,
        dest: &Path,
        session: &mut Session,
    ) -> Result<VolumeSummary, Failure> {
        let name = text::name(volume.info().name.as_bytes());
        let summary = if peek::content(&volume).is_file_system() {
            let opened = filesystem::open_volume(volume, id, None, session)?;
            self.files(opened, dest, session)?
        } else {
            self.raw(&volume, dest, session)?
        };
        Ok(VolumeSummary { volume: Some(name), ..summary })
    }

    fn files(
        &self,
        opened: Opened,
        dest: &Path,
        session: &mut Session,
    ) -> Result<VolumeSummary, Failure> {
        let filter = Filter::new(opened.fs(), &self.paths())?;
        let bar = session.counter("extract");
        let options = self.options(session);
        let report = to_dir(&filter, filter.root(), dest, &options, &|done| {
            bar.set_position(done.bytes);
        });
        bar.finish_and_clear();
        let report = report.map_err(|error| explain(error).context(dest.display()))?;
        opened.finish(session);
        let summary = VolumeSummary::of(&report, dest);
        session.report(report.findings);
        Ok(summary)
    }

    /// A volume without a file system, as the file it is.
    fn raw(
        &self,
        volume: &UbiVolume,
        dest: &Path,
        session: &mut Session,
    ) -> Result<VolumeSummary, Failure> {
        let path = raw_path(dest);
        if !image::check_static(volume, session) && !self.keep_damaged {
            return Err(Failure::new("the volume is damaged").hint("--keep-damaged delivers it"));
        }
        let mut output = session.create_new(&path, self.force)?;
        let bytes = io::copy(&mut volume.mapped_reader(), &mut output.file);
        let bytes = bytes.context(path.display())?;
        output.commit()?;
        let dest = path.display().to_string();
        Ok(VolumeSummary { dest, files: 1, bytes, ..VolumeSummary::default() })
    }
}

/// A refusal of [`to_dir`] with its next step.
pub(crate) fn explain(error: TreeError) -> Failure {
    let is_occupied = matches!(error, TreeError::DestinationNotEmpty { .. });
    let failure = Failure::from(error);
    if is_occupied {
        return failure.hint("--force extracts into it and replaces what is in the way");
    }
    failure
}

/// Returns the path for the raw content of a volume: next to the path of its folder, or inside it.
fn raw_path(dest: &Path) -> PathBuf {
    if dest.is_dir() {
        return dest.join("volume.img");
    }
    let mut path = dest.as_os_str().to_owned();
    path.push(".img");
    path.into()
}

impl VolumeSummary {
    fn of(report: &ExtractReport, dest: &Path) -> Self {
        Self {
            volume: None,
            dest: dest.display().to_string(),
            files: report.files,
            directories: report.directories,
            symlinks: report.symlinks,
            specials: report.specials,
            hard_links: report.hard_links,
            bytes: report.bytes,
            left_out: report.left_out,
            damaged: report.damaged,
        }
    }

    fn line(&self) -> String {
        let mut parts = vec![text::count(self.files, "file", "files")];
        let others = [
            (self.directories, "directory", "directories"),
            (self.symlinks, "link", "links"),
            (self.specials, "special file", "special files"),
            (self.hard_links, "further name", "further names"),
        ];
        for (count, one, many) in others {
            if count > 0 {
                parts.push(text::count(count, one, many));
            }
        }
        parts.push(format_size(self.bytes));
        for (count, word) in [(self.left_out, "left out"), (self.damaged, "damaged")] {
            if count > 0 {
                parts.push(format!("{} {word}", text::grouped(count)));
            }
        }
        let from = self.volume.as_ref().map(|name| format!("{name} -> ")).unwrap_or_default();
        format!("{from}{}: {}", self.dest, parts.join(", "))
    }
}
