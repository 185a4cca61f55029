//! The superblock: read, or derived from what lies where.

use crate::error::RepairError;
use crate::plan::{Action, Level};
use eraseblock_base::raw::Raw;
use eraseblock_base::{Leb, Location};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::constants::{
    LOG_FIRST, MASTER_LEB, NODE_ALIGN, NODE_MAGIC, NodeType, sb_flags,
};
use eraseblock_ubifs_format::decode::{self, Limits};
use eraseblock_ubifs_format::encode;
use eraseblock_ubifs_format::layout::Layout;
use eraseblock_ubifs_format::lpt::{LptGeometry, LptInputs, Lsave};
use eraseblock_ubifs_format::raw::{CommonHeader, SuperblockNode};
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::verify::{self, VolumeShape};
use eraseblock_ubifs_format::{Compression, KeyHash, Superblock};

const PLACE: Location = Location::leb(Leb::new(0));

/// A superblock, and the action if it was derived.
pub(crate) struct Settled {
    /// Not grown to the volume.
    pub(crate) sb: Superblock,
    pub(crate) action: Option<Action>,
}

/// Returns the superblock of a volume.
pub(crate) fn settle(device: &dyn LebDevice) -> Result<Settled, RepairError> {
    let mut bytes = vec![0; SuperblockNode::SIZE];
    let read = device.read(Leb::new(0), 0, &mut bytes);
    let shape = shape(device);
    let limits = Limits::unknown(device.leb_size());
    let found = decode::expect(&bytes, NodeType::Superblock, &limits, PLACE)
        .and_then(|node| node.superblock());
    let why = match (&read, found) {
        (Err(error), _) => error.to_string(),
        (Ok(_), Err(error)) => error.to_string(),
        (Ok(_), Ok(sb)) => {
            refuse(&sb)?;
            match verify::superblock(&sb.grown(shape.leb_count), shape, PLACE) {
                Ok(()) => return Ok(Settled { sb, action: None }),
                Err(error) => error.to_string(),
            }
        }
    };
    let evidence = Evidence::of(device);
    let mut stored = stored(&mut bytes).filter(|_| read.is_ok());
    if let Some(sb) = &mut stored {
        // A damaged flag is believed if something else shows it.
        if evidence.has_hashes {
            sb.flags |= sb_flags::AUTHENTICATION;
            refuse(sb)?;
        }
        sb.flags &= !sb_flags::AUTHENTICATION;
    }
    let (sb, source) = derive(device, stored, &evidence)?;
    let mut action = Action::new(Level::Rebuild, "superblock-lost", "S1, S2", PLACE, "remake", why);
    action = action.shown_by(source);
    if let Some(leb) = evidence.first_leaf {
        action = action.shown_by(format!("the first node of the main area is in leb {leb}"));
    }
    Ok(Settled { sb, action: Some(action) })
}

fn shape(device: &dyn LebDevice) -> VolumeShape {
    VolumeShape {
        leb_size: device.leb_size(),
        min_io: device.min_io().max(8),
        leb_count: device.leb_count(),
    }
}

/// Refuses volumes that cannot be written without a key.
fn refuse(sb: &Superblock) -> Result<(), RepairError> {
    if !sb.has(sb_flags::AUTHENTICATION) {
        return Ok(());
    }
    let what = "an authenticated volume: without its key nothing that is written would be accepted";
    Err(RepairError::Unsupported { at: PLACE, what: what.to_owned() })
}

/// Returns the fields of a damaged superblock as they are, if they are within their ranges.
fn stored(bytes: &mut [u8]) -> Option<Superblock> {
    let (header, _) = CommonHeader::split(bytes)?;
    // One damaged byte of the header must not hide the fields.
    let looks_like_one =
        header.magic.get() == NODE_MAGIC || header.node_type == NodeType::Superblock.number();
    if !looks_like_one {
        return None;
    }
    let mut raw = SuperblockNode::get(bytes);
    raw.header.magic.set(NODE_MAGIC);
    raw.header.node_type = NodeType::Superblock.number();
    raw.header.len.set(SuperblockNode::SIZE as u32);
    let sqnum = raw.header.sqnum.get();
    raw.put(bytes);
    encode::seal(bytes, sqnum);
    let limits = Limits::unknown(raw.leb_size.get());
    decode::expect(bytes, NodeType::Superblock, &limits, PLACE).ok()?.superblock().ok()
}

/// What lies where.
#[derive(Debug, Default)]
struct Evidence {
    /// The first LEB with a leaf or an index node.
    first_leaf: Option<u32>,
    /// The last LEB with a node of the log.
    last_log: u32,
    /// The LEBs that master nodes place in the LPT area, and in the main area.
    lpt: Vec<u32>,
    main: Vec<u32>,
    leb_cnt: u32,
    /// Whether a master node has the hash of the index.
    has_hashes: bool,
    has_cookies: bool,
    is_encrypted: bool,
    fanout: u32,
    r5: u64,
    test: u64,
    compressors: [u64; 4],
    digest: [u32; 4],
}

