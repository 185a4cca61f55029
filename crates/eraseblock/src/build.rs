//! A whole UBI image from a layout file (docs/layout-file.md).

mod content;
mod layout;
mod preflight;
mod squashfs;

use crate::builder::Summary;
use crate::error::{Context, Error};
use crate::medium::Flash;
use crate::observe::{Notes, Observer};
use crate::text;
use content::{ImageFile, VolumeContent};
use eraseblock_base::VolumeId;
use eraseblock_base::size::format_size;
use eraseblock_ubi::image::{
    ContentSize, FastmapPlace, ImagePlan, ImageSpec, VERSION, VolumeSize, VolumeSpec,
    first_volume_peb,
};
use eraseblock_ubi_format::constants::LAYOUT_LEBS;
use eraseblock_ubi_format::{EraseCount, HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use layout::{Layout, VolumeFlag, VolumeTable, VolumeType};
pub use preflight::Sum;
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Reads the layout file at `path`.
///
/// Paths in it are relative to its folder. What it names is read by [`Build::write_to`]. Fails if
/// the file cannot be read or is no valid layout.
pub fn build(path: impl AsRef<Path>) -> Result<Build, Error> {
    Build::open(path.as_ref())
}

/// A layout file that was read, and what it makes.
#[derive(Debug)]
pub struct Build {
    path: PathBuf,
    layout: Layout,
}

impl Build {
    /// Reads the layout file at `path`; errors name line and column.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).context(path.display())?;
        let layout = Layout::parse(&text).context(path.display())?;
        Ok(Self { path: path.to_owned(), layout })
    }

    /// Reads a layout from text; paths in it are relative to `folder`. Fails with the line and the
    /// key if the text is no valid layout.
    pub fn from_text(text: &str, folder: impl AsRef<Path>) -> Result<Self, Error> {
        let path = folder.as_ref().join("layout");
        Ok(Self { layout: Layout::parse(text)?, path })
    }

    /// Makes the image at `path`. A file that is there is replaced when the new one is complete; if
    /// that fails, it stays as it was.
    ///
    /// Content that `path` would overwrite is an error, as is content that does not fit.
    pub fn write_to(&self, path: impl AsRef<Path>) -> Result<BuildReport, Error> {
        let path = path.as_ref();
        let mut notes = Reads { notes: Notes::default(), files: Vec::new() };
        let result = self.write_observed(path, &mut notes);
        result.map_err(|error| error.with_findings(notes.notes.findings))
    }

    fn write_observed(&self, path: &Path, notes: &mut Reads) -> Result<BuildReport, Error> {
        notes.reads(&self.path);
        let mut prepared = self.prepare(path, notes)?;
        prepared.check()?;
        notes.writes(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .context(path.display())?;
        let report = prepared.write(file.as_file(), notes)?;
        file.persist(path).map_err(|error| error.error).context(path.display())?;
        Ok(report)
    }

    /// Opens what the layout names, for an image that will be at `output`. Fails if something that
    /// the layout names is missing or does not fit the flash.
    pub fn prepare(
        &self,
        output: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Prepared<'_>, Error> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let image = Draft::new(&self.layout, folder, output, observer);
        Ok(Prepared { build: self, image: image.context(self.path.display())? })
    }
}

/// The files that a build reads: none of them can be the image.
struct Reads {
    notes: Notes,
    files: Vec<PathBuf>,
}

impl Observer for Reads {
    fn report(&mut self, findings: eraseblock_base::Findings) {
        self.notes.report(findings);
    }

    fn keep_still(&mut self, path: &Path) -> Result<(), Error> {
        self.reads(path);
        self.notes.keep_still(path)
    }

    fn reads(&mut self, path: &Path) {
        self.files.extend(path.canonicalize());
    }

    fn writes(&mut self, path: &Path) -> Result<(), Error> {
        let same = path.canonicalize().is_ok_and(|path| self.files.contains(&path));
        if same {
            return Err(Error::new(format!(
                "{}: cannot be the output: it is read",
                path.display()
            ))
            .hint("nothing was changed; write to another file"));
        }
        Ok(())
    }
}

/// A layout whose contents are open.
#[derive(Debug)]
pub struct Prepared<'a> {
    build: &'a Build,
    image: Draft,
}

