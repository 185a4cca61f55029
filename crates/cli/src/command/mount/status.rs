//! The report of `mount --stats` about a mount in use, read from an extended attribute of its root.

use crate::alarm;
use crate::failure::{Context, Failure};
use crate::held::Volume;
use crate::session::Session;
use crate::style::Ink;
use eraseblock::raw::base::size::format_size;
use eraseblock::raw::fuse::{STATUS, Served, Status, Traffic, is_dead};
use eraseblock::target::writable::Below;
use eraseblock::text;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The most bytes of an attribute.
const MOST: usize = 1 << 16;

/// One mount of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The volume that was named.
    volume: Option<String>,
    /// Where it is mounted.
    dir: String,
    /// Why writing has ended, if the mount is for writing.
    #[serde(default)]
    turned_read_only: Option<String>,
}

/// Erases per block.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Wear {
    min_erases: u32,
    mean_erases: u32,
    max_erases: u32,
    bad_blocks: u32,
}

/// The state of a mount. Bytes and erases are counted since it was mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// What is mounted.
    target: String,
    /// Its mounts that have not ended.
    mounts: Vec<Place>,
    /// Nothing is ever written.
    read_only: bool,
    /// Bytes of file content that programs read; the kernel's cache answers without asking.
    bytes_read: u64,
    /// Bytes of file content that programs wrote.
    bytes_written: u64,
    /// Bytes read from flash.
    flash_bytes_read: u64,
    /// Bytes programmed into flash.
    flash_bytes_programmed: u64,
    /// Blocks erased.
    flash_erases: u64,
    /// Bytes programmed for each byte written by programs.
    write_amplification: Option<f64>,
    /// Wear of the device's blocks.
    wear: Option<Wear>,
    /// Nanoseconds that everything since the chip was made would have taken on the real part.
    virtual_ns: Option<u64>,
}

/// One mount, and whether everything of it is in the image.
#[derive(Debug)]
struct Known {
    volume: Option<String>,
    dir: String,
    served: Served,
    ended: AtomicBool,
}

impl Known {
    fn place(&self) -> Place {
        let turned_read_only = match &self.served {
            Served::ReadOnly(_) => None,
            Served::ReadWrite(fs) => fs.why_read_only(),
        };
        Place { volume: self.volume.clone(), dir: self.dir.clone(), turned_read_only }
    }
}

/// What is known of the mounts of this process.
#[derive(Debug)]
pub(super) struct Watch {
    target: String,
    traffic: Arc<Traffic>,
    below: Option<Arc<Below>>,
    mounts: OnceLock<Vec<Known>>,
}

impl Watch {
    pub(super) fn new(target: String, below: Option<Arc<Below>>) -> Arc<Self> {
        let traffic = Arc::default();
        Arc::new(Self { target, traffic, below, mounts: OnceLock::new() })
    }

    pub(super) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Says where the volumes are mounted.
    pub(super) fn set_mounts<'a>(&self, mounts: impl Iterator<Item = (&'a Volume, &'a Path)>) {
        let known = mounts.map(|(volume, dir)| Known {
            volume: volume.name.as_deref().map(text::name),
            dir: dir.display().to_string(),
            served: volume.served.clone(),
            ended: AtomicBool::new(false),
        });
        // Set once, when everything is mounted.
        let _ = self.mounts.set(known.collect());
    }

    /// Records that everything of a mount, by its place in the list, is in the image.
    pub(super) fn ended(&self, index: usize) {
        if let Some(known) = self.mounts.get().and_then(|mounts| mounts.get(index)) {
            known.ended.store(true, Ordering::Relaxed);
        }
    }

    /// What the mounts answer.
    pub(super) fn status(self: &Arc<Self>) -> Status {
        let watch = Arc::clone(self);
        Status::new(move || serde_json::to_string(&watch.figures()).unwrap_or_default())
    }

    fn figures(&self) -> Figures {
        let below = self.below.as_deref();
        let counted = below.and_then(|below| below.counted.as_deref());
        let counts = counted.map(eraseblock::raw::mtd::CountedMtd::counts).unwrap_or_default();
        let bytes_written = self.traffic.bytes_written();
        let known = self.mounts.get().map(Vec::as_slice).unwrap_or_default();
        let mounts = known.iter().filter(|known| !known.ended.load(Ordering::Relaxed));
        Figures {
            target: self.target.clone(),
            mounts: mounts.map(Known::place).collect(),
            read_only: self.below.is_none(),
            bytes_read: self.traffic.bytes_read(),
            bytes_written,
            flash_bytes_read: counts.bytes_read,
            flash_bytes_programmed: counts.bytes_programmed,
            flash_erases: counts.erases,
            write_amplification: ratio(counts.bytes_programmed, bytes_written),
            wear: below.and_then(wear),
            virtual_ns: below.and_then(|b| b.chip.as_ref()).map(|chip| chip.counters().virtual_ns),
        }
    }
}

/// Of two counts that differ by less than 2^52 bytes, nothing is lost.
#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 1000.0).round() / 1000.0)
}

