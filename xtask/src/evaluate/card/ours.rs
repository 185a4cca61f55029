//! UBIFS on flash made of a card, in process: what each step costs the card, in virtual time.

use crate::bench::ubifs_rw::{Entry, read_all, remove, unpack};
use crate::evaluate::rows::{Cell, Fidelity, Row};
use anyhow::{Result, ensure};
use eraseblock_base::random::SplitMix64;
use eraseblock_card::{Card, Counters, presets};
use eraseblock_lab::card::OnCard;
use eraseblock_ubifs::UbifsMount;
use eraseblock_ubifs_format::Compression;
use eraseblock_vfs::{FileSystem, WritableFileSystem};
use std::sync::Arc;

/// Eraseblocks of the flash: the usual size, and the largest for UBIFS.
pub(super) const PEB_SIZES: [u32; 2] = [128 << 10, 2 << 20];

/// The table of the rows.
const TABLE: &str = "U1";
const CAPACITY: u64 = 1 << 30;
/// Files of the tree, in directories of 100, and their mean size.
const FILES: u64 = 3000;
const MEAN: u64 = 12 << 10;
/// Bytes of the large file.
const LARGE: usize = 64 << 20;

/// Measures both workloads on a new card each and returns their rows; fails if a second run has
/// other costs, or if what is read back is not what was written.
pub(super) fn rows(peb_size: u32) -> Result<Vec<Row>> {
    let name = eraseblock_base::size::format_size(peb_size.into());
    let medium = format!("sd-2012-c10 of 1 GiB, eraseblocks of {name}");
    let mut rows = Vec::new();
    for (what, entries) in [("tree", tree()), ("large file", large())] {
        let steps = measure(peb_size, &entries)?;
        ensure!(steps == measure(peb_size, &entries)?, "{what}: a second run costs something else");
        for (step, cost) in steps {
            let label = format!("{what}: {step}");
            let row = |(metric, unit, value): (&str, &str, Cell)| {
                Row::new(TABLE, &label, metric, unit)
                    .on("ubifs without compression", medium.as_str())
                    .published("not published", "")
                    .linux("not run: in process")
                    .ours(value, Fidelity::Model)
            };
            rows.extend(cost.cells().map(row));
        }
    }
    Ok(rows)
}

/// What a step costs the card.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::evaluate) struct Cost {
    pub(in crate::evaluate) nanoseconds: u64,
    pub(in crate::evaluate) written: u64,
    pub(in crate::evaluate) copied: u64,
    pub(in crate::evaluate) read: u64,
    pub(in crate::evaluate) erases: u64,
}

impl Cost {
    /// Returns metric, unit and value of each counter.
    fn cells(&self) -> [(&'static str, &'static str, Cell); 5] {
        let mebibytes = |bytes: u64| hundredths(bytes, 1 << 20);
        [
            ("card time", "s", hundredths(self.nanoseconds, 1_000_000_000)),
            ("written by the host", "MiB", mebibytes(self.written)),
            ("copied by the card", "MiB", mebibytes(self.copied)),
            ("read", "MiB", mebibytes(self.read)),
            ("erases", "", self.erases.into()),
        ]
    }

    pub(in crate::evaluate) fn between(before: &Counters, after: &Counters) -> Self {
        let done = after.since(before);
        Self {
            nanoseconds: done.total_ns(),
            written: done.host_bytes(),
            copied: done.copied_bytes,
            read: done.read_bytes,
            erases: done.erases(),
        }
    }
}

/// Returns a count in units, in hundredths.
#[allow(clippy::cast_precision_loss)] // figures for people
pub(in crate::evaluate) fn hundredths(count: u64, unit: u64) -> Cell {
    ((count as f64 / unit as f64 * 100.0).round() / 100.0).into()
}

/// Runs a workload on a new card.
fn measure(peb_size: u32, entries: &[Entry]) -> Result<Vec<(&'static str, Cost)>> {
    let preset = presets::find("sd-2012-c10")?;
    let card = Card::in_memory(preset.parameters.with_capacity(CAPACITY))?;
    let mut steps = Vec::new();
    let mut last = card.counters();
    let on = on_card(card, peb_size)?;
    let card = Arc::clone(&on.card);
    let mount = || mount_with(&on, Compression::None);
    let mut done = |step| {
        let now = card.counters();
        steps.push((step, Cost::between(&last, &now)));
        last = now;
    };
    mount()?.unmount()?;
    done("format");
    let mounted = mount()?;
    unpack(&mounted, entries)?;
    mounted.sync()?;
    done("write and sync");
    mounted.unmount()?;
    let mounted = mount()?;
    done("mount again");
    let read = read_all(&mounted, mounted.root())?;
    let content: usize = entries.iter().map(Entry::len).sum();
    ensure!(read == content, "{read} bytes read back of {content}");
    done("read all");
    remove(&mounted, mounted.root())?;
    mounted.sync()?;
    done("remove all and sync");
    Ok(steps)
}

/// Returns UBIFS on block flash on a card.
pub(in crate::evaluate) fn on_card(card: Card, peb_size: u32) -> Result<OnCard> {
    OnCard::make(card, peb_size).map_err(anyhow::Error::msg)
}

/// Mounts it.
pub(in crate::evaluate) fn mount_with(on: &OnCard, compression: Compression) -> Result<UbifsMount> {
    on.mount(compression).map_err(anyhow::Error::msg)
}

/// Small files, always the same ones.
fn tree() -> Vec<Entry> {
    let mut chance = SplitMix64::new(1);
    let mut entries = Vec::new();
    for number in 0..FILES {
        if number % 100 == 0 {
            entries.extend((number > 0).then_some(Entry::End));
            entries.push(Entry::Dir(format!("d{}", number / 100).into_bytes()));
        }
        let len = usize::try_from(chance.below(2 * MEAN)).unwrap_or(0);
        entries.push(Entry::File(format!("f{number}").into_bytes(), noise(&mut chance, len)));
    }
    entries.push(Entry::End);
    entries
}

fn large() -> Vec<Entry> {
    vec![Entry::File(b"large".to_vec(), noise(&mut SplitMix64::new(2), LARGE))]
}

fn noise(chance: &mut SplitMix64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(chance.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_flash_on_a_card_costs_the_same_in_every_run() {
        let rows = rows(PEB_SIZES[1]).unwrap();
        assert_eq!(rows.len(), 2 * 5 * 5);
        let is_time = |row: &&Row| row.row.ends_with("write and sync") && row.unit == "s";
        assert!(rows.iter().filter(is_time).all(|row| row.ours != Cell::Number(0.0)));
    }
}
