//! ubinize(8): a UBI image from an ini file (spec: ubi 19.1).

use super::refuse_device;
use crate::args::size32;
use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::Parser;
use eraseblock::raw::ubi::image::ini::{VolumeSection, parse_volumes};
use eraseblock::raw::ubi::image::{
    ContentSize, ImagePlan, ImageSpec, LebSource, ReaderSource, VolumeSize, VolumeSpec,
};
use eraseblock::raw::ubi_format::{EraseCount, HeaderLayout};
use eraseblock::source;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek};
use std::path::{Path, PathBuf};

/// Generate UBI images. The volumes are defined in the ini file, the flash by the options.
#[derive(Debug, Parser)]
#[command(name = "ubinize", version, infer_long_args = true, args_override_self = true)]
pub(super) struct UbinizeArgs {
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Size of a physical eraseblock, in bytes, KiB or MiB (mandatory)
    #[arg(short, long, value_name = "SIZE", value_parser = size32)]
    peb_size: Option<u32>,
    /// Smallest unit that can be programmed (mandatory)
    #[arg(short, long, value_name = "SIZE", value_parser = size32)]
    min_io_size: Option<u32>,
    /// Unit of UBI headers, as the sub-page of a NAND; as --min-io-size when left out
    #[arg(short, long, value_name = "SIZE", value_parser = size32)]
    sub_page_size: Option<u32>,
    /// Offset of the VID header; the next header unit after the EC header when left out
    #[arg(short = 'O', long, value_name = "OFFSET", value_parser = number32)]
    vid_hdr_offset: Option<u32>,
    /// Erase counter put into the EC headers
    #[arg(short, long, value_name = "NUMBER", default_value = "0", value_parser = number64)]
    erase_counter: u64,
    /// UBI version put into the headers; Linux reads 1 alone
    #[arg(short = 'x', long, value_name = "NUMBER", default_value = "1", value_parser = number8)]
    ubi_ver: u8,
    /// Image sequence number; made from the content when left out
    #[arg(short = 'Q', long, value_name = "NUMBER", value_parser = number32)]
    image_seq: Option<u32>,
    /// OpenWrt: end the image with this many eraseblocks that mark everything after them as unused
    #[arg(short = 'E', long, value_name = "NUMBER", default_value = "0", value_parser = number32)]
    eof_markers: u32,
    /// Say what is done
    #[arg(short, long)]
    verbose: bool,
    /// Ini file with one section for each volume
    #[arg(value_name = "INI-FILE")]
    ini_file: Option<PathBuf>,
}

/// Parses a number in decimal, octal (0 in front) or hexadecimal (0x).
fn number64(text: &str) -> Result<u64, String> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', b'0'..=b'9', ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    u64::from_str_radix(digits, radix).map_err(|_| format!("`{text}` is not a number"))
}

pub(super) fn number32(text: &str) -> Result<u32, String> {
    let number = number64(text)?;
    u32::try_from(number).map_err(|_| format!("{number} does not fit into 32 bits"))
}

fn number8(text: &str) -> Result<u8, String> {
    let number = number64(text)?;
    u8::try_from(number).map_err(|_| format!("{number} does not fit into 8 bits"))
}

/// Makes the image.
pub(super) fn run(args: &UbinizeArgs, session: &mut Session) -> Result<(), Failure> {
    let missing = |what: &str| Failure::new(format!("{what} was not specified (use -h for help)"));
    let ini = args.ini_file.as_ref().ok_or_else(|| missing("input configuration file"))?;
    let layout = args.layout()?;
    let output = args.output.as_ref().ok_or_else(|| missing("output file"))?;
    refuse_device(output)?;
    let erase_count = EraseCount::new(args.erase_counter)
        .ok_or_else(|| Failure::new(format!("bad erase counter {}", args.erase_counter)))?;
    let text = std::fs::read(ini).context(format_args!("cannot load `{}`", ini.display()))?;
    let sections = parse_volumes(&String::from_utf8_lossy(&text)).context(ini.display())?;
    session.reads(ini);
    let mut contents = Contents::open(&sections, session)?;
    sections
        .iter()
        .zip(&contents.sizes)
        .try_for_each(|(section, size)| check_fits(section, *size, layout.leb_size()))?;
    let volumes: Vec<VolumeSpec> =
        sections.iter().zip(&contents.sizes).map(|(s, size)| volume(s, *size)).collect();
    let image_seq = match args.image_seq {
        Some(image_seq) => image_seq,
        None => contents.derive_image_seq(&volumes)?,
    };
    let plan = ImagePlan::new(ImageSpec {
        layout,
        erase_count,
        image_seq,
        volumes,
        version: args.ubi_ver,
        end_marks: args.eof_markers,
    })?;
    if args.verbose {
        session.lines(describe(&plan))?;
    }
    contents.write(&plan, output, session)
}

