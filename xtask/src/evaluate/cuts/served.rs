//! The disks of a guest, served in this process: the one with the file system, and a small one on which
//! the guest marks what is done and asks for the next state.
//!
//! # Invariants
//! 1. Requests of both disks have one order: a mark is recorded after all writes that were complete
//!    before it.

use super::image::Image;
use super::recording::{Event, Recording};
use eraseblock_nbd::{Disk, Server};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of the control disk.
const CONTROL: u64 = 1 << 20;
/// Where the guest reads replies on the control disk.
const REPLY_AT: usize = 4096;
const SECTOR: usize = 512;

/// What follows a request of the guest for the next state.
pub(super) trait Conductor: Send {
    /// Returns the reply, after it changed the disk.
    ///
    /// # Errors
    ///
    /// Fails if a state cannot be built; the guest gets an I/O error and ends.
    fn next(&mut self, disk: &mut Recording) -> io::Result<String>;

    /// The guest cannot go on with what it was given.
    fn refuse(&mut self);
}

/// Both disks.
pub(super) struct Machine<'a> {
    state: Mutex<State<'a>>,
}

struct State<'a> {
    /// The content that the guest sees, and how it came to be.
    image: Image,
    disk: Recording,
    /// Whether the disk is recorded; the guest says when it is done.
    records: bool,
    conductor: &'a mut dyn Conductor,
    reply: String,
    /// When the guest last asked for something.
    heard: Instant,
}

impl<'a> Machine<'a> {
    pub(super) fn new(base: Image, conductor: &'a mut dyn Conductor) -> Self {
        let state = State {
            image: base.clone(),
            disk: Recording::new(base),
            records: true,
            conductor,
            reply: String::new(),
            heard: Instant::now(),
        };
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long the guest has not used the control disk.
    pub(super) fn silence(&self) -> Duration {
        self.state().heard.elapsed()
    }

    /// Serves both disks while `work` runs; it gets the sockets.
    pub(super) fn serve<T>(&self, work: impl FnOnce([PathBuf; 2]) -> T) -> io::Result<T> {
        // The path of a socket is short.
        let folder = tempfile::tempdir()?;
        let sockets = ["disk", "control"].map(|name| folder.path().join(name));
        let (data, control) = (Data(self), Control(self));
        let bind = |path: &Path| Server::bind(path);
        let servers = [bind(&sockets[0])?, bind(&sockets[1])?];
        let disks: [&dyn Disk; 2] = [&data, &control];
        std::thread::scope(|scope| {
            for (server, disk) in servers.iter().zip(disks) {
                scope.spawn(move || server.run(disk, &|_| {}));
            }
            let result = work(sockets);
            for server in &servers {
                server.stopper().stop();
            }
            Ok(result)
        })
    }
}

impl State<'_> {
    fn command(&mut self, text: &str) -> io::Result<()> {
        self.heard = Instant::now();
        let text = text.trim_end();
        if let Some(number) = text.strip_prefix("mark ") {
            let number = number.parse().map_err(|_| io::Error::other(format!("mark {number}")))?;
            self.record(Event::Mark(number));
        } else if text == "done" {
            self.records = false;
        } else if text == "refused" {
            self.conductor.refuse();
        } else if text == "next" {
            self.reply = self.conductor.next(&mut self.disk)?;
            self.image = self.disk.base.clone();
            self.records = true;
        } else {
            return Err(io::Error::other(format!("no command of a guest: {text}")));
        }
        Ok(())
    }

    fn record(&mut self, event: Event) {
        if self.records {
            self.disk.events.push(event);
        }
    }
}

struct Data<'m, 'a>(&'m Machine<'a>);

impl Disk for Data<'_, '_> {
    fn size(&self) -> u64 {
        self.0.state().image.size()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.state().image.read(offset, buf)
    }

    fn write(&self, offset: u64, data: &[u8], fua: bool) -> io::Result<()> {
        let mut state = self.0.state();
        state.image.write(offset, data);
        state.record(Event::Write { offset, data: data.into(), through: fua });
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.0.state().record(Event::Flush);
        Ok(())
    }

    fn trim(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

struct Control<'m, 'a>(&'m Machine<'a>);

impl Disk for Control<'_, '_> {
    fn size(&self) -> u64 {
        CONTROL
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        buf.fill(0);
        if usize::try_from(offset) == Ok(REPLY_AT) {
            let state = self.0.state();
            let reply = state.reply.as_bytes();
            let len = reply.len().min(buf.len()).min(SECTOR);
            buf[..len].copy_from_slice(&reply[..len]);
        }
        Ok(())
    }

    fn write(&self, _offset: u64, data: &[u8], _fua: bool) -> io::Result<()> {
        let text = String::from_utf8_lossy(&data[..data.len().min(SECTOR)]).into_owned();
        self.0.state().command(text.trim_end_matches('\0'))
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two(u32, Vec<Event>);

    impl Conductor for Two {
        fn next(&mut self, disk: &mut Recording) -> io::Result<String> {
            self.0 += 1;
            self.1.append(&mut disk.events);
            disk.base.write(0, &[7; 512]);
            Ok(format!("state {}", self.0))
        }

        fn refuse(&mut self) {}
    }

    #[test]
    fn requests_and_marks_are_recorded_in_one_order() {
        let mut two = Two(0, Vec::new());
        let machine = Machine::new(Image::new(1 << 20), &mut two);
        Data(&machine).write(512, &[1; 512], false).unwrap();
        Data(&machine).flush().unwrap();
        Control(&machine).write(8192, b"mark 3\n\0\0", true).unwrap();
        assert!(Control(&machine).write(0, b"sudo", true).is_err());
        Control(&machine).write(0, b"done", true).unwrap();
        Data(&machine).flush().unwrap();
        Control(&machine).write(0, b"next", true).unwrap();
        drop(machine);
        let write = Event::Write { offset: 512, data: vec![1; 512].into(), through: false };
        assert_eq!(two.1, [write, Event::Flush, Event::Mark(3)]);
    }

    #[test]
    fn the_next_state_replaces_the_content() {
        let mut two = Two(0, Vec::new());
        let machine = Machine::new(Image::new(1 << 20), &mut two);
        Data(&machine).write(512, &[1; 512], false).unwrap();
        Control(&machine).write(0, b"next\n", true).unwrap();
        let mut reply = [0; 512];
        Control(&machine).read(4096, &mut reply).unwrap();
        assert_eq!(&reply[..9], b"state 1\0\0");
        let mut content = [0; 1024];
        Data(&machine).read(0, &mut content).unwrap();
        assert_eq!((content[0], content[512]), (7, 0xA5));
    }
}
