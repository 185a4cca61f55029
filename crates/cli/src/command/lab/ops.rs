//! Recordings of applications: replayed on simulated chips and in images, and converted.

use super::chip::ChipArgs;
use crate::args::path_bytes;
use crate::command::card::presets as card_presets;
use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::ValueEnum;
use eraseblock::raw::card::{self, Card, presets};
use eraseblock::raw::lab::Shape;
use eraseblock::raw::lab::card::OnCard;
use eraseblock::raw::lab::files::{Jffs2Stack, Stack, Yaffs2Stack, ubifs};
use eraseblock::raw::mtd::Access;
use eraseblock::raw::nandsim::Counters;
use eraseblock::raw::recording::{
    Counts, FioExport, FioVersion, FolderReplay, Origin, Pace, Reader, Replay, Step, Writer,
};
use eraseblock::raw::ubifs_format::Compression;
use eraseblock::raw::vfs::WritableFileSystem;
use eraseblock::target::writable::{self, Mode};
use eraseblock::target::{self, Wanted};
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most steps of a recording that are kept in memory.
const MOST_STEPS: usize = 1 << 20;

/// The first bytes of a file that zstd compressed.
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// How strongly a recording is compressed.
const LEVEL: i32 = 9;

/// The steps of a recording.
type Lines = Reader<Box<dyn BufRead>>;

/// A recording that is read.
#[derive(Debug, clap::Args)]
struct RecordingArgs {
    /// The recording: of `mount --record`, of fio (write_iolog), or the output of
    /// `strace -f -ttt -yy -e trace=%file,%desc` or of `blkparse`; `-` is standard input. It may be
    /// compressed by zstd
    recording: PathBuf,
    /// Of fio and strace: the folder that becomes the root; what lies elsewhere is left out
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: OsString,
}

impl RecordingArgs {
    fn open(&self, session: &mut Session) -> Result<Lines, Failure> {
        session.reads(&self.recording);
        let mut input: Box<dyn BufRead> = if self.recording.as_os_str() == "-" {
            Box::new(std::io::stdin().lock())
        } else {
            let file = File::open(&self.recording).context(self.recording.display())?;
            Box::new(BufReader::new(file))
        };
        if input.fill_buf().context(self.recording.display())?.starts_with(&ZSTD) {
            input = Box::new(BufReader::new(zstd::Decoder::with_buffer(input)?));
        }
        Reader::new(input, path_bytes(&self.root)).map_err(|error| self.wrong(&error.to_string()))
    }

    fn wrong(&self, message: &str) -> Failure {
        Failure::new(format!("{}: {message}", self.recording.display()))
    }

    /// Returns all steps.
    fn all(&self, session: &mut Session) -> Result<Vec<Step>, Failure> {
        let mut steps = Vec::new();
        for step in self.open(session)? {
            steps.push(step.map_err(|error| self.wrong(&error.to_string()))?);
            if steps.len() > MOST_STEPS {
                let message = format!("more than {MOST_STEPS} steps, which are kept in memory");
                return Err(self.wrong(&message).hint("use a part of the recording"));
            }
        }
        Ok(steps)
    }
}

/// Returns all steps of a recording.
pub(super) fn steps(
    recording: &Path,
    root: &OsStr,
    session: &mut Session,
) -> Result<Vec<Step>, Failure> {
    RecordingArgs { recording: recording.into(), root: root.into() }.all(session)
}

/// Arguments of `lab replay-ops`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayOpsArgs {
    /// The recording.
    #[command(flatten)]
    recording: RecordingArgs,
    /// The file system on the simulated chip
    #[arg(long, value_name = "NAME", default_value = "ubifs")]
    fs: ReplayFs,
    /// Replay in an image, a chip file or a device, which is changed, instead of on a simulated chip
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["fs", "chip", "part", "peb", "page", "blocks"])]
    on: Option<OsString>,
    /// Replay in UBIFS on flash made of a simulated card of 1 GiB that behaves like this one
    #[arg(long, value_name = "PRESET", value_parser = card_presets(), conflicts_with_all = ["on", "fs", "chip", "part", "peb", "page", "blocks"])]
    card: Option<String>,
    /// Replay in an empty directory of this machine, as the root of a file system that is mounted
    #[arg(long = "in", value_name = "DIR", conflicts_with_all = ["on", "card", "pauses", "fs", "chip", "part", "peb", "page", "blocks"])]
    within: Option<PathBuf>,
    /// Do the background work of a mount in pauses of half a second and more
    #[arg(long)]
    pauses: bool,
    /// Seed of the content
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The chip with a name of its own
    #[arg(long, value_name = "NAME", default_value = "block")]
    chip: String,
    /// A chip of any part or geometry.
    #[command(flatten)]
    other: ChipArgs,
}

