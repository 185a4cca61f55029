//! UBIFS on flash made of a simulated card.

use crate::forecast::text;
use crate::one_volume;
use eraseblock_base::VolumeId;
use eraseblock_card::{Card, CardError};
use eraseblock_mtd_host::block::{Backing, BlockDevice, BlockShape};
use eraseblock_ubi::UbiDevice;
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_ubifs_format::Compression;
use std::io;
use std::sync::Arc;

/// Bytes programmed at once.
const UNIT: u32 = 4096;

/// A card as the disk of block flash.
#[derive(Debug)]
struct CardDisk(Arc<Card>);

fn failed(error: CardError) -> io::Error {
    io::Error::other(error)
}

impl Backing for CardDisk {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.parameters().capacity)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, buf).map_err(failed)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data).map_err(failed)
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush().map_err(failed)
    }

    fn discard(&self, _offset: u64, _len: u64) {
        // The published runs mounted without discard.
    }
}

/// A UBI device on a card, with one volume that takes all of it.
#[derive(Debug)]
pub struct OnCard {
    /// The card, with its counters and its virtual time.
    pub card: Arc<Card>,
    ubi: UbiDevice,
}

impl OnCard {
    /// Makes flash with eraseblocks of `peb_size` bytes on an erased card, and an empty volume.
    ///
    /// # Errors
    ///
    /// Fails if the card cannot hold it.
    pub fn make(card: Card, peb_size: u32) -> Result<Self, String> {
        let card = Arc::new(card);
        let shape = BlockShape { peb_size, unit: UNIT };
        let flash = BlockDevice::make(CardDisk(Arc::clone(&card)), &shape).map_err(text)?;
        let layout = HeaderLayout::new(peb_size, UNIT, UNIT, None).map_err(text)?;
        let ubi = one_volume(Arc::new(flash), &layout).map_err(text)?;
        Ok(Self { card, ubi })
    }

    /// Mounts the volume; formats it the first time.
    ///
    /// # Errors
    ///
    /// Fails if UBIFS refuses it.
    pub fn mount(&self, compression: Compression) -> Result<UbifsMount, String> {
        let options = MountOptions { compression: Some(compression), ..MountOptions::default() };
        let volume = Arc::new(self.ubi.volume(VolumeId::new(0)).map_err(text)?);
        Ok(UbifsMount::mount(volume, options).map_err(text)?.0)
    }
}
