//! Random damage of a UBI with a UBIFS in it, whose past is known. Both are repaired, as the command
//! does it: first the UBI, then the volume.

use crate::campaign::is_unknown;
use crate::chip::{Chip, DATA, PEB, VID, layout};
use crate::past::{Grain, Past};
use crate::random::{Dice, Outcome, Shelf, Violation, campaign, keep};
use crate::volume::{Memory, empty, examined, leave, opened};
use eraseblock_base::crc::crc32;
use eraseblock_base::{Geometry, Leb, MediumKind, VolumeId};
use eraseblock_mtd::{LebDevice, MemoryMtd};
use eraseblock_repair::{Action, Level, Loss, Repair};
use eraseblock_ubi::{OpenOptions, UbiDevice};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use std::sync::Arc;

const BLOCKS: usize = 80;
const ROOTFS: VolumeId = VolumeId::new(0);

/// A flash after some work.
struct Worked {
    chip: Chip,
    past: Past,
    is_committed: bool,
}

/// A flash in use. Old eraseblocks stay on some of them, as after a power cut.
fn device(chip: &Chip) -> (Arc<MemoryMtd>, UbiDevice) {
    let (kind, count) = (MediumKind::Nand, chip.count() as u32);
    let geometry = Geometry::new(kind, PEB as u32, count, 512, 256, 16).unwrap();
    let mtd = Arc::new(MemoryMtd::with_bytes(geometry, chip.bytes.clone()));
    let ubi = UbiDevice::open(Arc::clone(&mtd) as _, &layout(), &OpenOptions::default()).unwrap();
    (mtd, ubi)
}

fn worked(seed: u64) -> Worked {
    let mut chip = Chip::of(&empty(crate::chip::LEBS));
    while chip.count() < BLOCKS {
        chip.add_free();
    }
    let (mtd, ubi) = device(&chip);
    let volume = || -> Arc<dyn LebDevice> { Arc::new(ubi.volume(ROOTFS).unwrap()) };
    let mount = || UbifsMount::mount(volume(), MountOptions::default()).unwrap().0;
    let fs = mount();
    let past = Past::of(&fs, seed);
    let is_committed = leave(fs, seed, mount);
    while seed.is_multiple_of(2) && ubi.background_step().unwrap() {}
    Worked { chip: Chip { bytes: mtd.to_bytes() }, past, is_committed }
}

/// Damages a flash in one to four ways.
fn damage(chip: &mut Chip, dice: &mut Dice) {
    for _ in 0..=dice.roll(4) {
        let is_used = |peb: &usize| chip.block(*peb)[VID..VID + 4] == *b"UBI!";
        let used: Vec<usize> = (0..chip.count()).filter(is_used).collect();
        let peb = used.get(dice.roll(used.len())).copied().unwrap_or_default();
        let other = dice.roll(chip.count());
        match dice.roll(10) {
            0 => chip.flip(peb, dice.roll(64)),
            1 => chip.flip(peb, VID + dice.roll(64)),
            2 => {
                // A header that says something else, with its checksum.
                let (start, len) = [(0, 60), (VID, 60)][dice.roll(2)];
                chip.flip(peb, start + dice.roll(len));
                let sum = crc32(&chip.block(peb)[start..start + len]).to_be_bytes();
                chip.put(peb, start + len, &sum);
            }
            3 => chip.put(peb, 0, &[0xFF; PEB]),
            4 => {
                let block = chip.block(other).to_vec();
                chip.put(peb, 0, &block);
            }
            5 => {
                let (one, two) = (chip.block(peb).to_vec(), chip.block(other).to_vec());
                chip.put(peb, 0, &two);
                chip.put(other, 0, &one);
            }
            6 => {
                // Not all of it was written.
                let at = dice.roll(PEB / 512) * 512;
                chip.put(peb, at, &vec![0xFF; PEB - at]);
            }
            7 => chip.put(peb, [0, VID, DATA][dice.roll(3)], &[dice.roll(256) as u8; 200]),
            8 => {
                // Both copies of the volume table, in the same record or not.
                for peb in chip.table() {
                    let record = Chip::record_at(dice.roll(2) as u32);
                    chip.flip(peb, record + dice.roll(172));
                }
            }
            _ => chip.flip(peb, DATA + dice.roll(PEB - DATA)),
        }
    }
}

