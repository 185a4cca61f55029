//! Bulk read: fewer device reads, the same bytes, and errors where they belong.

use crate::rw::file;
use crate::strict_leb::StrictLeb;
use eraseblock_base::{Leb, Location};
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_ubifs_format::Compression;
use eraseblock_vfs::{Caller, FileSystem, Ino, Timestamp, WritableFileSystem};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
const BLOCK: usize = 4096;

/// The fault injected into reads of some bytes of a LEB.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Refused,
    Flipped,
}

/// A volume that counts reads and injects faults into some.
#[derive(Debug)]
struct Reads {
    below: Arc<StrictLeb>,
    count: AtomicU64,
    harm: Mutex<Option<(u32, u32, Harm)>>,
}

impl Reads {
    fn during<T>(&self, run: impl FnOnce() -> T) -> (u64, T) {
        let before = self.count.load(Ordering::SeqCst);
        let result = run();
        (self.count.load(Ordering::SeqCst) - before, result)
    }
}

impl LebDevice for Reads {
    fn leb_size(&self) -> u32 {
        self.below.leb_size()
    }

    fn min_io(&self) -> u32 {
        self.below.min_io()
    }

    fn max_write(&self) -> u32 {
        self.below.max_write()
    }

    fn leb_count(&self) -> u32 {
        self.below.leb_count()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let outcome = self.below.read(leb, offset, buf)?;
        let Some((harmed, byte, harm)) = *self.harm.lock().unwrap() else { return Ok(outcome) };
        let within = byte.checked_sub(offset).filter(|at| (*at as usize) < buf.len());
        match (within.filter(|_| harmed == leb.get()), harm) {
            (Some(_), Harm::Refused) => {
                Err(MtdError::Failed { at: Location::Leb(leb, offset), operation: "read" })
            }
            (Some(at), Harm::Flipped) => {
                buf[at as usize] ^= 1;
                Ok(outcome)
            }
            (None, _) => Ok(outcome),
        }
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        self.below.is_mapped(leb)
    }

    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        self.below.write(leb, offset, data)
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        self.below.change(leb, data)
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.below.map(leb)
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.below.unmap(leb)
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

/// Returns a volume with LEBs in which many blocks are adjacent.
fn volume() -> Arc<Reads> {
    let below = Arc::new(StrictLeb::new(129_024, 2048, 2048, 40));
    Arc::new(Reads { below, count: AtomicU64::new(0), harm: Mutex::new(None) })
}

fn mount(volume: &Arc<Reads>, bulk_read: bool) -> UbifsMount {
    let options =
        MountOptions { bulk_read, compression: Some(Compression::None), ..MountOptions::default() };
    UbifsMount::mount(Arc::clone(volume) as _, options).unwrap().0
}

fn content(blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK).map(|n| (n / BLOCK * 7 + n % 251) as u8).collect()
}

/// Returns a file of so many blocks.
fn with_file(volume: &Arc<Reads>, content: &[u8]) -> Ino {
    let fs = mount(volume, true);
    let ino = fs.create(1, b"file", &file(), NOW).unwrap();
    fs.write(ino, 0, content, NOW).unwrap();
    fs.unmount().unwrap();
    ino
}

/// Reads pieces of so many bytes one after the other.
fn read_in_pieces(fs: &UbifsMount, ino: Ino, range: Range<usize>, piece: usize) -> Vec<u8> {
    let mut back = vec![0; range.len()];
    for (number, part) in back.chunks_mut(piece).enumerate() {
        let offset = range.start + number * piece;
        assert_eq!(fs.read(ino, offset as u64, part).unwrap(), part.len());
    }
    back
}