impl Prepared<'_> {
    /// Adds the volumes up; fails when they cannot fit (spec: ubi 11.3).
    pub fn check(&self) -> Result<Sum, Error> {
        preflight::check(&self.image, &self.build.layout).context(self.build.path.display())
    }

    /// Makes the bounds of all contents exact: builds them and throws them away. Fails if a content
    /// cannot be built.
    pub fn settle(&mut self, observer: &dyn Observer) -> Result<(), Error> {
        self.image.settle(observer).context(self.build.path.display())
    }

    /// Writes the image into an empty file. Fails if a content does not fit or cannot be read, or
    /// if the file cannot be written.
    pub fn write(
        &mut self,
        file: &File,
        observer: &mut dyn Observer,
    ) -> Result<BuildReport, Error> {
        self.image.write(file, observer)
    }
}

/// What was built.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct BuildReport {
    /// The number of the image.
    pub image_seq: u32,
    /// Its length in bytes.
    pub image_size: u64,
    /// Its eraseblocks.
    pub blocks: u32,
    /// The volumes, in the order of the layout.
    pub volumes: Vec<BuiltVolume>,
}

/// A volume of a new image.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct BuiltVolume {
    /// Its number.
    pub id: u32,
    /// Its name, with bytes that are not text as escapes.
    pub name: String,
    /// LEBs that it has.
    pub reserved_lebs: u32,
    /// LEBs of them with content.
    pub content_lebs: u32,
    /// The file system in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ubifs: Option<Summary>,
}

/// A volume with its place and content.
#[derive(Debug)]
struct Volume {
    spec: VolumeSpec,
    usable_leb_size: u32,
    content: VolumeContent,
    /// The volume has at least so many LEBs if the layout states no size.
    least_lebs: u32,
}

/// Everything that is known before the first byte is written.
#[derive(Debug)]
struct Draft {
    header_layout: HeaderLayout,
    flash: Flash,
    erase_count: EraseCount,
    image_seq: Option<u32>,
    fastmap: Option<FastmapPlace>,
    volumes: Vec<Volume>,
}

impl Draft {
    fn new(
        layout: &Layout,
        folder: &Path,
        output: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let flash = layout.flash.choice()?.resolve(layout.flash.blocks)?;
        let geometry = &flash.geometry;
        let header_layout = HeaderLayout::new(
            geometry.peb_size(),
            geometry.min_io(),
            geometry.subpage(),
            layout.image.vid_offset,
        )?;
        let erase_count = EraseCount::new(layout.image.ec).ok_or_else(|| {
            Error::new(format!("[image]: `ec` is {}, too large", layout.image.ec))
        })?;
        let fastmap = layout.image.fastmap.then(|| preflight::fastmap(&header_layout, &flash));
        let mut build = Self {
            header_layout,
            flash,
            fastmap: fastmap.transpose()?,
            erase_count,
            image_seq: layout.image.image_seq,
            volumes: Vec::new(),
        };
        let ids = assign_ids(&layout.volumes);
        let limit = preflight::volume_lebs(&build);
        for (table, id) in layout.volumes.iter().zip(ids) {
            let volume = build.volume(table, id, limit, folder, output, observer)?;
            build.volumes.push(volume);
        }
        Ok(build)
    }