impl Evidence {
    fn of(device: &dyn LebDevice) -> Self {
        let mut evidence = Self { last_log: LOG_FIRST, ..Self::default() };
        let limits = Limits::unknown(device.leb_size());
        let mut bytes = vec![0; device.leb_size() as usize];
        for number in 1..device.leb_count() {
            let leb = Leb::new(number);
            let is_there = matches!(device.is_mapped(leb), Ok(true));
            if !is_there || device.read(leb, 0, &mut bytes).is_err() {
                continue;
            }
            let mut at = 0;
            while at + NODE_ALIGN < device.leb_size() {
                let mut scanner = Scanner::new(leb, &bytes, at, limits);
                for (_, node) in scanner.by_ref() {
                    evidence.take(number, &node);
                }
                // A damaged node hides its neighbours, not the whole LEB.
                let behind = scanner.offset() + NODE_ALIGN;
                let magic = NODE_MAGIC.to_le_bytes();
                let rest = bytes.get(behind as usize..).unwrap_or_default();
                let next = rest.chunks(8).position(|word| word.starts_with(&magic));
                let Some(next) = next else { break };
                at = behind + next as u32 * NODE_ALIGN;
            }
        }
        evidence
    }

    fn take(&mut self, leb: u32, node: &decode::Node<'_>) {
        let mixed = node.header.sqnum as u32 ^ node.header.len.rotate_left(16);
        let slot = &mut self.digest[node.header.sqnum as usize % 4];
        *slot = slot.rotate_left(5) ^ mixed;
        let is_area = leb == MASTER_LEB || leb == MASTER_LEB + 1;
        match node.header.node_type {
            NodeType::Master if is_area => {
                let Ok(master) = node.master() else { return };
                self.lpt.extend([master.lpt_lnum, master.ltab_lnum, master.nhead_lnum]);
                self.main.extend([master.root_lnum, master.gc_lnum, master.ihead_lnum]);
                self.leb_cnt = self.leb_cnt.max(master.leb_cnt);
                self.has_hashes |= master.hash_root_idx != [0; 64];
            }
            NodeType::CommitStart | NodeType::Reference => self.last_log = self.last_log.max(leb),
            NodeType::Index => {
                self.is_leaf(leb);
                let children = (node.header.len - 28) / 20;
                self.fanout = self.fanout.max(children);
            }
            NodeType::Inode => {
                self.is_leaf(leb);
                if let Ok(inode) = node.inode() {
                    self.compressors[usize::from(inode.compr_type.number())] += 1;
                    self.is_encrypted |= inode.is_encrypted();
                }
            }
            NodeType::Dent | NodeType::Xent => {
                self.is_leaf(leb);
                if let Ok(dent) = node.dent() {
                    self.has_cookies |= dent.cookie != 0;
                    self.r5 += u64::from(KeyHash::R5.hash(dent.name) == dent.key.value());
                    self.test += u64::from(KeyHash::Test.hash(dent.name) == dent.key.value());
                }
            }
            NodeType::Data => self.is_leaf(leb),
            _ => {}
        }
    }

    fn is_leaf(&mut self, leb: u32) {
        if leb > LOG_FIRST {
            self.first_leaf = Some(self.first_leaf.map_or(leb, |first| first.min(leb)));
        }
    }

    /// Returns whether nothing lies where these areas do not allow it.
    fn fits(&self, sb: &Superblock) -> bool {
        let first = sb.main_first();
        self.first_leaf.is_none_or(|leaf| leaf >= first)
            && self.last_log <= sb.log_last()
            && self.main.iter().all(|leb| (first..sb.max_leb_cnt).contains(leb))
            && self.lpt.iter().all(|leb| (sb.lpt_first()..=sb.lpt_last()).contains(leb))
    }
}