/// The LEBs of the volume with the file system.
fn volume_of(chip: &Chip) -> Result<Arc<Memory>, String> {
    let volume = chip.attached().volume(ROOTFS).map_err(|error| error.to_string())?;
    let lebs = (0..volume.leb_count()).map(|leb| {
        let leb = Leb::new(leb);
        let is_mapped = volume.is_mapped(leb).map_err(|error| error.to_string())?;
        let mut bytes = vec![0; volume.leb_size() as usize];
        if is_mapped {
            volume.read(leb, 0, &mut bytes).map_err(|error| error.to_string())?;
        }
        Ok(is_mapped.then_some(bytes))
    });
    Ok(Memory::of(lebs.collect::<Result<_, String>>()?))
}

/// The flash after the repair of its volume.
fn written(chip: &Chip, repair: &Repair) -> Vec<u8> {
    let (mtd, ubi) = device(chip);
    repair.apply(&ubi.volume(ROOTFS).unwrap()).unwrap();
    ubi.detach().unwrap();
    mtd.to_bytes()
}

fn one(seed: u64, worked: &Worked) -> Result<Outcome, Violation> {
    let mut chip = worked.chip.clone();
    let mut dice = Dice::of(seed);
    damage(&mut chip, &mut dice);
    let level = [Level::Safe, Level::Drop, Level::Rebuild][dice.roll(3)];
    let flash = match chip.examined(level) {
        Ok(repair) => repair,
        Err(error) => return Ok(Outcome::Refused(error.to_string())),
    };
    let mut lines: Vec<_> = flash.plan().actions().iter().map(Action::line).collect();
    let after = chip.with(&flash);
    let second = after.examined(level).map_err(|error| format!("{error}: {lines:#?}"))?;
    if !second.plan().is_empty() {
        return Err(format!("second run: {:#?}: {lines:#?}", second.plan()));
    }
    let Ok(volume) = volume_of(&after) else {
        return Ok(Outcome::Refused("the volume is lost".to_owned()));
    };
    let repair = match examined(&volume) {
        Ok(repair) => repair,
        Err(error) => return Ok(Outcome::Refused(error.to_string())),
    };
    lines.extend(repair.plan().actions().iter().map(Action::line));
    let told = |error: String| format!("{error}: {lines:#?}");
    repair.apply(&*volume).map_err(|error| error.to_string())?;
    let second = examined(&volume).map_err(|error| told(format!("second run: {error}")))?;
    if !second.plan().is_empty() {
        return Err(told(format!("second run: {:?}", second.plan())));
    }
    let fs = opened(&volume);
    if after.count() == BLOCKS && flash.left().is_empty() {
        keep("ubi", seed, || written(&after, &repair), &fs);
    }
    worked.past.explains(&fs, Grain::Block).map_err(told)?;
    let losses: Vec<&Loss> = flash.plan().losses().chain(repair.plan().losses()).collect();
    let unnamed = worked.past.unnamed_loss(&worked.past.files(), &fs, &losses);
    let is_unknown = !worked.is_committed || is_unknown(&repair);
    match unnamed.filter(|_| !is_unknown) {
        Some(loss) => Err(told(loss)),
        None => Ok(Outcome::Repaired(flash.plan().level().max(repair.plan().level()))),
    }
}

#[test]
fn damage_of_a_ubi() {
    let mut shelf = Shelf::new();
    campaign(0..200, 20, |seed| one(seed, shelf.take(seed / 8, worked)));
}
