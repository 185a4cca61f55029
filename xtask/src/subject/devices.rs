//! Every call of the host's devices, each with its expected result.

use super::{leb_line, pattern};
use anyhow::{Context, Result, ensure};
use eraseblock_base::{Leb, MediumKind, Peb};
use eraseblock_mtd::{Access, LebDevice, Mtd, MtdError};
use eraseblock_mtd_host::{HostError, MtdChar, MtdOptions, UbiChar};
use std::fs;
use std::path::Path;

const WRITABLE: MtdOptions = MtdOptions { writable: true, raw: false };
/// The block for writes.
const PEB: Peb = Peb::new(10);
/// The block to mark bad.
const TO_BE_BAD: Peb = Peb::new(20);

/// Performs every call of an MTD device; `out/block` gets the resulting content of its block 10,
/// `out/facts` the driver's description.
pub(super) fn drive_mtd(path: &Path, out: &Path) -> Result<()> {
    let reader = MtdChar::open(path, MtdOptions::default())?;
    let is_refused = matches!(reader.erase(PEB), Err(MtdError::ReadOnly { .. }));
    ensure!(is_refused, "a reader may erase");
    let busy = MtdChar::open(path, WRITABLE);
    ensure!(matches!(busy, Err(HostError::Busy { .. })), "a second opener: {busy:?}");
    drop(reader);
    let device = MtdChar::open(path, WRITABLE)?;
    let geometry = *device.geometry();
    let mut bad = Vec::new();
    for peb in geometry.pebs() {
        if device.is_bad(peb)? {
            bad.push(peb.get());
        }
    }
    fs::write(out.join("facts"), format!("{geometry:?}\n{:?}\nbad {bad:?}\n", device.facts()))?;
    programs(&device, out)?;
    refusals(&device, bad.first().copied())?;
    if geometry.kind() == MediumKind::Nand {
        spare_bytes(&device)?;
        raw_reads(path, device)?;
    }
    Ok(())
}

fn programs(device: &MtdChar, out: &Path) -> Result<()> {
    let geometry = *device.geometry();
    let (start, page) = (geometry.address_of(PEB), geometry.min_io().max(512));
    let mut expected = vec![0xFF; geometry.peb_size() as usize];
    let mut found = expected.clone();
    device.erase(PEB)?;
    device.read(start, &mut found)?;
    ensure!(found == expected, "an erased block does not read as 0xFF");
    let unit = geometry.subpage().max(256) as usize;
    let places = [(0, page as usize, 1), (page as usize, unit, 2), (3 * page as usize, unit, 3)];
    for (at, len, salt) in places {
        expected[at..at + len].copy_from_slice(&pattern(len, salt));
        device.program(start + at as u64, &expected[at..at + len])?;
    }
    device.read(start, &mut found)?;
    ensure!(found == expected, "a block does not read as it was written");
    let mut some = vec![0; 1001];
    device.read(start + 77, &mut some)?;
    ensure!(some == expected[77..77 + 1001], "an unaligned read differs");
    Ok(fs::write(out.join("block"), expected)?)
}

fn refusals(device: &MtdChar, bad: Option<u32>) -> Result<()> {
    let size = device.geometry().size();
    let behind = device.read(size - 1, &mut [0; 2]);
    ensure!(matches!(behind, Err(MtdError::Range { .. })), "behind the end: {behind:?}");
    if device.geometry().kind() == MediumKind::Nand {
        let odd = device.program(1, &[0; 3]);
        ensure!(matches!(odd, Err(MtdError::Range { .. })), "part of a unit: {odd:?}");
    }
    if let Some(bad) = bad {
        let erased = device.erase(Peb::new(bad));
        ensure!(matches!(erased, Err(MtdError::Failed { .. })), "a bad block: {erased:?}");
        ensure!(!device.is_bad(TO_BE_BAD)?, "{TO_BE_BAD:?} is bad already");
        device.mark_bad(TO_BE_BAD)?;
        ensure!(device.is_bad(TO_BE_BAD)?, "a block marked bad is not bad");
    }
    Ok(())
}

fn spare_bytes(device: &MtdChar) -> Result<()> {
    let geometry = *device.geometry();
    let page = u64::from(geometry.min_io());
    // Free bytes of both layouts.
    let offset = if geometry.oob_size() < 64 { 8 } else { 2 };
    let at = geometry.address_of(PEB) + 5 * page;
    device.program_oob(at, offset, &[1, 2, 3, 4])?;
    let mut spare = vec![0; geometry.oob_size() as usize];
    device.read_oob(at, 0, &mut spare)?;
    let place = offset as usize;
    ensure!(spare[place..place + 4] == [1, 2, 3, 4], "out-of-band bytes: {spare:?}");
    let both = at + page;
    let data = pattern(geometry.min_io() as usize, 9);
    let mut oob = vec![0xFF; geometry.oob_size() as usize];
    oob[place..place + 2].copy_from_slice(&[0xAB, 0xCD]);
    device.program_with_oob(both, &data, &oob)?;
    let mut found = vec![0; data.len()];
    let outcome = device.read_with_oob(both, &mut found, &mut spare)?;
    ensure!(found == data && !outcome.uncorrectable, "data written with out-of-band bytes");
    ensure!(spare[place..place + 2] == [0xAB, 0xCD], "out-of-band bytes with data: {spare:?}");
    let beyond = device.read_oob(at, geometry.oob_size(), &mut [0; 1]);
    ensure!(matches!(beyond, Err(MtdError::Range { .. })), "beyond the spare bytes: {beyond:?}");
    // Leaves the block as it was.
    let mut block = vec![0; geometry.peb_size() as usize];
    device.read(geometry.address_of(PEB), &mut block)?;
    device.erase(PEB)?;
    for number in [0, 1, 3] {
        let from = number * geometry.min_io() as usize;
        let data = &block[from..from + geometry.min_io() as usize];
        device.program(geometry.address_of(PEB) + from as u64, data)?;
    }
    Ok(())
}

