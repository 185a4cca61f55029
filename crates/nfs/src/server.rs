//! The server: one listening socket, until it is stopped.

use crate::export::Export;
use eraseblock_vfs::background::{Activity, BackgroundWork, Worker};
use eraseblock_vfs::{FsError, Served};
use nfs3_server::tcp::{NFSTcp, NFSTcpListener};
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// Time that calls in progress get when the server ends.
const PAUSE: Duration = Duration::from_secs(1);

/// Options of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerOptions {
    /// The address: loopback, or another one at the user's own risk; port 0 selects any free port.
    pub address: SocketAddr,
    /// Distinguishes this file system's handles from those of others. The same number after a
    /// restart keeps handles valid.
    pub generation: u64,
    /// Owner and group of new files if the client does not specify them.
    pub owner: (u32, u32),
}

/// A server that failed or did not end cleanly.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The socket or a thread could not be created.
    Socket {
        /// The requested address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// The file system could not be left clean.
    Flush(FsError),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { address, source } => write!(f, "{address}: {source}"),
            Self::Flush(error) => write!(f, "written data may not be durable: {error}"),
        }
    }
}

impl Error for ServerError {}

impl From<FsError> for ServerError {
    fn from(error: FsError) -> Self {
        Self::Flush(error)
    }
}

impl ServerError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Socket { source, .. } => Some(source),
            Self::Flush(error) => Some(error),
        }
    }
}

/// A listening server.
pub struct Server {
    runtime: Runtime,
    listener: NFSTcpListener<Export>,
    exported: Served,
    activity: Arc<Activity>,
    address: SocketAddr,
    stop: Arc<Notify>,
    background_work: Option<BackgroundWork>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Binds the socket; clients can connect when this returns.
    ///
    /// # Errors
    ///
    /// Fails if the socket cannot be created or bound.
    pub fn new(exported: Served, options: &ServerOptions) -> Result<Self, ServerError> {
        let socket = |source| ServerError::Socket { address: options.address, source };
        let runtime =
            Builder::new_multi_thread().worker_threads(4).enable_all().build().map_err(socket)?;
        let activity = Arc::new(Activity::default());
        let export = Export::new(exported.clone(), options.owner, Arc::clone(&activity));
        let address = options.address.to_string();
        let bound = NFSTcpListener::bind_with_generation(&address, export, options.generation);
        let listener = runtime.block_on(bound).map_err(socket)?;
        let address = SocketAddr::new(listener.get_listen_ip(), listener.get_listen_port());
        let stop = Arc::new(Notify::new());
        Ok(Self { runtime, listener, exported, activity, address, stop, background_work: None })
    }

    /// Runs `work` in the background, too, after the file system's own, until it returns false.
    #[must_use]
    pub fn with_background_work(
        mut self,
        work: impl Fn() -> Result<bool, FsError> + Send + Sync + 'static,
    ) -> Self {
        self.background_work = Some(BackgroundWork::new(work));
        self
    }

    /// Returns the address of the listening socket.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a function that ends [`Server::run`], from any thread, even before it begins.
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let stop = Arc::clone(&self.stop);
        move || stop.notify_one()
    }

    /// Serves until it is stopped, then makes everything durable and leaves the medium clean.
    ///
    /// # Errors
    ///
    /// Fails if a thread cannot be started or the file system could not be flushed.
    pub fn run(self) -> Result<(), ServerError> {
        let Self { runtime, listener, exported, activity, address, stop, background_work } = self;
        let failed = |source| ServerError::Socket { address, source };
        let worker = match &exported {
            // A failed step fails again in the call that needs it, which reports the error.
            Served::ReadWrite(fs) => {
                let started = Worker::start(Arc::clone(fs), background_work, activity, |_| {});
                Some(started.map_err(failed)?)
            }
            Served::ReadOnly(_) => None,
        };
        let ended = runtime.block_on(async {
            tokio::select! {
                ended = listener.handle_forever() => ended,
                () = stop.notified() => Ok(()),
            }
        });
        // Calls in progress are dropped: none has been answered.
        drop(listener);
        runtime.shutdown_timeout(PAUSE);
        drop(worker);
        if let Served::ReadWrite(fs) = &exported {
            fs.unmount()?;
        }
        ended.map_err(failed)
    }
}
