//! `eraseblock mount`: file systems of an image as directories of the host.

mod daemon;
pub(crate) mod options;
mod record;
pub(crate) mod status;

use crate::alarm::{self, Alarm};
use crate::args::{PastArgs, TargetArgs, size64};
use crate::failure::Failure;
use crate::held::{self, Held, Volume};
use crate::session::{Session, say};
use eraseblock::raw::fuse::{
    BackgroundWork, IdMap, IdMaps, IdRange, MountError, MountOptions, Mounted, Report, Stopper,
    mount, source_name,
};
use eraseblock::raw::mtd::Access;
use eraseblock::target::writable::{Below, Mode};
use record::Recording;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use status::Watch;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum number of problems reported one by one; a damaged image can have any number.
const REPORTED_MOST: u32 = 100;

/// Arguments of `mount`.
#[derive(Debug, clap::Args)]
pub(crate) struct MountArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    past: PastArgs,
    /// An existing directory
    #[arg(required_unless_present = "stats")]
    dir: Option<PathBuf>,
    /// Allow changes; without it nothing is ever written to the image
    #[arg(long)]
    rw: bool,
    /// Mount another volume of the target as well; may be given several times
    #[arg(long, value_name = "VOLUME=DIR", conflicts_with = "as_of")]
    also: Vec<Also>,
    /// Mount options, separated by commas: allow_other, default_permissions, noacl, dev, suid,
    /// noexec, sync, ro, rw, no_bulk_read, threads=N, compressor=lzo|zlib|zstd|none, cache=SIZE
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// With --rw: size of the target flash, if larger than the image file; the file grows to that
    #[arg(long, value_name = "SIZE", value_parser = size64)]
    size: Option<u64>,
    /// With --rw: leave a fastmap on the flash, so that the next attach need not scan it
    #[arg(long)]
    fastmap: bool,
    /// With --rw: record what applications do, for `lab replay-ops`; the file must be new
    #[arg(long, value_name = "FILE", requires = "rw", conflicts_with = "also")]
    record: Option<PathBuf>,
    /// Stay in the foreground and report damage as it is found; Ctrl-C unmounts
    #[arg(short, long)]
    foreground: bool,
    /// Show owners of the image as others of this machine; may be given several times
    #[arg(long, value_name = "INSIDE:OUTSIDE[:COUNT]")]
    uid: Vec<IdRange>,
    /// The same for groups
    #[arg(long, value_name = "INSIDE:OUTSIDE[:COUNT]")]
    gid: Vec<IdRange>,
    /// Show wear, write amplification and virtual time of a mount in use: `mount --stats DIR`
    #[arg(long, conflicts_with_all = ["dir", "as_of", "rw", "also", "options", "size", "fastmap", "record", "foreground"])]
    stats: bool,
    /// This is the background process of the mount.
    #[arg(long, hide = true)]
    daemon: bool,
}

/// Another volume, and where it goes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Also {
    volume: Vec<u8>,
    dir: PathBuf,
}

impl FromStr for Also {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((volume, dir)) if !volume.is_empty() && !dir.is_empty() => {
                Ok(Self { volume: volume.into(), dir: dir.into() })
            }
            _ => Err(format!("`{text}` is not VOLUME=DIR")),
        }
    }
}

/// Mounts; returns when the mounts are ready, or in the foreground when they have ended.
pub(crate) fn run(args: &MountArgs, session: &mut Session) -> Result<(), Failure> {
    let Some(dir) = args.dir.as_deref() else {
        return status::show(Path::new(&args.target.target), session);
    };
    let access = if args.rw { Access::Write } else { Access::Read };
    let asked = options::parse(&args.options, access)?;
    args.past.refuse_changes(asked.rw)?;
    if !args.foreground && !args.daemon {
        return daemon::start();
    }
    if args.daemon {
        daemon::leave_the_terminal();
    }
    let mode = Mode { size: args.size, fastmap: args.fastmap, ..asked.mode };
    let others: Vec<Vec<u8>> = args.also.iter().map(|also| also.volume.clone()).collect();
    let wanted = args.past.of(&args.target);
    let mut held = held::open(&wanted, &others, asked.rw.then_some(mode), session)?;
    let recording = args.record.as_deref().map(|path| Recording::start(path, &mut held));
    let recording = recording.transpose()?;
    let alarm = Alarm::new(&held.volumes);
    let watch = Watch::new(held.path.display().to_string(), held.below.clone());
    let ids =
        IdMaps { uid: IdMap { ranges: args.uid.clone() }, gid: IdMap { ranges: args.gid.clone() } };
    let options = MountOptions {
        source: source_name(&held.path),
        kind: "eraseblock".to_owned(),
        ids,
        report: Some(report(Arc::clone(&alarm))),
        background_work: held.below.clone().map(|below| background_work(below, alarm)),
        traffic: watch.traffic(),
        status: Some(watch.status()),
        ..asked.mount
    };
    let dirs = std::iter::once(dir).chain(args.also.iter().map(|also| also.dir.as_path()));
    let mounts = mount_all(&held, dirs, &options)?;
    held.keep();
    // Before reporting that the mount is ready: from now on a signal unmounts cleanly.
    stop_on_signals(mounts.iter().map(Mounted::stopper).collect())?;
    watch.set_mounts(held.volumes.iter().zip(mounts.iter().map(Mounted::dir)));
    session.tell_findings();
    if args.daemon {
        daemon::ready()?;
    } else {
        for mounted in &mounts {
            session.remark(&format!("{} on {}", held.path.display(), mounted.dir().display()));
        }
    }
    let ended = end_all(mounts, &held, &watch);
    recording.map_or(Ok(()), |it| it.end(session)).and(ended)
}

