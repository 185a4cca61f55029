//! A volume in memory that enforces the rules of UBI and NAND, and whose power can be cut.

use eraseblock_base::{Leb, Location};
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome};
use std::sync::{Arc, Mutex};

/// The content of the LEBs; `None` is unmapped.
pub(crate) type Lebs = Vec<Option<Arc<Vec<u8>>>>;

/// The state after an interrupted write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Torn {
    /// Nothing.
    Before,
    /// Whole minimum I/O units, about half of them.
    Half,
    /// Garbage in the first maximal write unit.
    Garbage,
    /// Everything, but success was not reported.
    After,
}

#[derive(Clone, Debug)]
struct State {
    lebs: Lebs,
    /// Number of changing operations until the cut.
    left: u64,
    torn: Torn,
    done: u64,
}

/// The volume.
#[derive(Debug)]
pub(crate) struct StrictLeb {
    leb_size: u32,
    min_io: u32,
    max_write: u32,
    state: Mutex<State>,
}

impl StrictLeb {
    pub(crate) fn new(leb_size: u32, min_io: u32, max_write: u32, lebs: u32) -> Self {
        let state =
            State { lebs: vec![None; lebs as usize], left: u64::MAX, torn: Torn::Before, done: 0 };
        Self { leb_size, min_io, max_write, state: Mutex::new(state) }
    }

    /// Creates a volume of the same shape with this content.
    pub(crate) fn with(&self, lebs: Lebs) -> Self {
        let state = State { lebs, left: u64::MAX, torn: Torn::Before, done: 0 };
        Self {
            state: Mutex::new(state),
            ..Self::new(self.leb_size, self.min_io, self.max_write, 0)
        }
    }

    pub(crate) fn lebs(&self) -> Lebs {
        self.state.lock().unwrap().lebs.clone()
    }

    /// Returns the number of changing operations so far.
    pub(crate) fn done(&self) -> u64 {
        self.state.lock().unwrap().done
    }

    /// Cuts the power at the operation after the next `left`.
    pub(crate) fn cut_after(&self, left: u64, torn: Torn) {
        let mut state = self.state.lock().unwrap();
        state.left = left;
        state.torn = torn;
    }

    fn run(
        &self,
        leb: Leb,
        change: impl FnOnce(&mut Option<Arc<Vec<u8>>>, Option<Torn>),
    ) -> Result<(), MtdError> {
        let mut state = self.state.lock().unwrap();
        state.done += 1;
        let torn = state.torn;
        if state.left == 0 {
            state.torn = Torn::Before;
            if torn != Torn::Before {
                change(&mut state.lebs[leb.index()], Some(torn));
            }
            return Err(MtdError::PowerOff);
        }
        state.left -= 1;
        change(&mut state.lebs[leb.index()], None);
        Ok(())
    }
}

impl LebDevice for StrictLeb {
    fn leb_size(&self) -> u32 {
        self.leb_size
    }

    fn min_io(&self) -> u32 {
        self.min_io
    }

    fn max_write(&self) -> u32 {
        self.max_write
    }

    fn leb_count(&self) -> u32 {
        self.state.lock().unwrap().lebs.len() as u32
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let state = self.state.lock().unwrap();
        let end = offset as usize + buf.len();
        assert!(end <= self.leb_size as usize, "read of {leb}:{offset} leaves the LEB");
        buf.fill(0xFF);
        if let Some(bytes) = &state.lebs[leb.index()] {
            let from = (offset as usize).min(bytes.len());
            let to = end.min(bytes.len());
            buf[..to - from].copy_from_slice(&bytes[from..to]);
        }
        Ok(ReadOutcome::CLEAN)
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        Ok(self.state.lock().unwrap().lebs[leb.index()].is_some())
    }

    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let unit = self.min_io as usize;
        assert!(offset.is_multiple_of(self.min_io) && data.len().is_multiple_of(unit), "{leb}");
        assert!(!data.is_empty() && offset as usize + data.len() <= self.leb_size as usize);
        self.run(leb, |slot, torn| {
            let bytes = Arc::make_mut(slot.get_or_insert_with(Arc::default));
            let at = Location::Leb(leb, offset);
            assert!(bytes.len() <= offset as usize, "{at} is written already: {}", bytes.len());
            let mut data = data.to_vec();
            match torn {
                None | Some(Torn::After) => {}
                Some(Torn::Half) => data.truncate(data.len() / unit / 2 * unit),
                Some(Torn::Before) => data.clear(),
                Some(Torn::Garbage) => {
                    let boundary = (offset + 1).next_multiple_of(self.max_write) - offset;
                    data.truncate(boundary as usize);
                    for (index, byte) in data.iter_mut().enumerate() {
                        *byte ^= (index as u8).wrapping_mul(31) | 1;
                    }
                }
            }
            if !data.is_empty() {
                bytes.resize(offset as usize, 0xFF);
                bytes.extend(data);
            }
        })
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        assert!(data.len().is_multiple_of(self.min_io as usize), "{leb}");
        assert!(data.len() <= self.leb_size as usize);
        self.run(leb, |slot, torn| {
            if matches!(torn, None | Some(Torn::After)) {
                *slot = Some(Arc::new(data.to_vec()));
            }
        })
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.run(leb, |slot, torn| {
            assert!(slot.as_ref().is_none_or(|bytes| bytes.is_empty()), "{leb} is mapped already");
            if matches!(torn, None | Some(Torn::After)) {
                *slot = Some(Arc::default());
            }
        })
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.run(leb, |slot, torn| {
            if matches!(torn, None | Some(Torn::After)) {
                *slot = None;
            }
        })
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}
