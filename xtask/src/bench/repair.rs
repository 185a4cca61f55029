//! Repair and census of a large image: to make a lost index again takes no longer than to make the image.

use super::{Bench, LEB_SIZE, Row, remove, text, timed};
use anyhow::Result;
use std::fs;

/// Bytes a second that a census takes in at least.
const CENSUS: f64 = 400e6;

impl Bench {
    /// Repairs an image without its masters, and takes a census of it.
    #[allow(clippy::cast_precision_loss)] // sizes for people
    pub(super) fn repair(&mut self) -> Result<()> {
        let names = ["whole.ubifs", "damaged.ubifs", "fixed.ubifs"];
        let [whole, damaged, fixed] = names.map(|name| self.path(name));
        let make = self.our_mkfs("lzo", &whole);
        timed(&make)?;
        let leb: usize = LEB_SIZE.parse()?;
        let mut bytes = fs::read(&whole)?;
        bytes[leb..3 * leb].fill(0xFF);
        fs::write(&damaged, bytes)?;
        let mut repair = vec![self.binary(), "repair".into(), text(&damaged)];
        repair.extend(["-q", "--level", "rebuild", "-o"].map(String::from));
        repair.push(text(&fixed));
        let (ours, peer) = self.compare(&repair, &make, &[&fixed, &whole])?;
        self.row("repair --level rebuild against mkfs ubifs".into(), ours, peer, 1.0);
        let census = ["debug", &text(&whole), "-c", "census"].map(String::from);
        let census = [vec![self.binary()], census.to_vec()].concat();
        let [best] = self.best(|| Ok([timed(&census)?]))?;
        let size = fs::metadata(&whole)?.len() as f64;
        let speed = size / best.seconds;
        self.add(Row {
            what: "census, against 400 MB/s".to_owned(),
            ours: speed / 1e6,
            peer: CENSUS / 1e6,
            unit: "MB/s",
            ratio: CENSUS / speed,
            wanted: 1.0,
            met: speed >= CENSUS,
        });
        [whole, damaged, fixed].iter().try_for_each(|path| remove(path))
    }
}
