//! `eraseblock scan`: many images, a line of JSON for each one.
//!
//! # Invariants
//! 1. Every image has exactly one line: one that cannot be opened, too.
//! 2. A line does not depend on other images, nor on the order of them.

use crate::failure::{Context as _, Failure};
use crate::session::Session;
use eraseblock::documents::listing::kind_word;
use eraseblock::raw::base::Finding;
use eraseblock::raw::ubi_format::VolumeKind;
use eraseblock::raw::vfs::FileKind;
use eraseblock::{FileSystem, Volume, text};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Arguments of `scan`.
#[derive(Debug, clap::Args)]
pub(crate) struct ScanArgs {
    /// The images
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    /// Leave out the files: only volumes and findings
    #[arg(long)]
    no_files: bool,
    /// Compute no digest of files that are longer
    #[arg(long, value_name = "SIZE", value_parser = crate::args::size64, default_value = "1GiB")]
    longest: u64,
}

/// The line of an image.
#[derive(Debug, Default, Serialize)]
struct Row {
    image: String,
    status: &'static str,
    error: Option<String>,
    kind: Option<String>,
    volumes: Vec<VolumeRow>,
    files: Vec<FileRow>,
    findings: Vec<Finding>,
}

/// A volume of UBI.
#[derive(Debug, Serialize)]
struct VolumeRow {
    id: u32,
    name: String,
    file_name: String,
    kind: VolumeKind,
    size: u64,
    /// Why there is no file system to read.
    error: Option<String>,
}

/// A file.
#[derive(Debug, Serialize)]
struct FileRow {
    volume: Option<String>,
    volume_id: Option<u32>,
    path: String,
    kind: &'static str,
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: i64,
    size: u64,
    sha256: Option<String>,
    target: Option<String>,
    error: Option<String>,
}

/// Prints the lines.
pub(crate) fn run(args: &ScanArgs, session: &mut Session) -> Result<(), Failure> {
    session.take_out()?;
    for image in &args.images {
        let row = scan(image, args).unwrap_or_else(|error| Row {
            status: "refused",
            error: Some(error.to_string()),
            ..Row::default()
        });
        let row = Row { image: image.display().to_string(), ..row };
        serde_json::to_writer(&mut session.out, &row).context("a row")?;
        writeln!(session.out)?;
        session.out.flush()?;
    }
    Ok(())
}

fn scan(path: &Path, args: &ScanArgs) -> eraseblock::Result<Row> {
    let image = eraseblock::open(path)?;
    let mut row = Row {
        status: "read",
        kind: Some(image.kind().name().to_lowercase()),
        findings: image.findings().iter().cloned().collect(),
        ..Row::default()
    };
    for volume in image.volumes() {
        let opened = volume.file_system();
        row.volumes.push(VolumeRow {
            id: volume.id(),
            name: volume.name().into_owned(),
            file_name: text::name(volume.file_name().as_bytes()),
            kind: volume.kind(),
            size: volume.size(),
            error: opened.as_ref().err().map(ToString::to_string),
        });
        if let Ok(fs) = opened {
            row.look(&fs, Some(&volume), args);
        }
    }
    if row.volumes.is_empty() && row.kind.as_deref() != Some("ubi") {
        row.look(&image.file_system()?, None, args);
    }
    Ok(row)
}

impl Row {
    /// Adds the files of a file system, and what is wrong with it.
    fn look(&mut self, fs: &FileSystem, volume: Option<&Volume>, args: &ScanArgs) {
        self.findings.extend(fs.findings().iter().cloned());
        if !args.no_files {
            let walked = fs.walk("/", &mut |path, entry| {
                self.files.push(FileRow::of(fs, path, entry.kind(), volume, args));
                Ok(())
            });
            self.error = walked.err().map(|error| error.to_string());
        }
        self.findings.extend(fs.late_findings().iter().cloned());
    }
}

impl FileRow {
    fn of(
        fs: &FileSystem,
        path: &[u8],
        kind: FileKind,
        volume: Option<&Volume>,
        args: &ScanArgs,
    ) -> Self {
        let mut row = Self {
            volume: volume.map(|volume| volume.name().into_owned()),
            volume_id: volume.map(Volume::id),
            path: text::name(path),
            kind: kind_word(kind),
            mode: 0,
            uid: 0,
            gid: 0,
            mtime: 0,
            size: 0,
            sha256: None,
            target: None,
            error: None,
        };
        row.error = row.fill(fs, path, kind, args).err().map(|error| error.to_string());
        row
    }

    fn fill(
        &mut self,
        fs: &FileSystem,
        path: &[u8],
        kind: FileKind,
        args: &ScanArgs,
    ) -> eraseblock::Result<()> {
        let found = fs.symlink_metadata(path)?;
        let attr = found.attr();
        (self.mode, self.uid, self.gid) = (found.permissions(), found.uid(), found.gid());
        (self.mtime, self.size) = (attr.mtime.seconds, found.len());
        match kind {
            FileKind::Symlink => self.target = Some(text::name(&fs.read_link(path)?)),
            FileKind::Regular if self.size <= args.longest => {
                let mut sum = Sha256::new();
                io::copy(&mut fs.open(path)?, &mut sum).map_err(eraseblock::Error::from)?;
                self.sha256 = Some(format!("{:x}", sum.finalize()));
            }
            _ => {}
        }
        Ok(())
    }
}