/// Returns the superblock that fits the evidence, and where it comes from.
fn derive(
    device: &dyn LebDevice,
    stored: Option<Superblock>,
    evidence: &Evidence,
) -> Result<(Superblock, &'static str), RepairError> {
    let shape = shape(device);
    let uuid = stored.as_ref().map(|sb| sb.uuid);
    let is_sound = |sb: &Superblock| {
        verify::superblock(&sb.grown(shape.leb_count), shape, PLACE).is_ok() && evidence.fits(sb)
    };
    if let Some(sb) = stored.clone().filter(is_sound) {
        return Ok((sb, "its fields as they are: they fit what lies where"));
    }
    // A field that is valid by itself stays; the sizes of the volume are known.
    if let Some(mut sb) = stored {
        (sb.leb_size, sb.min_io_size) = (shape.leb_size, shape.min_io);
        sb.flags &= sb_flags::ENCRYPTION | sb_flags::DOUBLE_HASH;
        if evidence.has_cookies || evidence.is_encrypted {
            sb.flags |= sb_flags::DOUBLE_HASH;
        }
        if !sb.has(sb_flags::DOUBLE_HASH) {
            sb.flags &= !sb_flags::ENCRYPTION;
        }
        (sb.jhead_cnt, sb.time_gran, sb.ro_compat_version) = (1, 1_000_000_000, 0);
        sb.fmt_version = if sb.has(sb_flags::DOUBLE_HASH) { 5 } else { 4 };
        if sb.leb_cnt > shape.leb_count || sb.leb_cnt < evidence.leb_cnt {
            sb.leb_cnt = evidence.leb_cnt.min(shape.leb_count);
        }
        sb.max_leb_cnt = sb.max_leb_cnt.max(sb.leb_cnt);
        if needs_big_lpt(&sb) {
            sb.flags |= sb_flags::BIG_LPT;
        }
        if is_sound(&sb) {
            return Ok((sb, "its fields, without those that no volume can have"));
        }
    }
    let (leb_size, min_io, lebs) = (shape.leb_size, shape.min_io, shape.leb_count);
    let options = eraseblock_ubifs_format::layout::LayoutOptions::new(leb_size, min_io, lebs);
    let layouts = [Layout::for_image(&options), Layout::for_empty_volume(leb_size, min_io, lebs)];
    let mut made = layouts.iter().flatten().map(|layout| evidence.superblock(layout, uuid));
    if let Some(sb) = made.find(is_sound) {
        return Ok((sb, "the areas that a new volume of this size has: they fit what lies where"));
    }
    // Log, LPT and orphans are written again, so that their places need only be free.
    let layout = Layout::for_empty_volume(leb_size, min_io, lebs).map_err(|error| {
        RepairError::Unsupported { at: PLACE, what: format!("no superblock fits: {error}") }
    })?;
    Ok((
        evidence.superblock(&layout, uuid),
        "a new volume of this size: nodes in its way are moved",
    ))
}

/// Returns whether an LPT of the small model would need more than a LEB.
fn needs_big_lpt(sb: &Superblock) -> bool {
    let geometry = LptGeometry::new(LptInputs {
        main_lebs: sb.max_leb_cnt.saturating_sub(sb.main_first()),
        leb_cnt: sb.max_leb_cnt,
        big: false,
        ..sb.lpt_inputs()
    });
    geometry.total_size(Lsave::IfBig) > u64::from(sb.leb_size)
}

impl Evidence {
    fn superblock(&self, layout: &Layout, uuid: Option<[u8; 16]>) -> Superblock {
        let mut flags = if layout.big_lpt { sb_flags::BIG_LPT } else { 0 };
        let is_new = self.has_cookies || self.is_encrypted;
        if is_new {
            flags |= sb_flags::DOUBLE_HASH;
        }
        if self.is_encrypted {
            flags |= sb_flags::ENCRYPTION;
        }
        let most = (0..4_u16).max_by_key(|number| self.compressors[usize::from(*number)]);
        let default_compr = most.and_then(Compression::from_number).unwrap_or(Compression::None);
        let derived = || {
            let mut uuid = [0; 16];
            for (part, word) in uuid.chunks_mut(4).zip(self.digest) {
                part.copy_from_slice(&word.to_le_bytes());
            }
            uuid[6] = uuid[6] & 0x0F | 0x80;
            uuid[8] = uuid[8] & 0x3F | 0x80;
            uuid
        };
        Superblock {
            sqnum: 0,
            key_hash: if self.test > self.r5 { KeyHash::Test } else { KeyHash::R5 },
            flags,
            min_io_size: layout.min_io,
            leb_size: layout.leb_size,
            leb_cnt: layout.max_leb_cnt,
            max_leb_cnt: layout.max_leb_cnt,
            max_bud_bytes: layout.max_bud_bytes,
            log_lebs: layout.log_lebs,
            lpt_lebs: layout.lpt_lebs,
            orph_lebs: layout.orph_lebs,
            jhead_cnt: 1,
            fanout: layout.fanout.max(self.fanout),
            lsave_cnt: layout.lsave_cnt,
            fmt_version: if is_new { 5 } else { 4 },
            default_compr,
            rp_uid: 0,
            rp_gid: 0,
            rp_size: layout.rp_size,
            time_gran: 1_000_000_000,
            uuid: uuid.unwrap_or_else(derived),
            ro_compat_version: 0,
            hmac: [0; 64],
            hmac_wkm: [0; 64],
            hash_algo: u16::MAX,
            hash_mst: [0; 64],
        }
    }
}
