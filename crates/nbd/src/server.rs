//! Connections of a Unix socket.

use crate::{Disk, serve};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, BufWriter};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Connections at the same time; more are closed at once.
const MAX_CONNECTIONS: usize = 16;

/// A server that listens on a Unix socket.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket: the file of another server is not removed.
    identity: (u64, u64),
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    /// Open connections by number, to be shut down when the server stops.
    streams: Mutex<BTreeMap<u64, UnixStream>>,
}

/// Stops a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    shared: Arc<Shared>,
    path: PathBuf,
}

impl Stopper {
    /// Closes all connections; [`Server::run`] returns after the requests in progress.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        for stream in self.shared.streams().values() {
            // Only the reading side: the reply to a request in progress is still sent.
            let _ = stream.shutdown(Shutdown::Read);
        }
        // The listener waits for a connection; this is one.
        let _ = UnixStream::connect(&self.path);
    }
}

impl Shared {
    fn streams(&self) -> MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Listens on a socket. The socket that a server left that no longer runs is replaced.
    ///
    /// # Errors
    ///
    /// Fails with [`io::ErrorKind::AddrInUse`] if a server listens there or the path is another
    /// file, or with the error of the host.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path) => {
                fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            listener => listener?,
        };
        let metadata = fs::metadata(path)?;
        let identity = (metadata.dev(), metadata.ino());
        let shared = Arc::default();
        Ok(Self { listener, path: path.to_owned(), identity, shared })
    }

    /// Returns what stops the server.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::clone(&self.shared), path: self.path.clone() }
    }

    /// Serves until it is stopped. `refused` gets the reasons of connections that ended early.
    ///
    /// # Errors
    ///
    /// Fails if the socket does.
    pub fn run(&self, disk: &dyn Disk, refused: &(dyn Fn(io::Error) + Sync)) -> io::Result<()> {
        thread::scope(|scope| {
            for number in 0.. {
                let (stream, _) = self.listener.accept()?;
                let stopped = || self.shared.stopped.load(Ordering::SeqCst);
                let mut streams = self.shared.streams();
                // Under the lock: the stopper shuts every connection down that is in the list.
                if stopped() {
                    break;
                }
                if streams.len() >= MAX_CONNECTIONS {
                    continue;
                }
                streams.insert(number, stream.try_clone()?);
                drop(streams);
                scope.spawn(move || {
                    if let Err(error) = serve_stream(&stream, disk) {
                        refused(error);
                    }
                    self.shared.streams().remove(&number);
                });
            }
            Ok(())
        })
    }
}

fn serve_stream(stream: &UnixStream, disk: &dyn Disk) -> io::Result<()> {
    let served = serve(&mut BufReader::new(stream), &mut BufWriter::new(stream), disk);
    // A copy of the stream is in the list: dropping this one does not end the connection.
    let _ = stream.shutdown(Shutdown::Both);
    served
}

impl Drop for Server {
    fn drop(&mut self) {
        let now = fs::metadata(&self.path).map(|metadata| (metadata.dev(), metadata.ino()));
        if now.is_ok_and(|now| now == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns whether the path is a socket on which no server listens.
fn is_left_over(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused =
        UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    is_socket && refused
}
