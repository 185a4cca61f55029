//! `eraseblock serve`: a file system of an image over a network protocol.

use crate::alarm::Alarm;
use crate::args::{PastArgs, TargetArgs, size64};
use crate::command::mount::options;
use crate::failure::{Context, Failure};
use crate::held::{self, Held};
use crate::session::Session;
use clap::Subcommand;
use eraseblock::raw::base::VolumeId;
use eraseblock::raw::nfs::{Server, ServerOptions};
use eraseblock::target::AsOf;
use eraseblock::target::writable::Mode;
use sha2::{Digest, Sha256};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    protocol: Protocol,
}

#[derive(Debug, Subcommand)]
enum Protocol {
    /// NFS version 3, for hosts without FUSE; ends with Ctrl-C
    Nfs(NfsArgs),
}

#[derive(Debug, clap::Args)]
struct NfsArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    past: PastArgs,
    /// Allow changes; without it nothing is ever written to the image
    #[arg(long)]
    rw: bool,
    /// With --rw: size of the target flash, if larger than the image file; the file grows to that
    #[arg(long, value_name = "SIZE", value_parser = size64)]
    size: Option<u64>,
    /// With --rw: leave a fastmap on the flash, so that the next attach need not scan it
    #[arg(long)]
    fastmap: bool,
    /// With --rw, separated by commas: compressor=lzo|zlib|zstd|none, cache=SIZE, no_bulk_read
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
    /// Where to listen. Any client that reaches the port can read, and with --rw change, everything
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:11111")]
    listen: SocketAddr,
}

/// Serves until a signal comes.
pub(crate) fn run(args: &ServeArgs, session: &mut Session) -> Result<(), Failure> {
    let Protocol::Nfs(args) = &args.protocol;
    let usual = options::mode(&args.options)?;
    let mode = Mode { size: args.size, fastmap: args.fastmap, ..usual };
    let mode = args.rw.then_some(mode);
    args.past.refuse_changes(args.rw)?;
    let wanted = args.past.of(&args.target);
    let held = held::open(&wanted, &[], mode, session)?;
    let [volume] = held.volumes.as_slice() else { return Err(Failure::new("nothing to serve")) };
    let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let generation = generation(&held, volume.id, args.past.as_of);
    let options = ServerOptions { address: args.listen, generation, owner };
    let mut server = Server::new(volume.served.clone(), &options).context("cannot serve")?;
    if let Some(below) = held.below.clone() {
        let alarm = Alarm::new(&held.volumes);
        server = server.with_background_work(move || {
            alarm.look();
            below.background_step()
        });
    }
    let stop = server.stopper();
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            stop();
        }
    })?;
    held.keep();
    session.tell_findings();
    announce(&server, args, session);
    server.run().map_err(|error| volume.explained(error.into()))?;
    volume.close()
}

/// A number that stays the same for the same state of the same volume of the same part of a file, however the
/// target is spelled, so that handles do.
fn generation(held: &Held, volume: Option<VolumeId>, as_of: Option<AsOf>) -> u64 {
    let mut hash = Sha256::new();
    hash.update(held.path.as_os_str().as_bytes());
    hash.update([0]);
    hash.update(volume.map_or(u32::MAX, VolumeId::get).to_le_bytes());
    // Two images of one file are not to be taken for each other.
    if let Some(at) = held.at {
        hash.update(at.offset.to_le_bytes());
    }
    // What a handle names may be another file in another state.
    match as_of {
        None => {}
        Some(AsOf::Commit(number)) => hash.update([b"commit", &number.to_le_bytes()[..]].concat()),
        Some(AsOf::Sqnum(number)) => hash.update([b"sqnum", &number.to_le_bytes()[..]].concat()),
        Some(AsOf::Time(time)) => hash.update([b"time", &time.to_le_bytes()[..]].concat()),
    }
    let digest = hash.finalize();
    digest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn announce(server: &Server, args: &NfsArgs, session: &Session) {
    let (address, target) = (server.address(), args.target.target.display());
    session.remark(&format!("{target} at {address}, to be mounted with"));
    let how = if args.rw { "rw" } else { "ro" };
    let (host, port) = (address.ip(), address.port());
    session.remark(&format!(
        "mount -t nfs -o vers=3,tcp,nolock,{how},port={port},mountport={port} {host}:/ DIR"
    ));
}
