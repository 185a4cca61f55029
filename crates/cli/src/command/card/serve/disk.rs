//! A card as the disk of a server: waits as the card would, and logs every request.

use super::pace::Pace;
use crate::failure::{Context, Failure};
use eraseblock::raw::card::{Card, CardError};
use eraseblock::raw::nbd::Disk;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first line of a log.
const COLUMNS: &str =
    "number,kind,fua,offset,length,arrival_ns,service_ns,completion_ns,result,sha256\n";

/// A card that clients use.
#[derive(Debug)]
pub(super) struct Served {
    card: Card,
    desk: Mutex<Desk>,
}

/// What the requests of all clients share: the card carries out one at a time.
#[derive(Debug)]
struct Desk {
    pace: Pace,
    log: Option<File>,
    number: u64,
    /// Why the log ends.
    log_error: Option<io::Error>,
}

/// A request.
#[derive(Clone, Copy)]
struct Request<'a> {
    kind: &'static str,
    fua: bool,
    offset: u64,
    length: u64,
    /// What a write stores.
    data: &'a [u8],
}

impl Served {
    pub(super) fn new(card: Card, pace: Pace, log: Option<File>) -> io::Result<Self> {
        if let Some(mut log) = log.as_ref() {
            log.write_all(COLUMNS.as_bytes())?;
        }
        Ok(Self { card, desk: Mutex::new(Desk { pace, log, number: 0, log_error: None }) })
    }

    /// Returns the card, or the error that ended the log.
    pub(super) fn finish(self) -> Result<Card, Failure> {
        let desk = self.desk.into_inner().unwrap_or_else(PoisonError::into_inner);
        match desk.log_error {
            Some(error) => Err(error).context("the log is incomplete"),
            None => Ok(self.card),
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(
        &self,
        request: Request<'_>,
        work: impl FnOnce(&Card) -> Result<(), CardError>,
    ) -> io::Result<()> {
        let mut desk = self.desk();
        let arrival = desk.pace.arrive();
        let before = self.card.counters().total_ns();
        let outcome = work(&self.card);
        let service = self.card.counters().total_ns() - before;
        desk.record(request, arrival, service, outcome.is_ok());
        desk.pace.complete(arrival.saturating_add(service));
        outcome.map_err(io::Error::other)
    }
}

impl Desk {
    fn record(&mut self, request: Request<'_>, arrival: u64, service: u64, is_ok: bool) {
        self.number += 1;
        let Some(log) = &mut self.log else { return };
        let Request { kind, fua, offset, length, data } = request;
        let (number, fua) = (self.number, u8::from(fua));
        let completion = arrival.saturating_add(service);
        let result = if is_ok { "ok" } else { "error" };
        let mut line = format!(
            "{number},{kind},{fua},{offset},{length},{arrival},{service},{completion},{result},"
        );
        if !data.is_empty() {
            for byte in &Sha256::digest(data)[..16] {
                let _ = write!(line, "{byte:02x}");
            }
        }
        line.push('\n');
        if let Err(error) = log.write_all(line.as_bytes()) {
            self.log_error = Some(error);
            self.log = None;
        }
    }
}

impl Disk for Served {
    fn size(&self) -> u64 {
        self.card.parameters().capacity
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let length = buf.len() as u64;
        let request = Request { kind: "read", fua: false, offset, length, data: &[] };
        self.carry_out(request, |card| card.read(offset, buf))
    }

    fn write(&self, offset: u64, data: &[u8], fua: bool) -> io::Result<()> {
        let length = data.len() as u64;
        let request = Request { kind: "write", fua, offset, length, data };
        self.carry_out(request, |card| {
            if fua { card.write_through(offset, data) } else { card.write(offset, data) }
        })
    }

    fn flush(&self) -> io::Result<()> {
        let request = Request { kind: "flush", fua: false, offset: 0, length: 0, data: &[] };
        self.carry_out(request, Card::flush)
    }

    fn trim(&self, offset: u64, len: u64) -> io::Result<()> {
        let request = Request { kind: "trim", fua: false, offset, length: len, data: &[] };
        self.carry_out(request, |card| card.trim(offset, len))
    }
}