/// Checks that the bytes are the same without ECC, if nothing flipped.
fn raw_reads(path: &Path, device: MtdChar) -> Result<()> {
    let start = device.geometry().address_of(PEB);
    let mut corrected = vec![0; device.geometry().peb_size() as usize];
    device.read(start, &mut corrected)?;
    // The simulator flips bits in one of a thousand reads, and only if configured; then the ECC is
    // strong.
    let reads = if device.facts().ecc_strength > 1 { 20_000 } else { 20 };
    let mut page = vec![0; device.geometry().min_io() as usize];
    let mut flips = 0;
    for _ in 0..reads {
        flips = flips.max(device.read(start, &mut page)?.corrected_bits);
        ensure!(corrected.starts_with(&page), "a corrected page differs");
        if flips > 0 {
            break;
        }
    }
    println!("most bits corrected in one codeword: {flips}");
    drop(device);
    let raw = MtdChar::open(path, MtdOptions { writable: false, raw: true })?;
    let mut found = vec![0; corrected.len()];
    raw.read(start, &mut found)?;
    let differing: u32 = found.iter().zip(&corrected).map(|(a, b)| (a ^ b).count_ones()).sum();
    ensure!(differing <= 64, "{differing} bits differ without error correction");
    Ok(())
}

/// Performs every call of a UBI volume; prints the lines of the LEBs that it must contain then.
pub(super) fn drive_ubi(path: &Path) -> Result<()> {
    let volume = UbiChar::open(path, Access::Write)?;
    let busy = UbiChar::open(path, Access::Write);
    ensure!(matches!(busy, Err(HostError::Busy { .. })), "a second writer: {busy:?}");
    let (unit, whole) = (volume.min_io().max(512) as usize, volume.leb_size() as usize);
    let leb = Leb::new;
    for number in 0..volume.leb_count() {
        volume.unmap(leb(number))?;
        ensure!(!volume.is_mapped(leb(number))?, "leb {number} is mapped after unmap");
    }
    volume.write(leb(1), 0, &pattern(2 * unit, 1))?;
    let append = u32::try_from(2 * unit)?;
    volume.write(leb(1), append, &pattern(unit, 2))?;
    volume.change(leb(2), &pattern(unit, 3))?;
    volume.change(leb(2), &pattern(whole, 4))?;
    volume.map(leb(3))?;
    ensure!(volume.is_mapped(leb(3))?, "a LEB is not mapped after map");
    ensure!(volume.map(leb(3)).is_err(), "a LEB is mapped twice");
    volume.write(leb(4), 0, &pattern(unit, 5))?;
    volume.unmap(leb(4))?;
    volume.write(leb(5), 0, &pattern(unit, 6))?;
    volume.erase(leb(5))?;
    let mut found = vec![0; whole];
    volume.read(leb(4), 0, &mut found)?;
    ensure!(found.iter().all(|byte| *byte == 0xFF), "an unmapped LEB does not read as 0xFF");
    volume.change(leb(6), &pattern(unit, 7))?;
    volume.change(leb(6), &[])?;
    ensure!(volume.is_mapped(leb(6))?, "an empty change leaves the LEB unmapped");
    let beyond = volume.read(leb(volume.leb_count()), 0, &mut [0]);
    ensure!(matches!(beyond, Err(MtdError::Range { .. })), "beyond the volume: {beyond:?}");
    let part = volume.write(leb(7), 0, &[0; 3]);
    let must_fail = volume.min_io() > 1;
    ensure!(part.is_err() == must_fail, "part of a unit: {part:?}");
    volume.unmap(leb(7))?;
    volume.sync()?;
    let id = path.to_string_lossy().rsplit('_').next().context("no number")?.parse()?;
    let mut one = vec![0xFF; whole];
    one[..2 * unit].copy_from_slice(&pattern(2 * unit, 1));
    one[2 * unit..3 * unit].copy_from_slice(&pattern(unit, 2));
    print!("{}{}", leb_line(id, 1, &one), leb_line(id, 2, &pattern(whole, 4)));
    let second = UbiChar::open(path, Access::Read);
    ensure!(matches!(second, Err(HostError::Busy { .. })), "a reader beside us: {second:?}");
    Ok(())
}
