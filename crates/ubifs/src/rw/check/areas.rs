//! Superblock, master, log and orphan area on flash (layer 15; spec: ubifs-format 21.1 to 21.3,
//! 21.9).
//!
//! Remains of a power cut are not a breach while nothing has repaired them: a torn end of at most
//! one write. LEBs of the log that are not live may have any content.

use super::breaches::{Breaches, read_leb};
use super::{Areas, Committed};
use crate::log as log_walk;
use crate::report::{Report, leb_start};
use crate::rw::error::{Step, at};
use crate::rw::orphan::most as most_orphans;
use crate::volume::Volume;
use crate::{master, orphan, sb};
use eraseblock_base::Code;
use eraseblock_base::Leb;
use eraseblock_ubifs_format::constants::{LOG_FIRST, MASTER_LEB, NodeType, master_flags};
use eraseblock_ubifs_format::decode::{self, Node};
use eraseblock_ubifs_format::raw::SuperblockNode;
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::verify::{self, VolumeShape};
use eraseblock_ubifs_format::{FormatError, Master};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A scanned LEB: its nodes, and its end.
struct Scanned<'a> {
    nodes: Vec<(u32, Node<'a>)>,
    problem: Option<FormatError>,
    is_torn: bool,
}

fn scan<'a>(volume: &Volume, leb: u32, bytes: &'a [u8]) -> Scanned<'a> {
    let mut scanner = Scanner::new(Leb::new(leb), bytes, 0, volume.limits);
    let nodes = scanner.by_ref().collect();
    let problem = scanner.strict_error(volume.sb.min_io_size);
    Scanned { nodes, problem, is_torn: scanner.is_torn(volume.max_write()) }
}

