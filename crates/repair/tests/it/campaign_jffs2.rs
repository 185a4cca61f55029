//! Random damage of a JFFS2 with a known past. What a reader delivered before the repair is there
//! afterwards, or it is named; the run time can write to one in four.

use crate::jffs2::{BLOCK, Image};
use crate::past::{Grain, Past};
use crate::random::{Dice, Outcome, Shelf, Violation, campaign, keep};
use eraseblock_base::{Geometry, MediumKind};
use eraseblock_jffs2::{Jffs2Rw, RwOptions};
use eraseblock_mtd::MemoryMtd;
use eraseblock_repair::Action;
use eraseblock_vfs::WritableFileSystem;
use std::sync::Arc;

const BLOCKS: usize = 40;

/// An image after some work. One in three is not unmounted.
fn worked(seed: u64) -> (Image, Past) {
    let kind = MediumKind::Nor;
    let geometry = Geometry::new(kind, BLOCK as u32, BLOCKS as u32, 1, 1, 0).unwrap();
    let mtd = Arc::new(MemoryMtd::new(geometry));
    let (fs, _) = Jffs2Rw::mount(Arc::clone(&mtd) as _, &RwOptions::default()).unwrap();
    let past = Past::of(&fs, seed);
    fs.sync().unwrap();
    if !seed.is_multiple_of(3) {
        fs.unmount().unwrap();
    }
    (Image(mtd.to_bytes()), past)
}

/// Damages an image in one to four ways.
fn damage(image: &mut Image, dice: &mut Dice) {
    for _ in 0..=dice.roll(4) {
        let nodes = image.all();
        if nodes.is_empty() {
            return;
        }
        let node = nodes[dice.roll(nodes.len())];
        let block = dice.roll(BLOCKS) * BLOCK;
        let other = dice.roll(BLOCKS) * BLOCK;
        match dice.roll(8) {
            0 | 1 => image.tear(node, dice.roll(node.len)),
            2 => image.0[block..block + BLOCK].fill(0xFF),
            3 => image.0.copy_within(block..block + BLOCK, other),
            4 => {
                let kept = image.0[other..other + BLOCK].to_vec();
                image.0.copy_within(block..block + BLOCK, other);
                image.0[block..block + BLOCK].copy_from_slice(&kept);
            }
            5 => image.0[node.at..node.at + node.len.min(64)].fill(dice.roll(256) as u8),
            6 => {
                // The rest of a block is not written.
                let end = (node.at / BLOCK + 1) * BLOCK;
                image.0[node.at + dice.roll(node.len)..end].fill(0xFF);
            }
            _ => {
                let at = block + dice.roll(BLOCK / 4 - 3) * 4;
                image.0[at..at + 12]
                    .copy_from_slice(&[0x85, 0x19, 0x02, 0xE0, 0xF0, 0xFF, 0xFF, 0x7F, 0, 0, 0, 0]);
            }
        }
    }
}

fn one(seed: u64, (whole, past): &(Image, Past)) -> Result<Outcome, Violation> {
    let mut image = whole.clone();
    damage(&mut image, &mut Dice::of(seed));
    let repair = match image.examined() {
        Ok(repair) => repair,
        Err(error) => return Ok(Outcome::Refused(error.to_string())),
    };
    let lines: Vec<_> = repair.plan().actions().iter().map(Action::line).collect();
    let told = |error: String| format!("{error}: {lines:#?}");
    let after = image.with(&repair);
    let second = after.examined().map_err(|error| told(format!("second run: {error}")))?;
    if !second.plan().is_empty() {
        return Err(told(format!("second run: {:?}", second.plan())));
    }
    let fs = after.fs();
    past.explains(&fs, Grain::Node).map_err(told)?;
    let losses: Vec<_> = repair.plan().losses().collect();
    if let Some(loss) = past.unnamed_loss(&past.whole(&image.fs()), &fs, &losses) {
        return Err(told(loss));
    }
    if after.0.len() == BLOCKS * BLOCK {
        keep("jffs2", seed, || after.0.clone(), &fs);
    }
    if seed.is_multiple_of(4) {
        after.is_used();
    }
    Ok(Outcome::Repaired(repair.plan().level()))
}

#[test]
fn damage_of_a_jffs2() {
    let mut shelf = Shelf::new();
    campaign(0..200, 50, |seed| one(seed, shelf.take(seed / 8, worked)));
}
