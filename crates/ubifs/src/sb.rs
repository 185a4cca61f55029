//! The superblock: reads it, checks it against the volume, and replaces it if it is lost (spec:
//! ubifs-format 13; ubifs-runtime 5.1 steps 4 to 7).

use crate::error::UbifsError;
use crate::report::{Report, leb_start};
use crate::volume::Recut;
use eraseblock_base::Leb;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::constants::{LOG_FIRST, MIN_LEB_SIZE, NODE_MAGIC, NodeType, sb_flags};
use eraseblock_ubifs_format::verify::{self, VolumeShape};
use eraseblock_ubifs_format::{Compression, FormatError, KeyHash, Limits, Superblock, decode};
use std::sync::Arc;

/// A superblock and the device divided into its LEBs.
pub(crate) struct Found {
    pub(crate) device: Arc<dyn LebDevice>,
    /// Grown to the volume.
    pub(crate) sb: Superblock,
    /// Whether the superblock is lost and `sb` is only derived from the volume.
    pub(crate) is_guess: bool,
}

/// Reads the superblock of a volume.
pub(crate) fn load(device: Arc<dyn LebDevice>, report: &mut Report) -> Result<Found, UbifsError> {
    let sb = match read(&*device) {
        Ok(sb) if fits(&sb, &*device) => sb,
        Ok(sb) => {
            let message = format!("LEB size {} on a volume that is smaller", sb.leb_size);
            report.of_row("S2").refuse(leb_start(0), "superblock-refused", message)?;
            return Ok(guess(device, report));
        }
        Err(error) => {
            lost(error, report)?;
            return Ok(guess(device, report));
        }
    };
    let shape = VolumeShape {
        leb_size: device.leb_size(),
        min_io: device.min_io().max(8),
        leb_count: device.leb_count(),
    };
    if let Err(error) = verify::superblock(&sb.grown(shape.leb_count), shape, leb_start(0)) {
        report.of_row(row(&error)).refuse_node("superblock-refused", error)?;
    }
    let device = recut(device, sb.leb_size);
    let sb = sb.grown(device.leb_count());
    note_features(&sb, report);
    Ok(Found { device, sb, is_guess: false })
}

/// Returns the row of the specification's section 21 that a refused superblock breaks.
pub(crate) fn row(error: &FormatError) -> &'static str {
    let FormatError::Field { field, .. } = error else { return "S2" };
    match *field {
        "LEB count" | "largest LEB count" | "main area LEBs" => "S3",
        "LEBs of the log" | "LEBs of the LPT area" | "LEBs of the orphan area" => "S4",
        _ => "S2",
    }
}

fn read(device: &dyn LebDevice) -> Result<Superblock, UbifsError> {
    let mut bytes = vec![0; 4096.min(device.leb_size() as usize)];
    device.read(Leb::new(0), 0, &mut bytes)?;
    // The LEB size of the device may be wrong, but the superblock's length does not depend on it.
    let limits = Limits::unknown(device.leb_size());
    Ok(decode::expect(&bytes, NodeType::Superblock, &limits, leb_start(0))?.superblock()?)
}

/// Returns whether the volume holds at least the superblock and a master LEB of the size it states.
/// Buffers have that size, so a size that does not fit must not be used.
fn fits(sb: &Superblock, device: &dyn LebDevice) -> bool {
    let bytes = u64::from(device.leb_size()) * u64::from(device.leb_count());
    2 * u64::from(sb.leb_size) <= bytes
}

fn lost(error: UbifsError, report: &mut Report) -> Result<(), UbifsError> {
    match error {
        UbifsError::Format(error) => report.of_row("S1").refuse_node("superblock-lost", error),
        error if report.is_strict() => Err(error),
        error => report.of_row("S1").refuse(leb_start(0), "superblock-lost", error.to_string()),
    }
}

fn note_features(sb: &Superblock, report: &mut Report) {
    let at = leb_start(0);
    if sb.has(sb_flags::AUTHENTICATION) {
        let message = "authenticated volume, read without its key: hashes are not verified";
        report.findings.note(at, "not-authenticated", message);
    }
    if sb.has(sb_flags::ENCRYPTION) {
        let message = "volume may hold encrypted files, which are shown without their key";
        report.findings.note(at, "encryption-flag", message);
    }
}

fn recut(device: Arc<dyn LebDevice>, leb_size: u32) -> Arc<dyn LebDevice> {
    if device.leb_size() == leb_size { device } else { Arc::new(Recut::new(device, leb_size)) }
}

/// Returns a superblock derived from the volume: sufficient to search for nodes.
fn guess(device: Arc<dyn LebDevice>, report: &mut Report) -> Found {
    let leb_size = leb_size_by_masters(&*device).unwrap_or(device.leb_size());
    let device = recut(device, leb_size);
    let message = format!(
        "no superblock: all nodes of {} LEBs of {leb_size} bytes are looked at",
        device.leb_count()
    );
    report.findings.warn(leb_start(0), "geometry-guessed", message);
    let limits = Limits::unknown(leb_size);
    let sb = Superblock {
        sqnum: 0,
        key_hash: KeyHash::R5,
        flags: 0,
        min_io_size: device.min_io().max(8),
        leb_size,
        leb_cnt: device.leb_count(),
        max_leb_cnt: device.leb_count(),
        max_bud_bytes: 0,
        log_lebs: 0,
        lpt_lebs: 0,
        orph_lebs: 0,
        jhead_cnt: 1,
        fanout: limits.fanout,
        lsave_cnt: 0,
        fmt_version: 4,
        default_compr: Compression::None,
        rp_uid: 0,
        rp_gid: 0,
        rp_size: 0,
        time_gran: 1_000_000_000,
        uuid: [0; 16],
        ro_compat_version: 0,
        hmac: [0; 64],
        hmac_wkm: [0; 64],
        hash_algo: u16::MAX,
        hash_mst: [0; 64],
    };
    debug_assert_eq!(sb.main_first(), LOG_FIRST, "the area after the masters is examined");
    Found { device, sb, is_guess: true }
}

/// Returns the LEB size derived from the first master node of the image, which starts LEB 1.
/// Searches the first 4 MiB.
fn leb_size_by_masters(device: &dyn LebDevice) -> Option<u32> {
    const HORIZON: u64 = 4 << 20;
    let size = device.leb_size();
    let lebs = (HORIZON / u64::from(size.max(1)) + 1).min(device.leb_count().into());
    let mut flat = Vec::new();
    for leb in 0..u32::try_from(lebs).ok()? {
        let start = flat.len();
        flat.resize(start + size as usize, 0xFF);
        if device.read(Leb::new(leb), 0, &mut flat[start..]).is_err() {
            flat[start..].fill(0xFF);
        }
    }
    let limits = Limits::unknown(size);
    let starts = (MIN_LEB_SIZE as usize..flat.len()).step_by(8);
    let is_master = |start: &usize| {
        let bytes = flat.get(*start..).unwrap_or_default();
        let node: Result<_, FormatError> = if bytes.starts_with(&NODE_MAGIC.to_le_bytes()) {
            decode::node(bytes, &limits, leb_start(1))
        } else {
            return false;
        };
        node.is_ok_and(|node| node.header.node_type == NodeType::Master)
    };
    starts.into_iter().find(is_master).and_then(|start| u32::try_from(start).ok())
}
