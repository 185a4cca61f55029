//! The LPT of the last commit on flash (layer 15; spec: ubifs-format 21.7, 21.8; 11).

use super::breaches::{Breaches, read_leb};
use super::{Areas, Committed};
use crate::report::leb_start;
use crate::rw::error::at;
use crate::rw::flash::Flash;
use crate::rw::lprops::Stats;
use crate::volume::Volume;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Location, crc};
use eraseblock_ubifs_format::constants::{LPT_FANOUT, master_flags, sb_flags};
use eraseblock_ubifs_format::lpt::{LebProps, LptError, Nnode, Pnode, SaveTable, SpaceTable};
use std::collections::BTreeMap;

/// A node to be checked: level (0 for a leaf), index in it, place.
type Pending = (u32, u32, u32, u32);

/// A walk over the tree.
struct Walk<'a> {
    flash: &'a Flash,
    /// The LEBs of the area.
    lebs: Vec<Vec<u8>>,
    /// Size of each node that is referred to, by place.
    live: BTreeMap<(u32, u32), u32>,
    props: Vec<LebProps>,
    /// A part of the tree could not be read.
    is_broken: bool,
    breaches: &'a mut Breaches,
}

impl Areas<'_> {
    /// Checks P1 to P7, P11, M5, M6, M7, E1 to E3, E5; returns the properties of the main area.
    pub(super) fn check_lpt(
        &self,
        volume: &Volume,
        committed: &Committed,
        breaches: &mut Breaches,
    ) -> Option<Vec<LebProps>> {
        let flash = self.flash;
        let master = &committed.master;
        let mut lebs = Vec::new();
        for leb in volume.sb.lpt_first()..=volume.sb.lpt_last() {
            let mut bytes = Vec::new();
            if !read_leb(volume, leb, &mut bytes, "P4", breaches) {
                bytes.clear();
            }
            lebs.push(bytes);
        }
        let props = vec![LebProps::empty(flash.leb_size); flash.main_lebs() as usize];
        let live = BTreeMap::new();
        let mut walk = Walk { flash, lebs, live, props, is_broken: false, breaches };
        walk.tree((flash.lpt.height, 0, master.lpt_lnum, master.lpt_offs));
        walk.save_table(committed);
        walk.space_table(committed);
        let Walk { props, is_broken, .. } = walk;
        if is_broken {
            return None;
        }
        // Sums of impossible numbers mean nothing.
        if committed.is_sound {
            self.check_totals(&props, committed, breaches);
            self.check_special_lebs(&props, committed, breaches);
        }
        Some(props)
    }

    /// E1 to E3, E5: the totals of the main area in the master.
    fn check_totals(&self, props: &[LebProps], committed: &Committed, breaches: &mut Breaches) {
        let (flash, master) = (self.flash, &committed.master);
        let place = leb_start(eraseblock_ubifs_format::constants::MASTER_LEB);
        let stated = Stats::of_master(flash, master);
        let sums = Stats::of_props(flash, props);
        let rows = [
            ("empty LEBs", stated.empty_lebs, sums.empty_lebs),
            ("index LEBs", stated.idx_lebs, sums.idx_lebs),
            ("free bytes", stated.total_free, sums.total_free),
            ("dirty bytes", stated.total_dirty, sums.total_dirty),
            ("used bytes", stated.total_used, sums.total_used),
            ("dead bytes", stated.total_dead, sums.total_dead),
            ("dark bytes", stated.total_dark, sums.total_dark),
        ];
        for (what, found, expected) in rows.iter().filter(|(_, found, sum)| found != sum) {
            let message = format!("the master says {found} {what}, expected {expected}");
            breaches.add(place, "totals-wrong", "E1", message);
        }
        let index_size = master.index_size.cast_signed();
        let all = stated.total_free + stated.total_dirty + stated.total_used + index_size;
        let main = flash.sb.main_bytes().cast_signed();
        if all != main {
            let message = format!("free, dirty, used and index bytes are {all}, expected {main}");
            breaches.add(place, "totals-wrong", "E2", message);
        }
        let size = i64::from(flash.leb_size);
        let index: i64 = props
            .iter()
            .filter(|leb| leb.index)
            .map(|leb| size - i64::from(leb.free) - i64::from(leb.dirty))
            .sum();
        if index != index_size {
            let message = format!("index size {index_size}, but {index} bytes of index LEBs used");
            breaches.add(place, "totals-wrong", "E3", message);
        }
    }

    /// M6, M7: the LEBs of the index head and of garbage collection.
    fn check_special_lebs(
        &self,
        props: &[LebProps],
        committed: &Committed,
        breaches: &mut Breaches,
    ) {
        let (flash, master) = (self.flash, &committed.master);
        let of = |leb: u32| props.get(leb.wrapping_sub(flash.main_first) as usize).copied();
        if let Some(head) = of(master.ihead_lnum) {
            let is_empty = head.free == flash.leb_size && master.ihead_offs == 0;
            if master.ihead_offs != flash.leb_size - head.free || !(head.index || is_empty) {
                let message = format!(
                    "index head, but {} bytes are free and it is {} index LEB",
                    head.free,
                    if head.index { "an" } else { "no" }
                );
                let place = at(master.ihead_lnum, master.ihead_offs);
                breaches.add(place, "index-head-wrong", "M6", message);
            }
        }
        // While the file system is in use another LEB may have replaced it.
        if master.has(master_flags::DIRTY) {
            return;
        }
        let is_empty = of(master.gc_lnum).is_none_or(|gc| gc.free == flash.leb_size && !gc.index);
        if !is_empty || master.gc_lnum == master.ihead_lnum {
            let message = "the LEB reserved for garbage collection is in use";
            breaches.add(leb_start(master.gc_lnum), "gc-leb-wrong", "M7", message);
        }
    }
}