    fn volume(
        &self,
        table: &VolumeTable,
        id: VolumeId,
        limit: Option<u32>,
        folder: &Path,
        output: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Volume, Error> {
        let layout = &self.header_layout;
        if table.alignment == 0 || table.alignment > layout.leb_size() {
            return Err(table.refuse(&format!("alignment is {}", table.alignment)));
        }
        let usable = layout.leb_size() - layout.leb_size() % table.alignment;
        let spec = volume_spec(table, id)?;
        let own_lebs = table.size.map(|size| size.div_ceil(u64::from(usable)));
        let own_lebs = own_lebs.map(|lebs| u32::try_from(lebs).unwrap_or(u32::MAX));
        // A volume that grows may take the whole flash, one of its own size no more than that.
        let grows = table.flags.contains(&VolumeFlag::Autoresize);
        let max_lebs = if grows { limit.or(own_lebs) } else { own_lebs.or(limit) };
        let shape = content::Shape { usable, min_io: layout.min_io(), max_lebs, fixed: own_lebs };
        let content = VolumeContent::prepare(table, &shape, folder, output, observer)
            .map_err(|failure| failure.context(format_args!("volume `{}`", table.name)))?;
        // A UBIFS smaller than its least volume can be mounted only where the volume grows.
        let fits_content = own_lebs.is_none() && !grows;
        let least_lebs = if fits_content { content.least_volume() } else { 0 };
        Ok(Volume { spec, usable_leb_size: usable, content, least_lebs })
    }

    /// Makes the bounds of all contents exact.
    fn settle(&mut self, observer: &dyn Observer) -> Result<(), Error> {
        for volume in &mut self.volumes {
            let settled = volume.content.settle(observer);
            let name = &volume.spec.name;
            settled.map_err(|failure| failure.context(format_args!("volume `{name}`")))?;
        }
        Ok(())
    }

    /// Writes contents first, then everything else around them.
    fn write(&mut self, file: &File, observer: &dyn Observer) -> Result<BuildReport, Error> {
        let first = self.fastmap.map_or(Some(LAYOUT_LEBS), |flash| {
            first_volume_peb(&self.header_layout, flash.peb_count)
        });
        let first = first.unwrap_or(LAYOUT_LEBS);
        let mut image = ImageFile::new(file, self.header_layout, first);
        let mut reports = Vec::new();
        for volume in &mut self.volumes {
            let name = volume.spec.name.to_string();
            let written = volume
                .content
                .write(&mut image, volume.usable_leb_size, observer)
                .map_err(|failure| failure.context(format_args!("volume `{name}`")))?;
            volume.spec.content = written.size;
            if written.lebs < volume.least_lebs {
                volume.spec.size = VolumeSize::Lebs(volume.least_lebs);
            }
            reports.push(BuiltVolume {
                id: volume.spec.id.get(),
                name: text::name(volume.spec.name.as_bytes()),
                reserved_lebs: 0,
                content_lebs: written.lebs,
                ubifs: written.summary,
            });
        }
        let volumes: Vec<VolumeSpec> = self.volumes.iter().map(|v| v.spec.clone()).collect();
        let image_seq = self.image_seq.unwrap_or_else(|| image.image_seq(&volumes));
        let (layout, erase_count) = (self.header_layout, self.erase_count);
        let spec =
            ImageSpec { layout, erase_count, image_seq, volumes, version: VERSION, end_marks: 0 };
        let plan = match self.fastmap {
            Some(flash) => ImagePlan::with_fastmap(spec, flash)?,
            None => ImagePlan::new(spec)?,
        };
        plan.finish_in_place(file)?;
        for (index, report) in reports.iter_mut().enumerate() {
            report.reserved_lebs = plan.reserved_lebs(index).unwrap_or(0);
        }
        let (image_size, blocks) = (plan.size(), plan.peb_count());
        Ok(BuildReport { image_seq, image_size, blocks, volumes: reports })
    }
}

/// The numbers of the volumes: those stated, and the smallest free ones for the others.
fn assign_ids(tables: &[VolumeTable]) -> Vec<VolumeId> {
    let mut taken: Vec<u32> = tables.iter().filter_map(|table| table.id).collect();
    let mut ids = Vec::with_capacity(tables.len());
    for table in tables {
        let id = match table.id {
            Some(id) => id,
            None => (0..u32::MAX).find(|id| !taken.contains(id)).unwrap_or(u32::MAX),
        };
        if table.id.is_none() {
            taken.push(id);
        }
        ids.push(VolumeId::new(id));
    }
    ids
}

fn volume_spec(table: &VolumeTable, id: VolumeId) -> Result<VolumeSpec, Error> {
    let name = VolumeName::new(table.name.as_bytes())
        .ok_or_else(|| table.refuse("the name is empty, too long or has a NUL byte"))?;
    let flag = |flags: VolumeFlags, flag: &VolumeFlag| {
        flags.with(match flag {
            VolumeFlag::Autoresize => VolumeFlags::AUTORESIZE,
            VolumeFlag::SkipCheck => VolumeFlags::SKIP_CHECK,
        })
    };
    Ok(VolumeSpec {
        id,
        name,
        kind: match table.kind {
            VolumeType::Dynamic => VolumeKind::Dynamic,
            VolumeType::Static => VolumeKind::Static,
        },
        alignment: table.alignment,
        size: table.size.map_or(VolumeSize::Content, VolumeSize::Bytes),
        flags: table.flags.iter().fold(VolumeFlags::default(), flag),
        content: ContentSize::Empty,
    })
}

impl BuildReport {
    /// In one line, for an image at `path`.
    pub fn line(&self, path: &Path) -> String {
        let volumes: Vec<String> = self
            .volumes
            .iter()
            .map(|v| {
                let reserved = text::count(u64::from(v.reserved_lebs), "LEB", "LEBs");
                format!("{} {} of {reserved}", v.name, text::grouped(u64::from(v.content_lebs)))
            })
            .collect();
        format!(
            "{}: {}, {} ({})",
            path.display(),
            format_size(self.image_size),
            text::count(u64::from(self.blocks), "eraseblock", "eraseblocks"),
            volumes.join(", ")
        )
    }
}