/// The file system of a replay.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReplayFs {
    /// UBIFS on UBI.
    Ubifs,
    /// JFFS2.
    Jffs2,
    /// YAFFS2.
    Yaffs2,
}

/// Size of the card of a replay in bytes, and of the eraseblocks made of it.
const CARD: (u64, u32) = (1 << 30, 2 << 20);

/// Arguments of `lab convert-ops`.
#[derive(Debug, clap::Args)]
pub(crate) struct ConvertOpsArgs {
    /// The recording.
    #[command(flatten)]
    recording: RecordingArgs,
    /// Where the result goes; `-` is standard output. If the name ends in `.zst`, it is compressed by
    /// zstd
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What it becomes
    #[arg(long, value_name = "FORM", default_value = "ops")]
    to: Form,
    /// For fio: the folder in which it will use the files
    #[arg(long, value_name = "DIR", default_value = "/")]
    under: OsString,
}

/// The form of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Form {
    /// One operation to a line, as `mount --record` writes them.
    Ops,
    /// For `fio --read_iolog`, version 2: reads, writes and syncs only.
    Fio2,
    /// For `fio --read_iolog`, version 3 (fio 3.31 and later).
    Fio3,
}

/// Replays a recording and prints what it cost.
pub(super) fn replay(args: &ReplayOpsArgs, session: &mut Session) -> Result<(), Failure> {
    let mut reader = args.recording.open(session)?;
    let (place, counts, cost) = if let Some(target) = &args.on {
        let counts = in_target(args, target, &mut reader, session)?;
        (target.to_string_lossy().into_owned(), counts, Cost::Unknown)
    } else if let Some(folder) = &args.within {
        let counts = in_folder(args, folder, &mut reader, session)?;
        (folder.display().to_string(), counts, Cost::Unknown)
    } else if let Some(preset) = &args.card {
        let (counts, cost) = on_card(args, preset, &mut reader, session)?;
        (format!("UBIFS on the card {preset}"), counts, cost)
    } else {
        let (name, stack) = args.stack()?;
        let (counts, flash) = on_chip(args, &*stack, &mut reader, session)?;
        (name, counts, Cost::Flash(flash))
    };
    let (origin, left_out) = (reader.origin(), reader.left_out());
    if session.options.json {
        return session.json(&serde_json::json!({
            "origin": origin_name(origin), "left_out": left_out, "on": place, "steps": counts.steps,
            "written": counts.written, "read": counts.read, "unsupported": counts.unsupported,
            "flash": cost.flash(), "card": cost.card(),
        }));
    }
    session.lines(report(&place, &counts, &cost, left_out))
}

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Ops => "ops",
        Origin::Fio => "fio",
        Origin::Strace => "strace",
        Origin::Blkparse => "blkparse",
    }
}

impl ReplayOpsArgs {
    /// Returns the file system on its chip, and both in words.
    fn stack(&self) -> Result<(String, Box<dyn Stack>), Failure> {
        let name = self.other.name()?.unwrap_or_else(|| self.chip.clone());
        let shape = Shape::named(&name).map_err(Failure::usage)?;
        let small = || Failure::usage(format!("{name}: its pages are too small for YAFFS2"));
        Ok(match self.fs {
            ReplayFs::Ubifs => {
                shape.check_ubi().map_err(Failure::usage)?;
                (format!("UBIFS on {name}"), Box::new(ubifs(shape)))
            }
            ReplayFs::Jffs2 => (format!("JFFS2 on {name}"), Box::new(Jffs2Stack::on(shape))),
            ReplayFs::Yaffs2 => {
                let stack = Yaffs2Stack::on(shape).ok_or_else(small)?;
                (format!("YAFFS2 on {name}"), Box::new(stack))
            }
        })
    }
}

/// Performs all steps.
fn perform(
    args: &ReplayOpsArgs,
    fs: &dyn WritableFileSystem,
    reader: &mut Lines,
    session: &Session,
) -> Result<Counts, Failure> {
    let pace = if args.pauses { Pace::Pauses } else { Pace::Busy };
    let mut replay = Replay::new(fs, pace, args.seed);
    each(args, reader, session, |step| replay.step(step))?;
    Ok(replay.finish()?)
}

