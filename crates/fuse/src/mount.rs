//! Mounting and unmounting.

use crate::adapter::{Adapter, Settings};
use crate::ids::IdMaps;
use crate::lookups::Lookups;
use crate::status::{Status, Traffic};
use eraseblock_vfs::background::{Activity, BackgroundWork, Worker};
use eraseblock_vfs::{FsError, Served};
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::mount::UnmountFlags;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The device node of FUSE.
const DEVICE: &str = "/dev/fuse";

/// The device's number.
const NUMBER: (u32, u32) = (10, 229);

/// The start of the error message if the helper for ordinary users cannot be started.
const HELPER_MISSING: &str = "fusermount3 cannot be started";

/// Maximum time for a mount to end on request.
const PATIENCE: Duration = Duration::from_secs(2);

/// A receiver of reports of trouble with the medium: one line each, from any thread.
#[derive(Clone)]
pub struct Report(Arc<dyn Fn(&str) + Send + Sync>);

impl Report {
    /// Calls `hear` with each line.
    pub fn new(hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    pub(crate) fn send(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Report")
    }
}

/// Options of a mount.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each is a mount option of its own
pub struct MountOptions {
    /// The source in the list of mounts, if not empty; [`crate::source_name`] makes one from a
    /// path. Commas and backslashes are replaced.
    pub source: String,
    /// The file system type in the list of mounts, after `fuse.`, if not empty.
    pub kind: String,
    /// Whether other users have access; permissions are then checked.
    pub allow_other: bool,
    /// Whether the kernel checks permissions.
    pub default_permissions: bool,
    /// Whether ACLs and modes are kept consistent as on Linux; the ACLs apply if permissions are
    /// checked.
    pub acl: bool,
    /// Whether device nodes work.
    pub dev: bool,
    /// Whether set-id bits work.
    pub suid: bool,
    /// Whether execution is forbidden.
    pub noexec: bool,
    /// Whether every change is durable before it returns.
    pub sync: bool,
    /// Maps between owners in the image and on the host.
    pub ids: IdMaps,
    /// Number of threads that handle requests; by default the number of cores, 2 to 8.
    pub threads: Option<usize>,
    /// Receives reports of trouble with the medium.
    pub report: Option<Report>,
    /// Background work below the file system, for writable mounts.
    pub background_work: Option<BackgroundWork>,
    /// Counts reads and writes of programs; mounts may share it.
    pub traffic: Arc<Traffic>,
    /// The content of the root directory's xattr [`crate::STATUS`].
    pub status: Option<Status>,
}

/// A mount that failed or did not end cleanly.
#[derive(Debug)]
#[non_exhaustive]
pub enum MountError {
    /// The host does not support FUSE.
    NoDevice,
    /// The node is another device, as in containers that hide FUSE.
    OtherDevice,
    /// The FUSE device is not accessible.
    Closed(io::Error),
    /// The mount point is not a directory, or not accessible.
    Place {
        /// The mount point.
        dir: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The mount point has a mount whose process has died.
    Dead {
        /// The mount point.
        dir: PathBuf,
    },
    /// The kernel or fusermount3 refused.
    Refused {
        /// The mount point.
        dir: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A thread cannot be started, or the session failed.
    Session(io::Error),
    /// The file system could not be left clean.
    Flush(FsError),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice => write!(f, "{DEVICE}: does not exist: this host has no FUSE"),
            Self::OtherDevice => write!(f, "{DEVICE}: is not the FUSE device"),
            Self::Closed(error) => write!(f, "{DEVICE}: {error}: this user may not use FUSE"),
            Self::Place { dir, source } => write!(f, "{}: {source}", dir.display()),
            Self::Dead { dir } => {
                write!(f, "{}: the process of the mount on it has died", dir.display())
            }
            Self::Refused { dir, source } => {
                write!(f, "cannot mount on {}: {source}", dir.display())
            }
            Self::Session(error) => write!(f, "the mount failed: {error}"),
            Self::Flush(error) => write!(f, "written data may not be durable: {error}"),
        }
    }
}

impl Error for MountError {}

impl From<FsError> for MountError {
    fn from(error: FsError) -> Self {
        Self::Flush(error)
    }
}

impl MountError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Closed(error) | Self::Session(error) => Some(error),
            Self::Place { source, .. } | Self::Refused { source, .. } => Some(source),
            Self::Flush(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether FUSE itself is unavailable.
    pub fn is_no_fuse(&self) -> bool {
        match self {
            Self::NoDevice | Self::OtherDevice | Self::Closed(_) => true,
            // fusermount3 is missing, not accessible, or not permitted to mount: it reports this
            // only as text.
            Self::Refused { source, .. } => {
                let said = source.to_string();
                said.starts_with(HELPER_MISSING) || said.contains("Operation not permitted")
            }
            _ => false,
        }
    }
}

/// The reason why a wait ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The session is over: the mount was unmounted.
    Over,
    /// A [`Stopper`] requested it.
    Asked,
}

