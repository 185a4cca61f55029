//! When the card of a server answers.

use std::time::{Duration, Instant};

/// The last part of a wait does not sleep: the host's scheduler may wake the thread too late for
/// the time of one page.
const AWAKE: Duration = Duration::from_micros(100);

/// Relates the virtual time of a card to the time of the host.
#[derive(Debug)]
pub(super) struct Pace {
    start: Instant,
    factor: f64,
    /// Virtual time at which the card is done with everything.
    done_ns: u64,
}

impl Pace {
    /// Host time passes `factor` times as fast as virtual time; with 0 no request ever waits.
    pub(super) fn new(factor: f64) -> Self {
        Self { start: Instant::now(), factor, done_ns: 0 }
    }

    /// Returns the virtual time of a request that arrives now: the card carries out one at a time.
    pub(super) fn arrive(&self) -> u64 {
        if self.factor == 0.0 {
            return self.done_ns;
        }
        let virtual_time = self.start.elapsed().div_f64(self.factor);
        let now = u64::try_from(virtual_time.as_nanos()).unwrap_or(u64::MAX);
        now.max(self.done_ns)
    }

    /// Waits until virtual time `done_ns`, when a request is complete.
    pub(super) fn complete(&mut self, done_ns: u64) {
        self.done_ns = done_ns;
        let until = self.start + Duration::from_nanos(done_ns).mul_f64(self.factor);
        std::thread::sleep(until.saturating_duration_since(Instant::now() + AWAKE));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}
