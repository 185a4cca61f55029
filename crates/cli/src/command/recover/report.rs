//! What a recovery was made of: the source, which must not change meanwhile, and how it was read.

use crate::args::TargetArgs;
use crate::command::history::contents::{Algorithm, Hasher};
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::base::{Leb, VolumeId};
use eraseblock::raw::jffs2::Jffs2;
use eraseblock::raw::mtd::LebDevice;
use eraseblock::target::Place;
use eraseblock::target::past::{Medium, Past};
use eraseblock::text;
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// The report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    tool: &'static str,
    version: &'static str,
    command_line: Vec<String>,
    source: Source,
    geometry: Geometry,
    /// What was written.
    #[serde(flatten)]
    summary: super::Summary,
    /// SHA-256 of the list of versions.
    manifest_sha256: String,
}

#[derive(Debug, Serialize)]
struct Source {
    path: String,
    /// What the digests are about: the whole `file`, or the `volume` where the path is a character device.
    digest_of: &'static str,
    size: u64,
    sha256_before: String,
    sha256_after: String,
}

#[derive(Debug, Serialize)]
struct Geometry {
    file_system: &'static str,
    volume: Option<u32>,
    /// Bytes of a LEB, or of an eraseblock of a JFFS2, and how many there are.
    block_size: u32,
    blocks: u32,
    /// Whether places in the image are known.
    has_offsets: bool,
}

/// The source before it was read.
#[derive(Debug)]
pub(super) struct Before {
    path: PathBuf,
    /// Of a file; a volume is read once it is open.
    digest: Option<(u64, String)>,
}

impl Before {
    /// Reads the file that a target names.
    pub(super) fn read(target: &TargetArgs, session: &Session) -> Result<Self, Failure> {
        let Place { path, .. } = Place::parse(&target.target)?;
        let kind = path.metadata().context(path.display())?.file_type();
        let digest = if kind.is_char_device() { None } else { Some(file(&path, session)?) };
        Ok(Self { path, digest })
    }

    /// Reads the volume, unless the file is enough.
    pub(super) fn or_volume(mut self, past: &Past) -> Self {
        if self.digest.is_none() {
            self.digest = Some(of_medium(&past.medium));
        }
        self
    }

    /// Reads the source again, and describes the recovery.
    pub(super) fn report(
        self,
        past: &Past,
        summary: super::Summary,
        manifest_sha256: String,
        session: &Session,
    ) -> Result<Report, Failure> {
        let is_volume = self.path.metadata()?.file_type().is_char_device();
        let after = if is_volume { of_medium(&past.medium) } else { file(&self.path, session)? };
        let (size, sha256_before) = self.digest.unwrap_or_default();
        let (_, arguments) = crate::start()?;
        let (block_size, blocks) = past.medium.blocks();
        Ok(Report {
            tool: "eraseblock",
            version: env!("CARGO_PKG_VERSION"),
            command_line: arguments.iter().map(shown).collect(),
            source: Source {
                path: text::name(self.path.as_os_str().as_bytes()),
                digest_of: if is_volume { "volume" } else { "file" },
                size,
                sha256_before,
                sha256_after: after.1,
            },
            geometry: Geometry {
                file_system: past.medium.name(),
                volume: past.volume.map(VolumeId::get),
                block_size,
                blocks,
                has_offsets: past.has_offsets(),
            },
            summary,
            manifest_sha256,
        })
    }
}

impl Report {
    /// Fails if the source is not what it was.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Source { path, sha256_before, sha256_after, .. } = &self.source;
        if sha256_before == sha256_after {
            return Ok(());
        }
        Err(Failure::new(format!("{path}: changed while it was read: report.json has its digests"))
            .hint("a copy of it does not change"))
    }
}

fn shown(argument: &OsString) -> String {
    text::name(argument.as_bytes())
}

/// Returns the length of a file, and its SHA-256.
fn file(path: &Path, session: &Session) -> Result<(u64, String), Failure> {
    let mut file = File::open(path).context(path.display())?;
    let mut hasher = Hasher::new(&[Algorithm::Sha256]);
    let bar = session.progress(file.metadata().context(path.display())?.len(), "source");
    let mut buffer = vec![0; CHUNK];
    let mut size = 0;
    loop {
        let len = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context(path.display()),
        };
        hasher.update(buffer.get(..len).unwrap_or_default());
        size += len as u64;
        bar.inc(len as u64);
    }
    bar.finish_and_clear();
    Ok((size, hasher.finish().sha256.unwrap_or_default()))
}

/// The same of what a character device shows: a volume, or the eraseblocks of a JFFS2.
fn of_medium(medium: &Medium) -> (u64, String) {
    match medium {
        Medium::Ubifs(device) => volume(device.as_ref()),
        Medium::Jffs2(nodes) => flash(nodes.fs()),
    }
}

/// The same of a JFFS2; an eraseblock that cannot be read counts as zeros.
fn flash(fs: &Jffs2) -> (u64, String) {
    let mut hasher = Hasher::new(&[Algorithm::Sha256]);
    let mut size = 0;
    fs.visit_blocks(&mut |block| {
        hasher.update(block);
        size += block.len() as u64;
    });
    (size, hasher.finish().sha256.unwrap_or_default())
}

/// The same of a volume; a LEB that cannot be read counts as zeros.
fn volume(device: &dyn LebDevice) -> (u64, String) {
    let mut hasher = Hasher::new(&[Algorithm::Sha256]);
    let mut bytes = vec![0; device.leb_size() as usize];
    for leb in 0..device.leb_count() {
        let is_good = device.read(Leb::new(leb), 0, &mut bytes).is_ok_and(|it| !it.uncorrectable);
        if !is_good {
            bytes.fill(0);
        }
        hasher.update(&bytes);
    }
    let size = u64::from(device.leb_size()) * u64::from(device.leb_count());
    (size, hasher.finish().sha256.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock::raw::mtd::LebImage;

    #[test]
    fn the_digest_of_a_volume_is_that_of_its_bytes() {
        let image = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..8192_u32).map(|at| at.to_le_bytes()[0] ^ 0x5A).collect();
        std::fs::write(image.path(), &bytes).unwrap();
        let device = LebImage::open(image.path(), 2048, 512, 4).unwrap();
        let session = Session::new(crate::session::GlobalOptions::default());
        let expected = file(image.path(), &session).unwrap();
        assert_eq!(expected.0, 8192);
        assert_eq!(volume(&device), expected);
    }
}
