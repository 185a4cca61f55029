#![doc = include_str!("../README.md")]

use binwalk_ng::extractors::{ExtractionResult, Extractor, ExtractorType};
use binwalk_ng::formats::{jffs2, ubi, yaffs};
use binwalk_ng::signatures::{CONFIDENCE_HIGH, Signature, SignatureError, SignatureResult};
use binwalk_ng::{Binwalk, BinwalkBuilder};
use eraseblock::raw::base::Location;
use eraseblock::raw::ubifs_format::decode::{self, Limits};
use eraseblock::raw::yaffs::{Version, locate};
use eraseblock::raw::{jffs2_format, ubi_format};
use eraseblock::target::survey::{Kind, Part, survey};
use eraseblock::{ExtractOptions, FileSystem, Image, Owners, ReadAt};
use std::fs::File;
use std::io;
use std::path::Path;

/// The names of the signatures of binwalk-ng that [`signatures`] replaces.
pub const REPLACED: [&str; 4] = ["ubi", "ubifs", "jffs2", "yaffs"];

/// Largest node of a UBIFS that a superblock is looked for in, in bytes.
const NODE: u32 = 1 << 20;

/// Where the mode of an object is in its header.
const MODE_AT: usize = 268;

/// Returns a builder with the signatures of this crate instead of those that they replace.
///
/// ```
/// let binwalk = eraseblock_binwalk::builder().build()?;
/// assert!(binwalk.scan(&[0; 4096]).is_empty());
/// # Ok::<(), binwalk_ng::BuildError>(())
/// ```
pub fn builder() -> BinwalkBuilder {
    let replaced = REPLACED.map(str::to_owned).to_vec();
    Binwalk::builder().excludes(replaced).signatures(signatures())
}

/// Returns the signatures, for a builder that excludes those in [`REPLACED`]: at one place only the
/// first signature counts.
#[must_use]
pub fn signatures() -> Vec<Signature> {
    macro_rules! signature {
        ($name:literal, $description:literal, $magic:expr, $found:expr) => {
            Signature {
                name: $name.to_owned(),
                short: false,
                magic: $magic,
                magic_offset: 0,
                description: $description.to_owned(),
                always_display: true,
                parser: |data, offset| result($found(data, offset)),
                extractor: Some(Extractor {
                    utility: ExtractorType::Internal(|data, offset, folder| {
                        extracted(data, $found(data, offset), folder)
                    }),
                    ..Extractor::default()
                }),
            }
        };
    }
    vec![
        signature!("eraseblock-ubi", "UBI image", ubi::ubi_magic(), found_ubi),
        signature!("eraseblock-ubifs", "UBIFS image", ubi::ubifs_magic(), found_ubifs),
        signature!("eraseblock-jffs2", "JFFS2 image", jffs2::jffs2_magic(), found_jffs2),
        signature!("eraseblock-yaffs", "YAFFS image", yaffs::yaffs_magic(), found_yaffs),
    ]
}

/// The image whose first erase-counter header this is.
fn found_ubi(data: &[u8], offset: usize) -> Option<Part> {
    ubi_format::decode::decode_ec(&data[offset..], Location::Whole).ok()?;
    found(data, offset, |kind| matches!(kind, Kind::Ubi { .. }))
}

/// The image whose superblock this is.
fn found_ubifs(data: &[u8], offset: usize) -> Option<Part> {
    let node = decode::node(&data[offset..], &Limits::unknown(NODE), Location::Whole).ok()?;
    node.superblock().ok()?;
    found(data, offset, |kind| matches!(kind, Kind::Ubifs { .. }))
}

/// The image whose first node this is.
fn found_jffs2(data: &[u8], offset: usize) -> Option<Part> {
    jffs2_format::scan::header_order(&data[offset..])?;
    found(data, offset, |kind| matches!(kind, Kind::Jffs2 { .. }))
}

/// The image in which this is the header of an object. It may begin before that.
fn found_yaffs(data: &[u8], offset: usize) -> Option<Part> {
    let mode: [u8; 4] = data.get(offset.checked_add(MODE_AT)?..)?.first_chunk().copied()?;
    let is_little = data[offset] != 0;
    let mode = if is_little { u32::from_le_bytes(mode) } else { u32::from_be_bytes(mode) };
    if mode > u32::from(u16::MAX) {
        return None;
    }
    let found = locate(&Rest(data), u64::try_from(offset).ok()?, 0).ok()??;
    let version = if found.layout.version == Version::Yaffs1 { 1 } else { 2 };
    Some(Part { offset: found.start, length: found.length, kind: Kind::Yaffs { version } })
}

/// Returns the image that begins here. The checksum of its first header is right: most matches of a
/// magic number are left before the rest of the file is looked at.
fn found(data: &[u8], offset: usize, is_meant: fn(Kind) -> bool) -> Option<Part> {
    let survey = survey(&Rest(&data[offset..])).ok()?;
    let part = *survey.parts.first()?;
    let is_here = part.offset == 0 && is_meant(part.kind);
    is_here.then_some(Part { offset: u64::try_from(offset).ok()?, ..part })
}

fn result(found: Option<Part>) -> Result<SignatureResult, SignatureError> {
    let part = found.ok_or(SignatureError)?;
    Ok(SignatureResult {
        offset: usize::try_from(part.offset).map_err(|_| SignatureError)?,
        size: usize::try_from(part.length).map_err(|_| SignatureError)?,
        description: format!("{}, {} bytes", part.describe(), part.length),
        confidence: CONFIDENCE_HIGH,
        ..SignatureResult::default()
    })
}

/// Extracts an image into a folder; without a folder, only says whether it could.
fn extracted(data: &[u8], found: Option<Part>, folder: Option<&Path>) -> ExtractionResult {
    let image = found.and_then(|part| {
        let (start, length) =
            (usize::try_from(part.offset).ok()?, usize::try_from(part.length).ok()?);
        let bytes = data.get(start..start.checked_add(length)?)?;
        Some((length, Image::from_bytes(bytes).ok()?))
    });
    let Some((length, image)) = image else { return ExtractionResult::default() };
    let success = folder.is_none_or(|folder| all_files(&image, folder).is_ok());
    ExtractionResult { size: Some(length), success, ..ExtractionResult::default() }
}

/// Copies the files of all volumes, each below its name; the content of a volume without a file
/// system becomes a file.
fn all_files(image: &Image, folder: &Path) -> eraseblock::Result<()> {
    if image.kind() != eraseblock::Kind::Ubi {
        return files(&image.file_system()?, folder);
    }
    for volume in image.volumes() {
        let place = folder.join(volume.file_name());
        match volume.file_system() {
            Ok(fs) => files(&fs, &place)?,
            Err(_) => {
                io::copy(&mut volume.content()?, &mut File::create(place)?)?;
            }
        }
    }
    Ok(())
}

fn files(fs: &FileSystem, folder: &Path) -> eraseblock::Result<()> {
    let options = ExtractOptions::default().force(true).owners(Owners::Skip).xattrs(false);
    fs.extract_to(folder, &options)?;
    Ok(())
}

/// The rest of a file in memory.
#[derive(Debug)]
struct Rest<'a>(&'a [u8]);

impl ReadAt for Rest<'_> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let end = start.and_then(|start| start.checked_add(buf.len()));
        let bytes = start.zip(end).and_then(|(start, end)| self.0.get(start..end));
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