/// Mounts every volume; if one of them cannot be, none is.
fn mount_all<'a>(
    held: &Held,
    dirs: impl Iterator<Item = &'a Path>,
    options: &MountOptions,
) -> Result<Vec<Mounted>, Failure> {
    let mut mounts: Vec<Mounted> = Vec::new();
    for (volume, dir) in held.volumes.iter().zip(dirs) {
        match mount(volume.served.clone(), dir, options) {
            Ok(mounted) => mounts.push(mounted),
            Err(error) => {
                for mounted in mounts {
                    mounted.stopper().stop();
                    mounted.wait()?;
                }
                for volume in &held.volumes {
                    volume.close()?;
                }
                return Err(explained(error));
            }
        }
    }
    Ok(mounts)
}

/// Waits until all mounts have ended; the image stays locked until everything is in it.
fn end_all(mounts: Vec<Mounted>, held: &Held, watch: &Watch) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let end = |(index, (mounted, volume)): (usize, (Mounted, &Volume))| {
            let result = mounted.wait().map_err(|error| volume.explained(error.into()));
            let result = result.and_then(|()| volume.close());
            watch.ended(index);
            result
        };
        let pairs = mounts.into_iter().zip(&held.volumes).enumerate();
        let threads: Vec<_> = pairs.map(|pair| scope.spawn(move || end(pair))).collect();
        let results = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a thread died at the end")))
        });
        results.fold(Ok(()), Result::and)
    })
}

/// Returns the background work of UBI, with a check for file systems that turned read-only.
fn background_work(below: Arc<Below>, alarm: Arc<Alarm>) -> BackgroundWork {
    BackgroundWork::new(move || {
        alarm.look();
        below.background_step()
    })
}

fn stop_on_signals(stoppers: Vec<Stopper>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            stoppers.iter().for_each(Stopper::stop);
        }
    })?;
    Ok(())
}

fn report(alarm: Arc<Alarm>) -> Report {
    let reported = AtomicU32::new(0);
    Report::new(move |line| {
        match reported.fetch_add(1, Ordering::Relaxed) {
            count if count < REPORTED_MOST => say(&format!("error: {line}")),
            REPORTED_MOST => say("error: more of the same is not shown"),
            _ => {}
        }
        alarm.look();
    })
}

/// Returns the error of a mount, with alternatives if FUSE is not available.
fn explained(error: MountError) -> Failure {
    let no_fuse = error.is_no_fuse();
    let dead = match &error {
        MountError::Dead { dir } => Some(alarm::dead_mount(dir)),
        _ => None,
    };
    let failure = Failure::from(error);
    if let Some(step) = dead {
        return failure.hint(step);
    }
    if !no_fuse {
        return failure;
    }
    failure.hint(
        "without FUSE, `eraseblock extract` takes files out, `eraseblock edit` changes them in \
         place, and `eraseblock serve nfs` serves them to an NFS client",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_volumes_have_a_name_and_a_place() {
        let also = Also { volume: b"data".to_vec(), dir: "a=b".into() };
        assert_eq!("data=a=b".parse(), Ok(also));
        for text in ["data", "=x", "data="] {
            assert!(text.parse::<Also>().unwrap_err().contains("VOLUME=DIR"), "{text}");
        }
    }
}