impl Areas<'_> {
    /// Returns whether the volume is as it was found: it has no mount that writes to it.
    fn is_found(&self) -> bool {
        self.orphans.is_none()
    }

    /// Returns the areas other than the main area; `None` if there is no usable master.
    pub(super) fn check_areas(&self, breaches: &mut Breaches) -> Step<Option<Committed>> {
        let volume = Volume::new(Arc::clone(self.as_found), self.flash.sb.clone());
        check_superblock(&volume, breaches);
        let mut report = Report::salvaging();
        let selected = master::select(&volume, &mut report)?;
        breaches.take(&report, "M1");
        let Some(selected) = selected else { return Ok(None) };
        let master = selected.master;
        let is_unclean = selected.was_recovered || master.has(master_flags::DIRTY);
        // A mount for writing repairs; later only a failure leaves incomplete data.
        let is_sound = verify::master(&master, &volume.sb, selected.at).is_ok();
        let may_be_torn =
            if self.is_found() { is_unclean } else { self.flash.why_read_only.is_some() };
        let (buds, orphans, props) = (Vec::new(), None, None);
        let mut committed = Committed { master, is_sound, may_be_torn, buds, orphans, props };
        self.check_masters(&volume, &committed, breaches);
        committed.props = self.check_lpt(&volume, &committed, breaches);
        check_log(&volume, &mut committed, is_unclean, breaches)?;
        self.check_buds(&committed, breaches);
        if self.is_found() {
            self.check_journal_on_flash(&volume, &committed, breaches);
        }
        committed.orphans = self.check_orphan_area(&volume, &committed, breaches)?;
        Ok(Some(committed))
    }

    /// M2: only master nodes.
    fn check_masters(&self, volume: &Volume, committed: &Committed, breaches: &mut Breaches) {
        let mut bytes = Vec::new();
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            if !read_leb(volume, leb, &mut bytes, "M2", breaches) {
                continue;
            }
            let scanned = scan(volume, leb, &bytes);
            let mut before = None;
            for (offset, node) in &scanned.nodes {
                let sqnum = node.header.sqnum;
                if node.header.node_type != NodeType::Master {
                    let message = format!("{} in a master LEB", node.header.node_type.name());
                    breaches.add(node.at, "master-area", "M2", message);
                } else if !offset.is_multiple_of(self.flash.mst_alsz) {
                    let unit = self.flash.mst_alsz;
                    let message = format!("a master node here, expected at a multiple of {unit}");
                    breaches.add(node.at, "master-area", "M2", message);
                }
                if let Some(before) = before.replace(sqnum).filter(|before| *before > sqnum) {
                    let message = format!("sequence number {sqnum} follows {before}");
                    breaches.add(node.at, "master-area", "M2", message);
                }
            }
            end_of_scan(&scanned, committed.may_be_torn, "master-area", "M2", breaches);
        }
    }

    /// L3, L5, L6: the buds compared with the LEB properties of the last commit.
    fn check_buds(&self, committed: &Committed, breaches: &mut Breaches) {
        let size = self.flash.leb_size;
        let mut bytes = 0;
        for bud in &committed.buds {
            let (leb, offset) = (bud.leb.get(), bud.offset);
            bytes += u64::from(size - offset.min(size));
            let index = leb.wrapping_sub(self.flash.main_first) as usize;
            let props = committed.props.as_ref().and_then(|props| props.get(index));
            let Some(props) = props else { continue };
            if props.index {
                breaches.add(at(leb, offset), "log-area", "L3", "an index LEB in the journal");
            }
            if !committed.master.has(master_flags::DIRTY) && leb == committed.master.gc_lnum {
                let message = "the LEB reserved for garbage collection is in the journal";
                breaches.add(at(leb, offset), "log-area", "L3", message);
            }
            // A LEB used from its start may have been collected since.
            if offset != 0 && props.free != size - offset {
                let message = format!(
                    "journal from offset {offset} on, but {} of {size} bytes were free",
                    props.free
                );
                breaches.add(at(leb, offset), "log-area", "L5", message);
            }
        }
        if bytes > self.flash.max_bud_bytes {
            let most = self.flash.max_bud_bytes;
            let message = format!("the journal has {bytes} bytes, expected {most} at most");
            breaches.add(leb_start(LOG_FIRST), "log-area", "L6", message);
        }
    }

    /// O1, O3, O4; returns the listed inodes.
    fn check_orphan_area(
        &self,
        volume: &Volume,
        committed: &Committed,
        breaches: &mut Breaches,
    ) -> Step<Option<BTreeSet<u32>>> {
        let says_nothing = committed.master.has(master_flags::NO_ORPHANS);
        let mut bytes = Vec::new();
        let mut empty = None;
        let mut commits = Commits { last: None, is_stale: says_nothing };
        for leb in volume.sb.orph_first()..=volume.sb.orph_last() {
            if !read_leb(volume, leb, &mut bytes, "O1", breaches) {
                continue;
            }
            let scanned = scan(volume, leb, &bytes);
            match empty {
                _ if scanned.nodes.is_empty() => empty = empty.or(Some(leb)),
                Some(empty) if !committed.may_be_torn && !says_nothing => {
                    let message = format!("LEB {leb} is used, and LEB {empty} before it is not");
                    breaches.add(leb_start(leb), "orphan-area", "O1", message);
                }
                _ => {}
            }
            for (_, node) in &scanned.nodes {
                commits.node(node, breaches);
            }
            end_of_scan(&scanned, committed.may_be_torn, "orphan-area", "O1", breaches);
        }
        if says_nothing {
            return Ok(None);
        }
        if let Some((_, false, place)) = commits.last
            && !committed.may_be_torn
        {
            let message = "the last orphan node is not said to be the last of its commit";
            breaches.add(place, "orphan-area", "O3", message);
        }
        let mut report = Report::salvaging();
        let listed = orphan::read(volume, &mut report)?;
        let inos: BTreeSet<u32> = listed.inos.into_iter().collect();
        let most = most_orphans(self.flash);
        // Numbers of inodes that this mount has deleted stay in the area until it is rewritten.
        let is_left = |ino: &&u32| self.orphans.is_none_or(|known| known.contains(**ino));
        let count = inos.iter().filter(is_left).count();
        if count > most {
            let message = format!("{count} orphans, expected {most} at most");
            breaches.add(leb_start(volume.sb.orph_first()), "orphan-area", "O4", message);
        }
        Ok(Some(inos))
    }
}

/// Commit numbers along the orphan area.
struct Commits {
    /// Commit of the last node, whether it was the last of that commit, and its place.
    last: Option<(u64, bool, eraseblock_base::Location)>,
    /// Whether the following nodes belong to no current commit.
    is_stale: bool,
}

