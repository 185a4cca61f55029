//! `eraseblock mount`: a file system of an image as a directory of the host.

mod daemon;
mod options;

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::session::{Session, say};
use crate::target::held::{self, Held};
use eraseblock_fuse::{
    IdMap, IdMaps, IdRange, MountError, MountOptions, Mounted, Report, Stopper, mount,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Troubles that are told one by one; a damaged image can have any number.
const TOLD: u32 = 100;

/// Arguments of `mount`.
#[derive(Debug, clap::Args)]
pub(crate) struct MountArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Where: an existing directory
    dir: PathBuf,
    /// Allow changes; without it nothing is ever written to the image
    #[arg(long)]
    rw: bool,
    /// Mount options, separated by commas: allow_other, default_permissions, noacl, dev, suid,
    /// noexec, sync, ro, rw, threads=N
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Stay in the foreground and tell of damage as it is met; Ctrl-C unmounts
    #[arg(short, long)]
    foreground: bool,
    /// Show owners of the image as others of this machine; may be given several times
    #[arg(long, value_name = "INSIDE:OUTSIDE[:COUNT]")]
    uid: Vec<IdRange>,
    /// The same for groups
    #[arg(long, value_name = "INSIDE:OUTSIDE[:COUNT]")]
    gid: Vec<IdRange>,
    /// This is the process that stays behind.
    #[arg(long, hide = true)]
    daemon: bool,
}

/// Mounts; returns when the mount is ready, or in the foreground when it has ended.
pub(crate) fn run(args: &MountArgs, session: &mut Session) -> Result<(), Failure> {
    let asked = options::parse(&args.options, args.rw)?;
    if !args.foreground && !args.daemon {
        return daemon::start();
    }
    if args.daemon {
        daemon::leave_the_terminal();
    }
    let held = held::open(&args.target, asked.rw, session)?;
    let ids =
        IdMaps { uid: IdMap { ranges: args.uid.clone() }, gid: IdMap { ranges: args.gid.clone() } };
    let options = MountOptions {
        source: held.path.display().to_string(),
        kind: "eraseblock".to_owned(),
        ids,
        report: Some(report()),
        ..asked.mount
    };
    let mounted = mount(held.served.clone(), &args.dir, &options).map_err(explained)?;
    // Before anybody is told that it is ready: a signal from now on ends it well.
    stop_on_signals(mounted.stopper())?;
    session.tell_findings();
    if args.daemon {
        daemon::ready()?;
    } else {
        session.remark(&format!("{} on {}", options.source, mounted.dir().display()));
    }
    end(mounted, held)
}

/// Waits for the end of the mount; the image stays locked until everything is in it.
fn end(mounted: Mounted, held: Held) -> Result<(), Failure> {
    let result = mounted.wait();
    drop(held);
    Ok(result?)
}

fn stop_on_signals(stopper: Stopper) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            stopper.stop();
        }
    })?;
    Ok(())
}

fn report() -> Report {
    let told = AtomicU32::new(0);
    Report::new(move |line| match told.fetch_add(1, Ordering::Relaxed) {
        count if count < TOLD => say(&format!("error: {line}")),
        TOLD => say("error: more of the same is not shown"),
        _ => {}
    })
}

/// A mount's error, and what else there is where FUSE is out of reach.
fn explained(error: MountError) -> Failure {
    let no_fuse = error.is_no_fuse();
    let failure = Failure::from(error);
    if !no_fuse {
        return failure;
    }
    failure.hint(
        "without FUSE, `eraseblock extract` takes files out, `eraseblock edit` changes them in \
         place, and `eraseblock serve nfs` serves them to an NFS client",
    )
}
