//! Moving LEBs, to level wear or away from bit-flips (spec: ubi 13.7, 14.6).

use super::{Erasing, Place};
use crate::core::Core;
use crate::error::UbiError;
use crate::io::is_eio;
use crate::runtime::ReadOnlyReason;
use eraseblock_base::Peb;
use eraseblock_base::align::is_erased;
use eraseblock_base::crc::crc32;
use eraseblock_ubi_format::{HeaderState, ReadQuality, VidHeader, VolumeKind};

/// The result of copying a LEB.
enum Copy {
    Done,
    /// The block no longer belongs to a LEB.
    Cancelled,
    /// The new block failed.
    TargetFailed,
    /// The old block cannot be read.
    SourceFailed,
}

impl Core {
    /// Performs a wear-levelling step: moves one LEB if that is worthwhile.
    pub(super) fn move_leb(&mut self) -> Result<(), UbiError> {
        if self.wl.move_target().is_none() && self.wl.can_refill_moves() {
            self.refresh_fastmap()?;
        }
        let Some(target) = self.wl.move_target() else { return Ok(()) };
        let Some(source) = self.wl.move_source(target) else { return Ok(()) };
        let back = self.wl.take(source);
        self.wl.take(target);
        match self.io.read_vid(source) {
            Ok(HeaderState::Ok(header) | HeaderState::Bitflips(header)) => {
                self.move_to(source, target, &header, back)
            }
            Ok(_) if self.drop_stale(source) => {
                self.wl.put_back(target);
                Ok(())
            }
            state => {
                self.wl.put(source, Place::Erroneous);
                self.wl.put_back(target);
                self.check_erroneous()?;
                match state {
                    Err(error) if !is_eio(&error) => self.fail(ReadOnlyReason::MoveFailed, error),
                    _ => Ok(()),
                }
            }
        }
    }

    fn move_to(
        &mut self,
        source: Peb,
        target: Peb,
        header: &VidHeader,
        back: Place,
    ) -> Result<(), UbiError> {
        let owner = Some((header.volume, header.leb));
        match self.copy(source, target, header) {
            Ok(Copy::Done) => {
                self.counters.moves += 1;
                self.wl.put(target, Place::Used);
                self.erase_now(source, Erasing::Plain)
            }
            Ok(Copy::Cancelled) => {
                self.wl.put(source, Place::Protected);
                self.wl.put_back(target);
                Ok(())
            }
            Ok(Copy::TargetFailed) => {
                self.counters.write_errors += 1;
                self.wl.put(source, back);
                self.wl.queue_erase(target, Erasing::Tortured, owner);
                self.wl.schedule_move();
                Ok(())
            }
            Ok(Copy::SourceFailed) => {
                self.wl.put(source, Place::Erroneous);
                self.wl.put_back(target);
                self.wl.schedule_move();
                self.check_erroneous()
            }
            Err(error) => {
                self.wl.put(source, back);
                self.wl.put(target, Place::Corrupted);
                self.fail(ReadOnlyReason::MoveFailed, error)
            }
        }
    }

    fn check_erroneous(&mut self) -> Result<(), UbiError> {
        let limit = (self.wl.ecs().len() / 10).max(16);
        if self.wl.erroneous.len() > limit {
            let reason = ReadOnlyReason::TooManyErroneous;
            return self.fail(reason, UbiError::ReadOnly { reason });
        }
        Ok(())
    }

    fn copy(&mut self, source: Peb, target: Peb, header: &VidHeader) -> Result<Copy, UbiError> {
        let current = self.volumes.get(&header.volume).and_then(|volume| volume.peb(header.leb));
        if current != Some(source) {
            return Ok(Copy::Cancelled);
        }
        let Some(data) = self.read_source(source, header)? else { return Ok(Copy::SourceFailed) };
        let mut new = *header;
        if !data.is_empty() {
            let covered = match header.kind {
                VolumeKind::Static => &data[..header.data_size as usize],
                VolumeKind::Dynamic => &data[..],
            };
            new.copy_flag = true;
            new.data_size = u32::try_from(covered.len()).expect("within a LEB");
            new.data_crc = crc32(covered);
        }
        new.sqnum = self.next_sqnum();
        if let Err(error) = self.io.write_vid(target, &new) {
            return target_failed(error);
        }
        match self.io.read_vid(target) {
            Ok(HeaderState::Ok(_)) => {}
            Err(error) if !is_eio(&error) => return Err(error.into()),
            _ => return Ok(Copy::TargetFailed),
        }
        if !data.is_empty()
            && let Err(error) = self.io.write_data(target, 0, &data)
        {
            return target_failed(error);
        }
        let volume = self.volume_mut(header.volume)?;
        volume.map[header.leb.index()] = Some(target);
        Ok(Copy::Done)
    }

    /// Returns the data to move; `None` if it cannot be read.
    fn read_source(&self, source: Peb, header: &VidHeader) -> Result<Option<Vec<u8>>, UbiError> {
        let layout = &self.io.layout;
        let len = match header.kind {
            VolumeKind::Static => {
                header.data_size.next_multiple_of(layout.min_io()).min(layout.leb_size())
            }
            VolumeKind::Dynamic => layout.leb_size() - header.data_pad,
        };
        let mut data = vec![0; len as usize];
        match self.read_data(source, 0, &mut data) {
            Ok(outcome) if self.io.quality(outcome) == ReadQuality::Uncorrectable => {
                return Ok(None);
            }
            Ok(_) => {}
            Err(error) if is_eio(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        if header.kind == VolumeKind::Dynamic {
            data.truncate(used_len(&data, layout.min_io() as usize));
        }
        Ok(Some(data))
    }
}

fn target_failed(error: eraseblock_mtd::MtdError) -> Result<Copy, UbiError> {
    if is_eio(&error) { Ok(Copy::TargetFailed) } else { Err(error.into()) }
}

/// Returns the length without the erased units at the end.
pub(crate) fn used_len(data: &[u8], unit: usize) -> usize {
    let erased = data.rchunks(unit).take_while(|unit| is_erased(unit)).map(<[u8]>::len);
    data.len() - erased.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::used_len;

    #[test]
    fn erased_units_at_the_end_do_not_count() {
        assert_eq!(used_len(&[0xFF; 8], 4), 0);
        assert_eq!(used_len(&[0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], 4), 4);
        assert_eq!(used_len(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF], 4), 8);
        assert_eq!(used_len(&[], 4), 0);
    }
}