impl UbinizeArgs {
    fn layout(&self) -> Result<HeaderLayout, Failure> {
        let missing =
            |what: &str| Failure::new(format!("{what} was not specified (use -h for help)"));
        let peb_size = self.peb_size.ok_or_else(|| missing("physical eraseblock size"))?;
        let min_io = self.min_io_size.ok_or_else(|| missing("min. I/O unit size"))?;
        let header_unit = self.sub_page_size.unwrap_or(min_io);
        // The classic tool takes 0 for the default.
        let offset = self.vid_hdr_offset.filter(|offset| *offset != 0);
        Ok(HeaderLayout::new(peb_size, min_io, header_unit, offset)?)
    }
}

/// Refuses an image that is larger than the LEBs of its volume.
fn check_fits(section: &VolumeSection, found: Option<u64>, leb_size: u32) -> Result<(), Failure> {
    let (Some(found), Some(given)) = (found, section.size) else { return Ok(()) };
    let room = given.div_ceil(leb_size.into()).saturating_mul(leb_size.into());
    if found <= room {
        return Ok(());
    }
    let (name, file) = (&section.section, section.image.as_deref().unwrap_or_default());
    let lebs = room / u64::from(leb_size);
    let message = format!(
        "section `{name}`: the image `{file}` has {found} bytes, which is larger than its volume: \
         vol_size {given} gives {lebs} LEBs with {room} bytes"
    );
    Err(Failure::new(message).hint("raise vol_size, or leave it out for a volume of that size"))
}

fn volume(section: &VolumeSection, size: Option<u64>) -> VolumeSpec {
    VolumeSpec {
        id: section.id,
        name: section.name.clone(),
        kind: section.kind,
        alignment: section.alignment,
        size: section.size.map_or(VolumeSize::Content, VolumeSize::UbinizeBytes),
        flags: section.flags,
        content: size.map_or(ContentSize::Empty, ContentSize::Bytes),
    }
}

/// The image files of the sections.
struct Contents {
    files: Vec<Option<File>>,
    sizes: Vec<Option<u64>>,
}

impl Contents {
    fn open(sections: &[VolumeSection], session: &mut Session) -> Result<Self, Failure> {
        let (mut files, mut sizes) = (Vec::new(), Vec::new());
        for section in sections {
            let Some(path) = &section.image else {
                files.push(None);
                sizes.push(None);
                continue;
            };
            let what = format!("section `{}`: `{path}`", section.section);
            let file = File::open(path).context(&what)?;
            session.reads(Path::new(path));
            let size = file.metadata().context(&what)?.len();
            if size == 0 {
                return Err(Failure::new(format!("{what}: the file is empty")));
            }
            files.push(Some(file));
            sizes.push(Some(size));
        }
        Ok(Self { files, sizes })
    }

    /// A number made from the volumes and the contents: equal inputs make equal images.
    fn derive_image_seq(&mut self, volumes: &[VolumeSpec]) -> Result<u32, Failure> {
        let mut hash = Sha256::new();
        for file in self.files.iter_mut().flatten() {
            io::copy(file, &mut hash)?;
            file.rewind()?;
        }
        Ok(source::image_seq(hash, volumes))
    }

    fn write(self, plan: &ImagePlan, path: &Path, session: &Session) -> Result<(), Failure> {
        let output = session.create_named(path)?;
        let mut sources: Vec<ReaderSource<Box<dyn Read>>> = Vec::new();
        for file in self.files {
            let reader: Box<dyn Read> = match file {
                Some(file) => Box::new(BufReader::with_capacity(1 << 20, file)),
                None => Box::new(io::empty()),
            };
            sources.push(ReaderSource::new(reader));
        }
        let mut sources: Vec<&mut dyn LebSource> =
            sources.iter_mut().map(|source| source as &mut dyn LebSource).collect();
        let mut out = BufWriter::with_capacity(1 << 20, &output.file);
        plan.write(&mut out, &mut sources).context(path.display())?;
        drop(out);
        output.commit()
    }
}

/// What `-v` prints.
fn describe(plan: &ImagePlan) -> Vec<String> {
    let ImageSpec { layout, image_seq, volumes, .. } = plan.spec();
    let mut lines = vec![
        format!("ubinize: LEB size:                  {}", layout.leb_size()),
        format!("ubinize: PEB size:                  {}", layout.peb_size()),
        format!("ubinize: min. I/O size:             {}", layout.min_io()),
        format!("ubinize: sub-page size:             {}", layout.header_unit()),
        format!("ubinize: VID offset:                {}", layout.vid_hdr_offset()),
        format!("ubinize: data offset:               {}", layout.data_offset()),
        format!("ubinize: UBI image sequence number: {image_seq}"),
    ];
    for (index, volume) in volumes.iter().enumerate() {
        let lebs = plan.reserved_lebs(index).unwrap_or(0);
        lines.push(format!("ubinize: volume {} `{}`: {lebs} LEBs", volume.id, volume.name));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_c_notation() {
        assert_eq!(number32("0x10"), Ok(16));
        assert_eq!(number32("010"), Ok(8));
        assert_eq!(number32("0"), Ok(0));
        assert!(number32("0x100000000").is_err());
        assert!(number64("-1").is_err());
        assert_eq!(number8("0xff"), Ok(255));
        assert!(number8("256").is_err());
    }
}