/// Performs all steps in a directory.
fn in_folder(
    args: &ReplayOpsArgs,
    folder: &Path,
    reader: &mut Lines,
    session: &Session,
) -> Result<Counts, Failure> {
    let mut replay = FolderReplay::new(folder, args.seed).context(folder.display())?;
    each(args, reader, session, |step| replay.step(step))?;
    replay.finish().context(folder.display())
}

/// Calls `perform` for all steps.
fn each<E: Display>(
    args: &ReplayOpsArgs,
    reader: &mut Lines,
    session: &Session,
    mut perform: impl FnMut(&Step) -> Result<(), E>,
) -> Result<(), Failure> {
    let bar = session.counter("steps");
    for (number, step) in (1_u64..).zip(reader) {
        let step = step.map_err(|error| args.recording.wrong(&error.to_string()))?;
        perform(&step).map_err(|error| {
            let name = step.op.name();
            args.recording.wrong(&format!("step {number}, {name}: {error}"))
        })?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Replays on a simulated chip. Returns what the flash did for it.
fn on_chip(
    args: &ReplayOpsArgs,
    stack: &dyn Stack,
    reader: &mut Lines,
    session: &Session,
) -> Result<(Counts, Counters), Failure> {
    let chip = Arc::new(stack.format().map_err(Failure::new)?);
    let mounted = stack.mount(&chip, Access::Write).map_err(Failure::new)?;
    let before = chip.counters();
    let counts = perform(args, mounted.fs(), reader, session)?;
    mounted.fs().unmount()?;
    Ok((counts, chip.counters().since(&before)))
}

/// Replays in an image.
fn in_target(
    args: &ReplayOpsArgs,
    on: &OsString,
    reader: &mut Lines,
    session: &mut Session,
) -> Result<Counts, Failure> {
    let wanted = Wanted { target: on.clone(), shape: target::Shape::default() };
    let opened = writable::open(&wanted, Mode::default(), session)?;
    let done = perform(args, opened.fs(), reader, session);
    let done = done.map_err(|failure| failure.map(|error| opened.explained(error)));
    let below = Arc::clone(opened.below());
    let closed = opened.close(session);
    let counts = done?;
    closed?;
    below.keep();
    Ok(counts)
}

/// Replays in UBIFS on a card. Returns what the card did for it.
fn on_card(
    args: &ReplayOpsArgs,
    preset: &str,
    reader: &mut Lines,
    session: &Session,
) -> Result<(Counts, Cost), Failure> {
    let (capacity, peb_size) = CARD;
    let parameters = presets::find(preset)?.parameters.with_capacity(capacity);
    let on = OnCard::make(Card::in_memory(parameters)?, peb_size).map_err(Failure::new)?;
    let fs = on.mount(Compression::Lzo).map_err(Failure::new)?;
    let before = on.card.counters();
    let counts = perform(args, &fs, reader, session)?;
    fs.unmount()?;
    Ok((counts, Cost::Card(on.card.counters().since(&before))))
}

/// What a replay cost.
enum Cost {
    /// It was in an image or a device.
    Unknown,
    /// On a simulated chip.
    Flash(Counters),
    /// On a simulated card.
    Card(card::Counters),
}

impl Cost {
    fn flash(&self) -> Option<serde_json::Value> {
        let Self::Flash(flash) = self else { return None };
        Some(serde_json::json!({
            "page_reads": flash.page_reads, "page_programs": flash.page_programs,
            "erases": flash.erases, "bytes_programmed": flash.bytes_programmed,
            "virtual_ns": flash.virtual_ns,
        }))
    }

    fn card(&self) -> Option<serde_json::Value> {
        let Self::Card(card) = self else { return None };
        Some(serde_json::json!({
            "reads": card.reads, "writes": card.writes, "flushes": card.flushes,
            "erases": card.erases(), "host_bytes": card.host_bytes(),
            "programmed_bytes": card.programmed_bytes(), "virtual_ns": card.total_ns(),
        }))
    }

    /// Returns the lines about it, if anything is known.
    #[allow(clippy::cast_precision_loss)] // ratios and seconds for people
    fn lines(&self, written: u64) -> Vec<(&'static str, String)> {
        let (done, programmed, virtual_ns, place) = match self {
            Self::Unknown => return Vec::new(),
            Self::Flash(flash) => {
                let Counters { page_programs, erases, page_reads, .. } = flash;
                let done = format!(
                    "{page_programs} page programs, {erases} erases, {page_reads} page reads"
                );
                (("flash", done), flash.bytes_programmed, flash.virtual_ns, "part")
            }
            Self::Card(card) => {
                let card::Counters { writes, flushes, reads, .. } = card;
                let erases = card.erases();
                let done =
                    format!("{writes} writes, {flushes} flushes, {erases} erases, {reads} reads");
                (("card", done), card.programmed_bytes(), card.total_ns(), "card")
            }
        };
        let ratio = programmed as f64 / written.max(1) as f64;
        let seconds = virtual_ns as f64 / 1e9;
        vec![
            done,
            ("", format!("{ratio:.2} bytes programmed for one written")),
            ("", format!("{seconds:.3} seconds on the {place}")),
        ]
    }
}

fn report(place: &str, counts: &Counts, cost: &Cost, left_out: u64) -> Vec<String> {
    let mut lines = vec![format!("  {:<15} {place}", "replayed on")];
    let steps: Vec<String> =
        counts.steps.iter().map(|(name, count)| format!("{count} {name}")).collect();
    lines.push(format!("  {:<15} {}", "steps", steps.join(", ")));
    if left_out > 0 {
        lines.push(format!("  {:<15} {left_out} calls that have no form here", "left out"));
    }
    if counts.unsupported > 0 {
        let count = counts.unsupported;
        lines.push(format!("  {:<15} {count} steps that this file system lacks", "left out"));
    }
    let (written, read) = (counts.written, counts.read);
    lines.push(format!("  {:<15} {written} bytes written, {read} read", "applications"));
    let cost = cost.lines(written);
    lines.extend(cost.into_iter().map(|(name, text)| format!("  {name:<15} {text}")));
    lines
}

/// Converts a recording.
pub(super) fn convert(args: &ConvertOpsArgs, session: &mut Session) -> Result<(), Failure> {
    let mut reader = args.recording.open(session)?;
    let mut output = session.create(&args.output)?;
    let mut out = BufWriter::new(&mut output.file);
    let (count, lost) = if args.output.extension().is_some_and(|end| end == "zst") {
        let mut packed = zstd::Encoder::new(&mut out, LEVEL)?;
        let written = write(args, &mut reader, &mut packed)?;
        packed.finish().context(args.output.display())?;
        written
    } else {
        write(args, &mut reader, &mut out)?
    };
    out.flush().context(args.output.display())?;
    drop(out);
    output.commit()?;
    let left_out = reader.left_out() + lost;
    session.remark(&format!("{count} steps; {left_out} have no form in the result"));
    if session.options.json && args.output.as_os_str() != "-" {
        let origin = origin_name(reader.origin());
        return session
            .json(&serde_json::json!({"origin": origin, "steps": count, "left_out": left_out}));
    }
    Ok(())
}

/// Writes all steps. Returns their number, and how many have no form in the result.
fn write(
    args: &ConvertOpsArgs,
    reader: &mut Lines,
    out: &mut dyn Write,
) -> Result<(u64, u64), Failure> {
    let mut count = 0_u64;
    let mut all = |put: &mut dyn FnMut(&Step) -> std::io::Result<()>| -> Result<(), Failure> {
        for step in reader.by_ref() {
            let step = step.map_err(|error| args.recording.wrong(&error.to_string()))?;
            put(&step).context(args.output.display())?;
            count += 1;
        }
        Ok(())
    };
    let mut lost = 0;
    match args.to {
        Form::Ops => {
            let mut writer = Writer::new(out).context(args.output.display())?;
            all(&mut |step| writer.step(step))?;
            writer.finish().context(args.output.display())?;
        }
        Form::Fio2 | Form::Fio3 => {
            let version = if args.to == Form::Fio2 { FioVersion::Two } else { FioVersion::Three };
            let under = path_bytes(&args.under);
            let under = under.strip_suffix(b"/").unwrap_or(under);
            let mut export = FioExport::new(out, version, under).context(args.output.display())?;
            all(&mut |step| export.step(step))?;
            lost = export.finish().context(args.output.display())?;
        }
    }
    Ok((count, lost))
}