/// Ends a mount from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<End>);

impl Stopper {
    /// Requests the end. [`Mounted::wait`] does the work.
    pub fn stop(&self) {
        // Sending fails only if the mount has already ended.
        let _ = self.0.send(End::Asked);
    }
}

/// A mount. Dropping it without [`Mounted::wait`] unmounts without flushing.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
    served: Served,
    lookups: Arc<Lookups>,
    worker: Option<Worker>,
    session: BackgroundSession,
    ends: Receiver<End>,
    stopper: Stopper,
}

/// Mounts `served` on `dir`; the mount is usable when this returns.
///
/// # Errors
///
/// Fails if FUSE is unavailable, if `dir` is not an accessible directory, or if the kernel or
/// fusermount3 refuses.
pub fn mount(served: Served, dir: &Path, options: &MountOptions) -> Result<Mounted, MountError> {
    check_device()?;
    if is_dead(dir) {
        return Err(MountError::Dead { dir: dir.to_owned() });
    }
    let place = |source| MountError::Place { dir: dir.to_owned(), source };
    let dir = dir.canonicalize().map_err(place)?;
    if !dir.is_dir() {
        return Err(place(io::ErrorKind::NotADirectory.into()));
    }
    std::fs::File::open(&dir).map_err(place)?;
    let lookups = Arc::new(Lookups::default());
    let activity = Arc::new(Activity::default());
    let (sender, ends) = channel();
    let over = sender.clone();
    let settings = Settings {
        ids: options.ids.clone(),
        acl: options.acl,
        enforces_acl: options.checks_permissions(),
        sync: options.sync,
        report: options.report.clone(),
        traffic: Arc::clone(&options.traffic),
        status: options.status.clone(),
    };
    let adapter =
        Adapter::new(served.clone(), settings, Arc::clone(&lookups), Arc::clone(&activity))
            .when_over(move || {
                // Sending fails only if the mount was dropped.
                let _ = over.send(End::Over);
            });
    let session = Session::new(adapter, &dir, &options.config(served.is_read_only()))
        .map_err(|source| MountError::Refused { dir: dir.clone(), source: one_line(&source) })?;
    let session = session.spawn().map_err(MountError::Session)?;
    let worker = start_worker(&served, activity, options)?;
    Ok(Mounted { dir, served, lookups, worker, session, ends, stopper: Stopper(sender) })
}

/// Returns whether the process of the FUSE mount on `dir` has died without unmounting, even during
/// this call. Requests the free space of the file system, which the kernel never answers from its
/// caches.
pub fn is_dead(dir: &Path) -> bool {
    use rustix::io::Errno;
    matches!(rustix::fs::statfs(dir), Err(Errno::NOTCONN | Errno::CONNABORTED))
}

fn start_worker(
    served: &Served,
    activity: Arc<Activity>,
    options: &MountOptions,
) -> Result<Option<Worker>, MountError> {
    let Served::ReadWrite(fs) = served else { return Ok(None) };
    let report = options.report.clone();
    let failed = move |error: &FsError| {
        if let Some(report) = &report {
            report.send(&format!("background work: {error}"));
        }
    };
    let background_work = options.background_work.clone();
    Worker::start(Arc::clone(fs), background_work, activity, failed)
        .map(Some)
        .map_err(MountError::Session)
}

