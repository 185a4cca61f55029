//! Checks for the kernel oracle that the command does not offer: our view of a UBI device, in the
//! format of `ubi_view` in `xtask/guest/lib.sh`, and every call of the host's devices. The oracle
//! runs this as a program in its guest.

mod devices;

use anyhow::{Context, Result, bail};
use eraseblock_base::Leb;
use eraseblock_mtd::{ImageFile, LebDevice, Mtd};
use eraseblock_mtd_host::{MtdChar, MtdOptions, NodeKind};
use eraseblock_ubi::{AttachOptions, Hints, Ubi, UbiVolume, detect, detect_layout};
use eraseblock_ubi_format::VolumeKind;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// `xtask subject`.
///
/// - `view TARGET` prints our view of a UBI device.
/// - `mtd DEVICE OUT` performs every call of an MTD device; `OUT` gets the expected content of one
///   block.
/// - `ubi VOLUME` performs every call of a UBI volume and prints the LEBs it must contain.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["view", target] => print!("{}", of(Path::new(target))?),
        ["mtd", device, out] => devices::drive_mtd(Path::new(device), Path::new(out))?,
        ["ubi", volume] => devices::drive_ubi(Path::new(volume))?,
        _ => bail!("unknown arguments {args:?}, see xtask/src/subject.rs"),
    }
    Ok(true)
}

/// Returns the view of an image or an MTD device.
pub(crate) fn of(target: &Path) -> Result<String> {
    lines(&attach(target)?)
}

fn attach(target: &Path) -> Result<Ubi> {
    let (device, layout): (Arc<dyn Mtd>, _) = if NodeKind::of(target)? == Some(NodeKind::Mtd) {
        let device = Arc::new(MtdChar::open(target, MtdOptions::default())?);
        let layout = detect_layout(device.as_ref())?.context("there is no UBI")?;
        (device, layout)
    } else {
        let file = File::open(target)?;
        let found = detect(&file, &Hints::default())?.context("there is no UBI")?;
        (Arc::new(ImageFile::new(file, &found.shape())?), found.layout)
    };
    Ok(Ubi::attach(device, &layout, &AttachOptions::default())?)
}

/// Returns the lines of an attached device.
fn lines(ubi: &Ubi) -> Result<String> {
    let found = ubi.attachment();
    let bad = found.counts.bad;
    let mut out = String::new();
    writeln!(
        out,
        "device leb_size={} pebs={} bad={bad} volumes={} max_ec={}",
        found.layout.leb_size(),
        found.peb_count - bad,
        found.volumes.len(),
        found.erase_counters.max
    )?;
    for info in &found.volumes {
        let is_static = info.kind == VolumeKind::Static;
        writeln!(
            out,
            "volume {} name={} type={} reserved={} usable={} data={} alignment={} upd={}",
            info.id,
            String::from_utf8_lossy(info.name.as_bytes()),
            if is_static { "static" } else { "dynamic" },
            info.reserved_lebs,
            info.usable_leb_size,
            info.used_bytes,
            info.alignment,
            u8::from(info.upd_marker)
        )?;
        if !info.upd_marker {
            lebs(&ubi.volume(info.id)?, &mut out)?;
        }
    }
    Ok(out)
}

fn lebs(volume: &UbiVolume, out: &mut String) -> Result<()> {
    let info = volume.info();
    let mut buf = vec![0; info.usable_leb_size as usize];
    for leb in 0..info.reserved_lebs {
        volume.read(Leb::new(leb), 0, &mut buf)?;
        // Linux reads nothing after the data of a static volume.
        let start = u64::from(leb) * u64::from(info.usable_leb_size);
        let rest = usize::try_from(info.used_bytes.saturating_sub(start)).unwrap_or(usize::MAX);
        if let Some(behind) = buf.get_mut(rest..) {
            behind.fill(0xFF);
        }
        out.push_str(&leb_line(info.id.get(), leb, &buf));
    }
    Ok(())
}

/// Returns the line of a LEB, or nothing if all of it is 0xFF.
pub(crate) fn leb_line(volume: u32, leb: u32, content: &[u8]) -> String {
    if content.iter().all(|byte| *byte == 0xFF) {
        return String::new();
    }
    let mut line = format!("leb {volume} {leb} ");
    for byte in Sha256::digest(content) {
        let _ = write!(line, "{byte:02x}");
    }
    line + "\n"
}

/// Returns content of `len` bytes that depends on `salt`.
pub(crate) fn pattern(len: usize, salt: u8) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at / 3 + at / 251) % 256).unwrap_or(0) ^ salt;
    (0..len).map(byte).collect()
}
