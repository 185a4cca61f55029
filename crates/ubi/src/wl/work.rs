//! Takes, returns and erases eraseblocks (spec: ubi 14.3 to 14.10).

use super::{Erasing, Place, Work};
use crate::core::Core;
use crate::error::UbiError;
use crate::io::is_eio;
use crate::runtime::ReadOnlyReason;
use eraseblock_base::{Leb, Peb, VolumeId};
use eraseblock_ubi_format::{EraseCount, HeaderState};

impl Core {
    /// Takes a free block for new data and protects it from moves for a while (spec: ubi 14.3). If
    /// none is free, performs pending work.
    pub(crate) fn get_peb(&mut self) -> Result<Peb, UbiError> {
        // Every step erases a block or gives up a move, and a failed erase leads to a bad block or
        // to read-only mode. This bounds the number of steps.
        let mut patience = 4 * self.wl.ecs().len() + 4;
        while self.fastmap.is_none() && self.wl.free.is_empty() && patience > 0 {
            patience -= 1;
            if !self.step()? {
                break;
            }
        }
        let peb = match self.fastmap {
            None => self.wl.data_target(),
            Some(_) => self.pool_peb()?,
        };
        let Some(peb) = peb else {
            return Err(UbiError::NoSpace { wanted: 1, available: 0 });
        };
        self.wl.take(peb);
        self.wl.put(peb, Place::Protected);
        Ok(peb)
    }

    /// Returns a block that no longer holds a LEB; it is erased in the background.
    pub(crate) fn put_peb(&mut self, peb: Peb, how: Erasing, owner: Option<(VolumeId, Leb)>) {
        let place = self.wl.take(peb);
        let how = if place == Place::Erroneous { Erasing::Tortured } else { how };
        self.wl.queue_erase(peb, how, owner);
    }

    /// Performs the next work in the queue; returns `false` if there is none.
    pub(crate) fn step(&mut self) -> Result<bool, UbiError> {
        self.check_writable()?;
        let Some(work) = self.wl.next_work(|_| true) else { return Ok(false) };
        self.run(work)?;
        Ok(true)
    }

    /// Performs all queued erases of a LEB, or of a volume (spec: ubi 14.10).
    pub(crate) fn flush_erasures(
        &mut self,
        volume: VolumeId,
        leb: Option<Leb>,
    ) -> Result<(), UbiError> {
        // Blocks found at attach may have held any LEB.
        let matches = |work: &Work| match work {
            Work::Erase { owner: Some((of, at)), .. } => {
                *of == volume && leb.is_none_or(|leb| leb == *at)
            }
            Work::Erase { owner: None, .. } => true,
            Work::Move => false,
        };
        self.check_writable()?;
        while let Some(work) = self.wl.next_work(matches) {
            self.run(work)?;
        }
        Ok(())
    }

    pub(crate) fn run(&mut self, work: Work) -> Result<(), UbiError> {
        match work {
            Work::Erase { peb, erasing, .. } => {
                self.wl.take(peb);
                self.erase_now(peb, erasing)
            }
            Work::Move => self.move_leb(),
        }
    }

    /// Erases a block that is in no set, and makes it free (spec: ubi 14.8).
    pub(crate) fn erase_now(&mut self, peb: Peb, how: Erasing) -> Result<(), UbiError> {
        match self.try_erase(peb, how) {
            Ok(()) => {
                self.wl.put_free(peb);
                self.wl.serve_queue();
                self.wl.schedule_move();
                Ok(())
            }
            Err(UbiError::Device(error)) if is_eio(&error) => self.retire(peb, error.into()),
            Err(error) => {
                self.wl.put(peb, Place::Corrupted);
                self.fail(ReadOnlyReason::EraseFailed, error)
            }
        }
    }

    pub(crate) fn try_erase(&mut self, peb: Peb, how: Erasing) -> Result<(), UbiError> {
        self.erase_older_anchors(peb)?;
        let mut erasures = 1;
        if self.was_erased(peb)? && how == Erasing::Plain {
            self.forget_anchor(peb);
            return Ok(());
        }
        self.io.invalidate_headers(peb)?;
        if how == Erasing::Tortured {
            self.counters.tortures += 1;
            self.io.torture(peb)?;
            erasures += 3;
        }
        self.io.erase(peb)?;
        self.forget_anchor(peb);
        self.counters.erasures += 1;
        let ec = u64::from(self.wl.ec(peb)) + erasures;
        let erase_count = EraseCount::new(ec).ok_or(UbiError::Request {
            field: "erase counter",
            found: ec,
            expected: "at most 2147483647",
        })?;
        self.io.write_ec(peb, erase_count)?;
        self.wl.set_ec(peb, erase_count.get());
        Ok(())
    }

    /// Reads the headers again of a block that a fastmap lists. Its counter may be higher on flash, and
    /// must not fall. Returns whether it was erased since: the EC header is written after that. A second
    /// erase might be cut while this header still reads well, and a scan would find a free block that
    /// cannot be programmed.
    pub(crate) fn was_erased(&mut self, peb: Peb) -> Result<bool, UbiError> {
        if !self.wl.is_unsure(peb) {
            return Ok(false);
        }
        let state = self.io.read_ec(peb)?;
        let (HeaderState::Ok(header) | HeaderState::Bitflips(header)) = &state else {
            return Ok(false);
        };
        self.wl.set_ec(peb, header.erase_count.get().max(self.wl.ec(peb)));
        let is_clean = matches!(state, HeaderState::Ok(_));
        Ok(is_clean && matches!(self.io.read_vid(peb)?, HeaderState::Erased))
    }

    /// Marks a block bad that can no longer be erased; a reserved one replaces it (spec: ubi 14.8,
    /// step 6).
    pub(crate) fn retire(&mut self, peb: Peb, error: UbiError) -> Result<(), UbiError> {
        if !self.io.can_have_bad_blocks() {
            self.wl.put(peb, Place::Corrupted);
            return self.fail(ReadOnlyReason::EraseFailed, error);
        }
        let mut books = self.books;
        if !books.lose_block() {
            self.wl.put(peb, Place::Corrupted);
            return self.fail(ReadOnlyReason::NoReserve, error);
        }
        if let Err(error) = self.io.device.mark_bad(peb) {
            self.wl.put(peb, Place::Corrupted);
            return self.fail(ReadOnlyReason::MarkBadFailed, error);
        }
        self.wl.put(peb, Place::Bad);
        self.forget_anchor(peb);
        self.books = books;
        self.counters.marked_bad += 1;
        Ok(())
    }

    /// Reads the headers and the data of a block; after bit flips marks its LEB for moving.
    pub(crate) fn request_scrub(&mut self, peb: Peb) {
        if self.wl.request_scrub(peb) {
            self.counters.scrubs += 1;
        }
    }
}
