//! `eraseblock build`: a whole UBI image from a layout file (docs/layout-file.md).

mod content;
mod layout;
mod preflight;

use crate::builder::Summary;
use crate::failure::{Context, Failure};
use crate::output::Output;
use crate::session::Session;
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
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `build`.
#[derive(Debug, clap::Args)]
pub(crate) struct BuildArgs {
    /// The layout file
    layout: PathBuf,
    /// The image; `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Only check whether everything fits
    #[arg(long)]
    preflight: bool,
}

/// What was built, as JSON.
#[derive(Debug, Serialize)]
struct Report {
    image_seq: u32,
    image_size: u64,
    blocks: u32,
    volumes: Vec<VolumeReport>,
}

#[derive(Debug, Serialize)]
struct VolumeReport {
    id: u32,
    name: String,
    reserved_lebs: u32,
    content_lebs: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ubifs: Option<Summary>,
}

/// Builds the image.
pub(crate) fn run(args: &BuildArgs, session: &mut Session) -> Result<(), Failure> {
    let shown = args.layout.display();
    let text = std::fs::read_to_string(&args.layout).context(&shown)?;
    session.reads(&args.layout);
    let layout = Layout::parse(&text).context(&shown)?;
    let folder = args.layout.parent().unwrap_or(Path::new(""));
    let mut build = Build::new(&layout, folder, &args.output, session).context(&shown)?;
    let mut plan = preflight::check(&build, &layout).context(&shown)?;
    if args.preflight && plan.is_open() {
        build.settle(session).context(&shown)?;
        plan = preflight::check(&build, &layout).context(&shown)?;
    }
    session.remark(&plan.line());
    if args.preflight {
        return if session.options.json { session.json(&plan) } else { Ok(()) };
    }
    let output = session.create(&args.output)?;
    let report = build.write(&output, session)?;
    output.commit()?;
    session.remark(&report.line(&args.output));
    if session.options.json { session.json(&report) } else { Ok(()) }
}

/// A volume with its place and content.
#[derive(Debug)]
struct Volume {
    spec: VolumeSpec,
    usable_leb_size: u32,
    content: VolumeContent,
}

/// Everything that is known before the first byte is written.
#[derive(Debug)]
struct Build {
    header_layout: HeaderLayout,
    flash: crate::args::flash::Flash,
    erase_count: EraseCount,
    image_seq: Option<u32>,
    fastmap: Option<FastmapPlace>,
    volumes: Vec<Volume>,
}

impl Build {
    fn new(
        layout: &Layout,
        folder: &Path,
        output: &Path,
        session: &mut Session,
    ) -> Result<Self, Failure> {
        let flash = layout.flash.to_args()?.resolve(layout.flash.blocks)?;
        let geometry = &flash.geometry;
        let header_layout = HeaderLayout::new(
            geometry.peb_size(),
            geometry.min_io(),
            geometry.subpage(),
            layout.image.vid_offset,
        )?;
        let erase_count = EraseCount::new(layout.image.ec).ok_or_else(|| {
            Failure::new(format!("[image]: `ec` is {}, too large", layout.image.ec))
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
            let volume = build.volume(table, id, limit, folder, output, session)?;
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
        session: &mut Session,
    ) -> Result<Volume, Failure> {
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
        let content = VolumeContent::prepare(table, &shape, folder, output, session)
            .map_err(|failure| failure.context(format_args!("volume `{}`", table.name)))?;
        Ok(Volume { spec, usable_leb_size: usable, content })
    }

    /// Makes the bounds of all contents exact.
    fn settle(&mut self, session: &Session) -> Result<(), Failure> {
        for volume in &mut self.volumes {
            let settled = volume.content.settle(session);
            let name = &volume.spec.name;
            settled.map_err(|failure| failure.context(format_args!("volume `{name}`")))?;
        }
        Ok(())
    }

    /// Writes contents first, then everything else around them.
    fn write(&mut self, output: &Output, session: &mut Session) -> Result<Report, Failure> {
        let first = self.fastmap.map_or(Some(LAYOUT_LEBS), |flash| {
            first_volume_peb(&self.header_layout, flash.peb_count)
        });
        let first = first.unwrap_or(LAYOUT_LEBS);
        let mut file = ImageFile::new(&output.file, self.header_layout, first);
        let mut reports = Vec::new();
        for volume in &mut self.volumes {
            let name = volume.spec.name.to_string();
            let written = volume
                .content
                .write(&mut file, volume.usable_leb_size, session)
                .map_err(|failure| failure.context(format_args!("volume `{name}`")))?;
            volume.spec.content = written.size;
            reports.push(VolumeReport {
                id: volume.spec.id.get(),
                name: text::name(volume.spec.name.as_bytes()),
                reserved_lebs: 0,
                content_lebs: written.lebs,
                ubifs: written.summary,
            });
        }
        let volumes: Vec<VolumeSpec> = self.volumes.iter().map(|v| v.spec.clone()).collect();
        let image_seq = self.image_seq.unwrap_or_else(|| file.image_seq(&volumes));
        let (layout, erase_count) = (self.header_layout, self.erase_count);
        let spec =
            ImageSpec { layout, erase_count, image_seq, volumes, version: VERSION, end_marks: 0 };
        let plan = match self.fastmap {
            Some(flash) => ImagePlan::with_fastmap(spec, flash)?,
            None => ImagePlan::new(spec)?,
        };
        plan.finish_in_place(&output.file)?;
        for (index, report) in reports.iter_mut().enumerate() {
            report.reserved_lebs = plan.reserved_lebs(index).unwrap_or(0);
        }
        let (image_size, blocks) = (plan.size(), plan.peb_count());
        Ok(Report { image_seq, image_size, blocks, volumes: reports })
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

fn volume_spec(table: &VolumeTable, id: VolumeId) -> Result<VolumeSpec, Failure> {
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

impl Report {
    fn line(&self, path: &Path) -> String {
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