/// As UBI counts it, or else as the simulated chip does.
fn wear(below: &Below) -> Option<Wear> {
    if let Some(ubi) = &below.ubi {
        let health = ubi.health();
        return Some(Wear {
            min_erases: health.min_ec,
            mean_erases: health.mean_ec,
            max_erases: health.max_ec,
            bad_blocks: health.errors.bad,
        });
    }
    let report = below.chip.as_ref()?.wear_report();
    let mean = report.total_erases / u64::from(report.blocks.max(1));
    Some(Wear {
        min_erases: report.min_erases,
        mean_erases: u32::try_from(mean).unwrap_or(u32::MAX),
        max_erases: report.max_erases,
        bad_blocks: report.bad_blocks,
    })
}

/// Asks the mount on `dir`.
pub(super) fn ask(dir: &Path) -> Result<Figures, Failure> {
    let mut value = vec![0; MOST];
    let name = std::str::from_utf8(STATUS).unwrap_or_default();
    let len = rustix::fs::getxattr(dir, name, value.as_mut_slice()).map_err(|error| {
        if is_dead(dir) {
            let message = format!("{}: the process of the mount has died", dir.display());
            return Failure::new(message).hint(alarm::dead_mount(dir));
        }
        Failure::new(format!("{}: {error}: no mount of ours", dir.display()))
            .hint("--stats takes the directory on which a target is mounted")
    })?;
    value.truncate(len);
    serde_json::from_slice(&value).context(dir.display())
}

/// Returns whether the process of the mount on `other` still has data to write for `dir`.
pub(crate) fn is_busy_with(other: &Path, dir: &Path) -> bool {
    let dir = dir.display().to_string();
    ask(other).is_ok_and(|figures| figures.mounts.iter().any(|place| place.dir == dir))
}

/// Returns whether the mount on `dir` is for writing, as far as this user may know.
pub(crate) fn is_writable(dir: &Path) -> bool {
    ask(dir).is_ok_and(|figures| !figures.read_only)
}

/// Why the mount on `dir` writes nothing any more, if it has come to that, and what is mounted.
pub(crate) fn why_read_only(dir: &Path) -> Option<(String, String)> {
    let shown = dir.display().to_string();
    let figures = ask(dir).ok()?;
    let place = figures.mounts.iter().find(|place| place.dir == shown)?;
    Some((place.turned_read_only.clone()?, figures.target_of(place)))
}

impl Figures {
    /// The target with the volume that is mounted there, as the other commands take it.
    fn target_of(&self, place: &Place) -> String {
        let volume = place.volume.as_deref().map_or(String::new(), |name| format!(":{name}"));
        format!("{}{volume}", self.target)
    }
}

/// Prints the state of the mount on `dir`.
pub(super) fn show(dir: &Path, session: &mut Session) -> Result<(), Failure> {
    let figures = ask(dir)?;
    if session.options.json {
        return session.json(&figures);
    }
    let lines = lines(&figures, session);
    let turned = figures.mounts.iter().filter(|place| place.turned_read_only.is_some());
    session.advise(turned.map(|place| alarm::while_in_use(&figures.target_of(place))));
    session.lines(lines)
}

fn lines(figures: &Figures, session: &Session) -> Vec<String> {
    let label = |name: &str| session.style.paint(Ink::Faint, format!("{name:<12}"));
    let how = if figures.read_only { "read-only" } else { "read-write" };
    let mut lines = vec![format!("{}{}, {how}", label("target"), figures.target)];
    for place in &figures.mounts {
        let volume = place.volume.as_deref().map_or(String::new(), |name| format!(" ({name})"));
        lines.push(format!("{}{}{volume}", label("on"), place.dir));
        if let Some(reason) = &place.turned_read_only {
            lines.push(format!("{}turned read-only: {reason}", label("writing")));
        }
    }
    let (read, written) = (format_size(figures.bytes_read), format_size(figures.bytes_written));
    lines.push(format!("{}{read} read, {written} written", label("programs")));
    if figures.read_only {
        return lines;
    }
    lines.push(format!(
        "{}{} read, {} programmed, {}",
        label("flash"),
        format_size(figures.flash_bytes_read),
        format_size(figures.flash_bytes_programmed),
        text::count(figures.flash_erases, "erase", "erases"),
    ));
    if let Some(ratio) = figures.write_amplification {
        lines.push(format!("{}{ratio:.2} bytes programmed for each written", label("amplified")));
    }
    if let Some(wear) = &figures.wear {
        lines.push(format!(
            "{}{} to {} erases a block, {} on average, {}",
            label("wear"),
            wear.min_erases,
            wear.max_erases,
            wear.mean_erases,
            text::count(u64::from(wear.bad_blocks), "bad block", "bad blocks")
        ));
    }
    if let Some(time) = figures.virtual_ns {
        let (seconds, rest) = (time / 1_000_000_000, time / 1_000_000 % 1000);
        lines.push(format!("{}{seconds}.{rest:03} s on the real part", label("time")));
    }
    lines
}