/// Turns an error of mounting into one line: the messages of fusermount3 end with a line feed. The
/// mount point is accessible, so a file that is missing or forbidden is fusermount3.
fn one_line(error: &io::Error) -> io::Error {
    let said = error.to_string();
    match (error.raw_os_error(), error.kind()) {
        (Some(_), kind @ (io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)) => {
            io::Error::new(kind, format!("{HELPER_MISSING}: {said}"))
        }
        (_, kind) => io::Error::new(kind, said.trim_end()),
    }
}

/// Checks whether FUSE is available at all.
fn check_device() -> Result<(), MountError> {
    let device = match rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(device) => device,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV | rustix::io::Errno::NXIO) => {
            return Err(MountError::NoDevice);
        }
        Err(error) => return Err(MountError::Closed(error.into())),
    };
    let found = rustix::fs::fstat(&device).map_err(|error| MountError::Closed(error.into()))?;
    let number = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
    let is_device = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
    if is_device && number == NUMBER { Ok(()) } else { Err(MountError::OtherDevice) }
}

impl MountOptions {
    /// Returns whether permissions are checked; required if other users have access.
    fn checks_permissions(&self) -> bool {
        self.default_permissions || self.allow_other
    }

    fn config(&self, read_only: bool) -> Config {
        let harmless = |text: &str| text.replace([',', '\\'], "_");
        let either =
            |choice: bool, yes: MountOption, no: MountOption| if choice { yes } else { no };
        let source = if self.source.is_empty() { "eraseblock" } else { &self.source };
        let mut options = vec![
            MountOption::FSName(harmless(source)),
            MountOption::NoAtime,
            either(read_only, MountOption::RO, MountOption::RW),
            either(self.dev, MountOption::Dev, MountOption::NoDev),
            either(self.suid, MountOption::Suid, MountOption::NoSuid),
            either(self.noexec, MountOption::NoExec, MountOption::Exec),
        ];
        if !self.kind.is_empty() {
            options.push(MountOption::CUSTOM(format!("subtype={}", harmless(&self.kind))));
        }
        if self.checks_permissions() {
            options.push(MountOption::DefaultPermissions);
        }
        let cores = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        let mut config = Config::default();
        config.mount_options = options;
        config.acl = if self.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(self.threads.unwrap_or(cores).max(1));
        config
    }
}

impl Mounted {
    /// Returns the mount point: the directory's canonical path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a handle that ends this mount from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until the mount ends, then makes everything durable and leaves the medium clean.
    ///
    /// # Errors
    ///
    /// Fails if the session failed or the file system could not be flushed.
    pub fn wait(mut self) -> Result<(), MountError> {
        let mut end = self.ends.recv().unwrap_or(End::Over);
        if end == End::Asked {
            detach(&self.dir);
            // Programs with open files keep the session alive; end it anyway.
            if let Ok(over) = self.ends.recv_timeout(PATIENCE) {
                end = over;
            }
        }
        self.worker = None;
        let broken = match end {
            End::Over => self.session.join().err(),
            End::Asked => None,
        };
        if let Served::ReadWrite(fs) = &self.served {
            if end == End::Over {
                self.lookups.forget_all(fs.as_ref())?;
            }
            fs.unmount()?;
        }
        broken.map_or(Ok(()), |error| Err(MountError::Session(error)))
    }
}

/// Unmounts, at first normally, so that the kernel writes back its caches, and otherwise with files
/// still open. An already removed mount is not an error.
fn detach(dir: &Path) {
    match rustix::mount::unmount(dir, UnmountFlags::empty()) {
        Err(rustix::io::Errno::BUSY) => {
            write_back(dir);
            let _ = rustix::mount::unmount(dir, UnmountFlags::DETACH);
        }
        Err(rustix::io::Errno::PERM) => {
            let fusermount = |how: &str| {
                let mut command = Command::new("fusermount3");
                command.args([how, "--"]).arg(dir).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            };
            if !fusermount("-u") {
                write_back(dir);
                fusermount("-uz");
            }
        }
        _ => {}
    }
}

/// Makes the kernel write back its caches of mapped files.
fn write_back(dir: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(dir) = rustix::fs::open(dir, flags, Mode::empty()) {
        let _ = rustix::fs::syncfs(dir);
    }
}
