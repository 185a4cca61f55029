//! Mounting, and the end of a mount.

use crate::adapter::{Adapter, Manner};
use crate::background::{Activity, Chore, Worker};
use crate::ids::IdMaps;
use crate::lookups::Lookups;
use crate::served::Served;
use crate::status::{Status, Traffic};
use eraseblock_vfs::FsError;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::mount::UnmountFlags;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Where the kernel's side of FUSE is.
const DEVICE: &str = "/dev/fuse";

/// The device's number.
const NUMBER: (u32, u32) = (10, 229);

/// How an error begins that is about starting the helper of ordinary users.
const HELPER_MISSING: &str = "fusermount3 cannot be started";

/// How long a mount may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// Somebody who hears of trouble with the medium: one line each, from any thread.
#[derive(Clone)]
pub struct Report(Arc<dyn Fn(&str) + Send + Sync>);

impl Report {
    /// Calls `hear` with each line.
    pub fn new(hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    pub(crate) fn tell(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Report")
    }
}

/// How to mount.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each is a mount option of its own
pub struct MountOptions {
    /// What the list of mounts says is mounted, if not empty; [`crate::source_name`] makes one of a
    /// path. Commas and backslashes are replaced.
    pub source: String,
    /// What the list of mounts says it is, behind `fuse.`, if not empty.
    pub kind: String,
    /// Other users may come in; permissions are checked then.
    pub allow_other: bool,
    /// The kernel checks permissions.
    pub default_permissions: bool,
    /// Access control lists and modes go together as on Linux; the lists count where permissions
    /// are checked.
    pub acl: bool,
    /// Device nodes work.
    pub dev: bool,
    /// Set-id bits work.
    pub suid: bool,
    /// Nothing can be executed.
    pub noexec: bool,
    /// Every change is durable before it returns.
    pub sync: bool,
    /// Owners as the host sees them.
    pub ids: IdMaps,
    /// Threads that answer requests; as many as the host has cores, 2 to 8, if not given.
    pub threads: Option<usize>,
    /// Who hears of trouble with the medium.
    pub report: Option<Report>,
    /// Work below the file system, done while it is quiet; for writable mounts.
    pub chore: Option<Chore>,
    /// Where programs' reads and writes are counted; mounts may share it.
    pub traffic: Arc<Traffic>,
    /// What the root directory's attribute [`crate::STATUS`] says.
    pub status: Option<Status>,
}

/// Why there is no mount, or it did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The host has no FUSE.
    #[error("{DEVICE}: does not exist: this host has no FUSE")]
    NoDevice,
    /// What is there is another device, as in containers that hide it.
    #[error("{DEVICE}: is not the device of FUSE")]
    OtherDevice,
    /// FUSE is there and not for us.
    #[error("{DEVICE}: {0}: this user may not use FUSE")]
    Closed(io::Error),
    /// The place is no directory, or cannot be entered.
    #[error("{}: {source}", dir.display())]
    Place {
        /// The place.
        dir: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// A mount is there whose process has died.
    #[error("{}: the process of the mount on it has died", dir.display())]
    Dead {
        /// The place.
        dir: PathBuf,
    },
    /// The kernel or fusermount3 refuses.
    #[error("cannot mount on {}: {source}", dir.display())]
    Refused {
        /// The place.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A thread cannot be started, or the session broke.
    #[error("the mount broke down: {0}")]
    Session(io::Error),
    /// The file system could not be left clean.
    #[error("what was written may not be durable: {0}")]
    Flush(#[from] FsError),
}

impl MountError {
    /// Returns whether FUSE as such is out of reach.
    pub fn is_no_fuse(&self) -> bool {
        match self {
            Self::NoDevice | Self::OtherDevice | Self::Closed(_) => true,
            // There is no fusermount3, or not for us, or it may not mount either: it says so in
            // words alone.
            Self::Refused { source, .. } => {
                let said = source.to_string();
                said.starts_with(HELPER_MISSING) || said.contains("Operation not permitted")
            }
            _ => false,
        }
    }
}

/// Why a wait ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The session is over: somebody unmounted.
    Over,
    /// A [`Stopper`] asked.
    Asked,
}

/// Ends a mount from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<End>);

impl Stopper {
    /// Asks for the end. [`Mounted::wait`] does the work.
    pub fn stop(&self) {
        // Nobody waits any more: it has ended.
        let _ = self.0.send(End::Asked);
    }
}

/// A mount. Dropped without [`Mounted::wait`], it is unmounted and not flushed.
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

/// Mounts `served` on `dir`; it can be used when this returns.
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
    let manner = Manner {
        ids: options.ids.clone(),
        acl: options.acl,
        enforces_acl: options.checks_permissions(),
        sync: options.sync,
        report: options.report.clone(),
        traffic: Arc::clone(&options.traffic),
        status: options.status.clone(),
    };
    let adapter = Adapter::new(served.clone(), manner, Arc::clone(&lookups), Arc::clone(&activity))
        .when_over(move || {
            // Nobody waits any more: the mount was dropped.
            let _ = over.send(End::Over);
        });
    let session = Session::new(adapter, &dir, &options.config(served.is_read_only()))
        .map_err(|source| MountError::Refused { dir: dir.clone(), source: one_line(&source) })?;
    let session = session.spawn().map_err(MountError::Session)?;
    let worker = start_worker(&served, activity, options)?;
    Ok(Mounted { dir, served, lookups, worker, session, ends, stopper: Stopper(sender) })
}

/// Returns whether the process of the FUSE mount on `dir` has died without unmounting, be it while
/// this asks. Asks for the space on the file system, which the kernel never answers from its
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
            report.tell(&format!("background work: {error}"));
        }
    };
    let chore = options.chore.clone();
    Worker::start(Arc::clone(fs), chore, activity, failed).map(Some).map_err(MountError::Session)
}

/// Returns an error of mounting in one line: the words of fusermount3 end with a line feed. The
/// place can be opened, so that what does not exist, or may not be used, is fusermount3.
fn one_line(error: &io::Error) -> io::Error {
    let said = error.to_string();
    match (error.raw_os_error(), error.kind()) {
        (Some(_), kind @ (io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)) => {
            io::Error::new(kind, format!("{HELPER_MISSING}: {said}"))
        }
        (_, kind) => io::Error::new(kind, said.trim_end()),
    }
}

/// Whether FUSE can be used at all.
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
    /// Who lets others in must check what they do.
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
    /// Where it is mounted: the directory's canonical path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Ends this mount from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until the mount ends, then makes everything durable and leaves the medium clean.
    pub fn wait(mut self) -> Result<(), MountError> {
        let mut end = self.ends.recv().unwrap_or(End::Over);
        if end == End::Asked {
            detach(&self.dir);
            // Programs that still have files open keep the session alive; they lose it now.
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

/// Takes a mount away: politely, so that the kernel writes back what it holds, and otherwise with
/// what is still open. That it is gone already is no error.
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

/// Has the kernel write back what it holds of mapped files.
fn write_back(dir: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(dir) = rustix::fs::open(dir, flags, Mode::empty()) {
        let _ = rustix::fs::syncfs(dir);
    }
}