impl Commits {
    fn node(&mut self, node: &Node<'_>, breaches: &mut Breaches) {
        let orphan = match node.orphan() {
            Ok(orphan) => orphan,
            Err(error) => {
                return breaches.add(node.at, "orphan-area", "O1", &error);
            }
        };
        if self.is_stale {
            return;
        }
        if let Some((cmt_no, is_last, _)) = self.last {
            if orphan.cmt_no < cmt_no && is_last {
                self.is_stale = true;
                return;
            }
            if orphan.cmt_no < cmt_no || (orphan.cmt_no > cmt_no && !is_last) {
                let message = format!(
                    "orphans of commit {} after unfinished ones of commit {cmt_no}",
                    orphan.cmt_no
                );
                breaches.add(node.at, "orphan-area", "O3", message);
            }
        }
        self.last = Some((orphan.cmt_no, orphan.is_last, node.at));
    }
}

/// A scan must end at erased flash, except for a torn write.
fn end_of_scan(
    scanned: &Scanned<'_>,
    may_be_torn: bool,
    code: impl Into<Code>,
    id: &str,
    breaches: &mut Breaches,
) {
    if let Some(problem) = &scanned.problem
        && !(may_be_torn && scanned.is_torn)
    {
        breaches.add(problem.at(), code, id, problem);
    }
}

/// S1 to S4.
fn check_superblock(volume: &Volume, breaches: &mut Breaches) {
    let place = leb_start(0);
    let mut bytes = vec![0; SuperblockNode::SIZE];
    if let Err(error) = volume.read(Leb::new(0), 0, &mut bytes) {
        return breaches.add(place, "leb-unreadable", "S1", error);
    }
    let node = decode::node(&bytes, &volume.limits, place);
    let sb = match node.and_then(|node| node.superblock()) {
        Ok(sb) => sb.grown(volume.sb.leb_cnt),
        Err(error) => return breaches.add(place, "superblock", "S1", &error),
    };
    let shape = VolumeShape {
        leb_size: volume.sb.leb_size,
        min_io: volume.sb.min_io_size,
        leb_count: volume.sb.leb_cnt,
    };
    if let Err(error) = verify::superblock(&sb, shape, place) {
        breaches.add(place, "superblock", sb::row(&error), &error);
    }
}

/// L1, L2, L8, M9: the log; collects the buds.
fn check_log(
    volume: &Volume,
    committed: &mut Committed,
    is_unclean: bool,
    breaches: &mut Breaches,
) -> Step<()> {
    let master = &committed.master;
    let mut report = Report::salvaging();
    let log = log_walk::walk(volume, master, committed.may_be_torn, &mut report)?;
    let is_told = breaches.take(&report, "L1");
    let mut ring = Ring { before: 0, is_live: true, head: log.head, start: log.cs_sqnum };
    let (count, first) = (volume.sb.log_lebs, log_first(master, volume));
    let mut bytes = Vec::new();
    for index in 0..count {
        let leb = LOG_FIRST + (first + index) % count;
        if !read_leb(volume, leb, &mut bytes, "L1", breaches) {
            continue;
        }
        let scanned = scan(volume, leb, &bytes);
        ring.nodes(&scanned, breaches);
        if ring.is_live {
            if !is_told {
                end_of_scan(&scanned, committed.may_be_torn, "log-area", "L1", breaches);
            }
        } else {
            end_of_scan(&scanned, is_unclean, "log-area", "L8", breaches);
        }
        ring.is_live &= leb != ring.head;
    }
    committed.buds = log.buds;
    Ok(())
}

/// Returns the tail of the log, counted from its first LEB.
fn log_first(master: &Master, volume: &Volume) -> u32 {
    master.log_lnum.clamp(LOG_FIRST, volume.sb.log_last()) - LOG_FIRST
}

/// A walk along the log.
struct Ring {
    before: u64,
    is_live: bool,
    head: u32,
    /// Sequence number of the commit start.
    start: u64,
}

impl Ring {
    fn nodes(&mut self, scanned: &Scanned<'_>, breaches: &mut Breaches) {
        for (_, node) in &scanned.nodes {
            let sqnum = node.header.sqnum;
            if self.is_live {
                if sqnum <= self.before {
                    let message = format!("sequence number {sqnum} follows {}", self.before);
                    breaches.add(node.at, "log-area", "L2", message);
                }
                self.before = self.before.max(sqnum);
                continue;
            }
            let node_type = node.header.node_type;
            if !matches!(node_type, NodeType::CommitStart | NodeType::Reference) {
                let message = format!("{} in the log", node_type.name());
                breaches.add(node.at, "log-area", "L8", message);
            } else if sqnum >= self.start {
                let message = format!(
                    "sequence number {sqnum} after the end of the log, expected less than {}",
                    self.start
                );
                breaches.add(node.at, "log-area", "L8", message);
            }
        }
    }
}