#[test]
fn reading_on_takes_few_device_reads() {
    let volume = volume();
    let content = content(200);
    let ino = with_file(&volume, &content);
    for (piece, most) in [(BLOCK, 18), (1000, 40), (10_000, 16), (content.len(), 12)] {
        let mut counts = Vec::new();
        for bulk_read in [true, false] {
            let fs = mount(&volume, bulk_read);
            // The index is in memory from here on.
            fs.seek_data(ino, 0).unwrap();
            read_in_pieces(&fs, ino, 0..content.len(), content.len());
            fs.read(ino, 5000, &mut [0; 10]).unwrap();
            let (count, back) = volume.during(|| read_in_pieces(&fs, ino, 0..content.len(), piece));
            assert!(back == content, "{piece}");
            counts.push(count);
        }
        assert!(counts[0] <= most, "{counts:?} device reads in pieces of {piece}");
        assert!(counts[1] >= 200, "{counts:?} device reads in pieces of {piece}");
    }
}

#[test]
fn reading_here_and_there_reads_nothing_ahead() {
    let volume = volume();
    let ino = with_file(&volume, &content(100));
    let fs = mount(&volume, true);
    let mut block = [0; BLOCK];
    for number in 0..50_u64 {
        let at = (number * 37 % 100) * BLOCK as u64;
        fs.read(ino, at, &mut block).unwrap();
        let (count, _) = volume.during(|| fs.read(ino, at, &mut block).unwrap());
        assert_eq!(count, 1);
    }
}

/// Read-ahead data is discarded when the file, or the LEB, has changed.
#[test]
fn what_was_read_ahead_is_forgotten_when_it_changes() {
    let volume = volume();
    let mut content = content(60);
    let ino = with_file(&volume, &content);
    let fs = mount(&volume, true);
    for turn in 0..40_u8 {
        assert!(read_in_pieces(&fs, ino, 0..10 * BLOCK, BLOCK) == content[..10 * BLOCK]);
        for block in [11, 13, 40] {
            content[block * BLOCK..][..BLOCK].fill(turn);
            fs.write(ino, (block * BLOCK) as u64, &[turn; BLOCK], NOW).unwrap();
        }
        // Old LEBs are collected and used again.
        let other = fs.create(1, b"other", &file(), NOW).unwrap();
        fs.write(other, 0, &vec![turn; 700_000], NOW).unwrap();
        fs.sync().unwrap();
        fs.unlink(1, b"other", NOW).unwrap();
        let range = 10 * BLOCK..content.len();
        assert!(read_in_pieces(&fs, ino, range.clone(), BLOCK) == content[range], "{turn}");
    }
}

/// Returns the node of a block, which is stored as it is.
fn place_of(volume: &Reads, content: &[u8], block: usize) -> (u32, u32) {
    let bytes = &content[block * BLOCK..][..BLOCK];
    for (leb, stored) in volume.below.lebs().iter().enumerate() {
        let Some(stored) = stored else { continue };
        if let Some(at) = stored.windows(BLOCK).position(|window| window == bytes) {
            return (leb as u32, at as u32 - 48);
        }
    }
    panic!("block {block} is not on flash");
}

#[test]
fn a_bad_node_among_others_is_named_and_the_others_are_read() {
    let volume = volume();
    let content = content(40);
    let ino = with_file(&volume, &content);
    let (leb, offset) = place_of(&volume, &content, 9);
    for harm in [Harm::Refused, Harm::Flipped] {
        for bulk_read in [true, false] {
            let fs = mount(&volume, bulk_read);
            read_in_pieces(&fs, ino, 0..content.len(), content.len());
            *volume.harm.lock().unwrap() = Some((leb, offset + 2000, harm));
            let place = format!("leb {leb}:{offset}");
            let mut all = vec![0; content.len()];
            let error = fs.read(ino, 0, &mut all).unwrap_err().to_string();
            assert!(error.contains(&place), "{error}, not {place}");
            for (number, piece) in content.chunks(BLOCK).enumerate() {
                let mut back = vec![0; BLOCK];
                match fs.read(ino, (number * BLOCK) as u64, &mut back) {
                    Ok(_) => assert!(back == piece && number != 9, "{number}"),
                    Err(error) => {
                        assert_eq!(number, 9, "{error}");
                        assert!(error.to_string().contains(&place), "{error}, not {place}");
                    }
                }
            }
            *volume.harm.lock().unwrap() = None;
        }
    }
}