impl Walk<'_> {
    fn broken(&mut self, id: &str, error: &LptError) {
        self.is_broken = true;
        self.breaches.add(Location::Whole, "lpt-corrupt", id, error);
    }

    /// Returns the bytes from a place to the end of its LEB; none for one outside the area.
    fn bytes(&self, leb: u32, offset: u32) -> &[u8] {
        let index = leb.wrapping_sub(self.flash.sb.lpt_first()) as usize;
        let leb = self.lebs.get(index).map(Vec::as_slice).unwrap_or_default();
        leb.get(offset as usize..).unwrap_or_default()
    }

    /// P1, P2: every node from the root.
    fn tree(&mut self, root: Pending) {
        let geometry = self.flash.lpt;
        let mut pending = vec![root];
        while let Some((level, index, leb, offset)) = pending.pop() {
            let place = at(leb, offset);
            let size = if level == 0 { geometry.pnode_size } else { geometry.nnode_size };
            if self.live.insert((leb, offset), size).is_some() {
                self.is_broken = true;
                let message = "an LPT node has two parents";
                self.breaches.add(place, "lpt-corrupt", "P1", message);
                continue;
            }
            if level == 0 {
                match Pnode::unpack(self.bytes(leb, offset), &geometry, index, place) {
                    Ok(pnode) => self.leaf(index, &pnode, place),
                    Err(error) => {
                        let is_range =
                            matches!(error, LptError::Field { field: "free (multiple of)", .. });
                        self.broken(if is_range { "P11" } else { "P1" }, &error);
                    }
                }
                continue;
            }
            let number = geometry.nnode_number(level, index);
            match Nnode::unpack(self.bytes(leb, offset), &geometry, number, level, place) {
                Ok(nnode) => {
                    let below = (index * LPT_FANOUT..).zip(nnode.branches);
                    let below = below.filter_map(|(index, branch)| Some((index, branch?)));
                    pending
                        .extend(below.map(|(index, b)| (level - 1, index, b.leb.get(), b.offset)));
                }
                Err(error) => {
                    self.broken(if level == geometry.height { "M5" } else { "P1" }, &error);
                }
            }
        }
    }

    fn leaf(&mut self, index: u32, pnode: &Pnode, place: Location) {
        for (leb, props) in (index as usize * LPT_FANOUT as usize..).zip(pnode.lebs) {
            match self.props.get_mut(leb) {
                Some(slot) => *slot = props,
                None if props == LebProps::empty(self.flash.leb_size) => {}
                None => {
                    let LebProps { free, dirty, .. } = props;
                    let message = format!(
                        "{free} bytes free and {dirty} dirty in a LEB after the last, expected an empty one"
                    );
                    self.breaches.add(place, "lpt-corrupt", "P2", message);
                }
            }
            if props.free == self.flash.leb_size && props.index {
                let leb = self.flash.main_first + leb as u32;
                let message = "an empty LEB is said to hold index nodes";
                self.breaches.add(leb_start(leb), "lprops-wrong", "P10", message);
            }
        }
    }

    /// M5, P6: the save table of the big model.
    fn save_table(&mut self, committed: &Committed) {
        if !self.flash.sb.has(sb_flags::BIG_LPT) {
            return;
        }
        let Committed { master, .. } = committed;
        let place = at(master.lsave_lnum, master.lsave_offs);
        let geometry = self.flash.lpt;
        let bytes = self.bytes(master.lsave_lnum, master.lsave_offs);
        let table = match SaveTable::unpack(bytes, &geometry, place) {
            Ok(table) => table,
            Err(error) => return self.broken("M5", &error),
        };
        self.live.insert((master.lsave_lnum, master.lsave_offs), geometry.lsave_size as u32);
        // The classic builder names LEBs after the end of a small volume (spec: 22).
        let is_fresh = master.cmt_no == 0;
        let end = if is_fresh { u32::MAX } else { self.flash.leb_cnt };
        for leb in table.lebs.iter().map(|leb| leb.get()) {
            if leb < self.flash.main_first || leb >= end {
                let message = format!("the save table names LEB {leb}, which is not a main LEB");
                self.breaches.add(place, "lpt-corrupt", "P6", message);
            }
        }
    }

    /// M5, P3 to P5: the space table compared with the actual content.
    fn space_table(&mut self, committed: &Committed) {
        let Committed { master, .. } = committed;
        let place = at(master.ltab_lnum, master.ltab_offs);
        let geometry = self.flash.lpt;
        let bytes = self.bytes(master.ltab_lnum, master.ltab_offs);
        let table = match SpaceTable::unpack(bytes, &geometry, place) {
            Ok(table) => table,
            Err(error) => return self.broken("M5", &error),
        };
        self.live.insert((master.ltab_lnum, master.ltab_offs), geometry.ltab_size as u32);
        for (leb, (free, dirty)) in (self.flash.sb.lpt_first()..).zip(table.lebs) {
            self.area_leb(leb, free, dirty);
            self.free_space(leb, free, committed);
            if leb == master.nhead_lnum && master.nhead_offs != self.flash.leb_size - free {
                let message = format!("LPT head, but {free} bytes are said to be free");
                self.breaches.add(at(leb, master.nhead_offs), "ltab-wrong", "P5", message);
            }
        }
    }

    fn area_leb(&mut self, leb: u32, free: u32, dirty: u32) {
        let size = self.flash.leb_size;
        let used = size.saturating_sub(free);
        let live: u64 =
            self.live.range((leb, 0)..(leb + 1, 0)).map(|(_, len)| u64::from(*len)).sum();
        let stated = u64::from(used.saturating_sub(dirty));
        if !self.is_broken && live != stated {
            let message = format!(
                "{live} bytes are in use, but {free} are said to be free and {dirty} dirty"
            );
            self.breaches.add(leb_start(leb), "ltab-wrong", "P3", message);
        }
        if live > 0
            && let Some(offset) = self.stray(leb, used)
        {
            let message = "neither an LPT node nor padding";
            self.breaches.add(at(leb, offset), "lpt-corrupt", "P4", message);
        }
    }

    /// P3: free space is erased, except for what an interrupted commit wrote and the next mount removes: all
    /// of an unused LEB, and what follows the head if the first write there is not erased.
    fn free_space(&mut self, leb: u32, free: u32, committed: &Committed) {
        let used = self.flash.leb_size.saturating_sub(free);
        let rest = self.bytes(leb, used);
        let write = rest.len().min(self.flash.max_write as usize);
        let is_removed = committed.may_be_torn
            && (used == 0
                || leb == committed.master.nhead_lnum
                    && !is_erased(rest.get(..write).unwrap_or_default()));
        let is_left = !is_removed && !is_erased(rest);
        if is_left {
            let message = "free space of the LPT area is not erased";
            self.breaches.add(at(leb, used), "ltab-wrong", "P3", message);
        }
    }

    /// Returns the first position in the first `used` bytes of a LEB that is neither a node, live
    /// or dead, nor padding.
    fn stray(&self, leb: u32, used: u32) -> Option<u32> {
        let mut offset = 0;
        while offset < used {
            let rest = self.bytes(leb, offset);
            let known = self.live.get(&(leb, offset)).copied();
            if let Some(len) = known.or_else(|| self.dead_node(rest)) {
                offset += len;
                continue;
            }
            let padding = offset.next_multiple_of(self.flash.min_io) - offset;
            if padding == 0 || !is_erased(rest.get(..padding as usize).unwrap_or_default()) {
                return Some(offset);
            }
            offset += padding;
        }
        None
    }

    /// Returns the length of the node that starts here, of any kind.
    fn dead_node(&self, bytes: &[u8]) -> Option<u32> {
        let geometry = &self.flash.lpt;
        let len = match bytes.get(2)? & 0xF {
            0 => geometry.pnode_size,
            1 => geometry.nnode_size,
            2 => geometry.ltab_size as u32,
            3 => geometry.lsave_size as u32,
            _ => return None,
        };
        let (stored, body) = bytes.get(..len as usize)?.split_first_chunk::<2>()?;
        (u16::from_le_bytes(*stored) == crc::crc16(body)).then_some(len)
    }
}
