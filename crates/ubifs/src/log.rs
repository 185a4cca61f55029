//! Walks the log to find the buds of the journal (spec: ubifs-format 10; ubifs-runtime 16.2 to
//! 16.4, 17.6).

use crate::codes;
use crate::error::UbifsError;
use crate::recovery;
use crate::report::{Report, leb_start};
use crate::volume::Volume;
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs_format::constants::{LOG_FIRST, NodeType, SQNUM_LIMIT};
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::{FormatError, Master, Reference};

/// Number of journal heads: GC, base, data.
pub(crate) const HEADS: u32 = 3;

/// The content of the log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Buds in the order of their references.
    pub(crate) buds: Vec<Reference>,
    /// Sequence number of the commit start node.
    pub(crate) cs_sqnum: u64,
    /// Whether the commit start named by the master is missing, so that the journal is unknown.
    pub(crate) is_lost: bool,
    /// The last LEB with nodes, and their end.
    pub(crate) head: u32,
    pub(crate) head_offset: u32,
    /// The highest sequence number found.
    pub(crate) max_sqnum: u64,
}

struct Walk<'a> {
    volume: &'a Volume,
    master: &'a Master,
    need_recovery: bool,
    log: Log,
}

/// Walks the log from its tail.
pub(crate) fn walk(
    volume: &Volume,
    master: &Master,
    need_recovery: bool,
    report: &mut Report,
) -> Result<Log, UbifsError> {
    let mut walk = Walk { volume, master, need_recovery, log: Log::default() };
    if volume.sb.log_lebs == 0 {
        // Only a refused superblock has none; the journal is searched for instead.
        report.refuse(leb_start(0), "log-lost", "the superblock has no log LEBs")?;
        walk.log.is_lost = true;
        return Ok(walk.log);
    }
    let last = volume.sb.log_last();
    let mut leb = master.log_lnum.clamp(LOG_FIRST, last);
    let mut bytes = Vec::new();
    for index in 0..volume.sb.log_lebs {
        if let Err(error) = volume.read_written(Leb::new(leb), &mut bytes) {
            report.refuse_read(leb_start(leb), "log-unreadable", error)?;
            bytes.fill(0xFF);
        }
        if !walk.leb(leb, &bytes, index == 0, report)? {
            break;
        }
        leb = if leb == last { LOG_FIRST } else { leb + 1 };
        if leb == master.log_lnum {
            break;
        }
    }
    Ok(walk.log)
}

impl Walk<'_> {
    /// Processes one log LEB; returns whether the log continues.
    fn leb(
        &mut self,
        leb: u32,
        bytes: &[u8],
        is_tail: bool,
        report: &mut Report,
    ) -> Result<bool, UbifsError> {
        let mut scanner = Scanner::new(Leb::new(leb), bytes, 0, self.volume.limits);
        let mut nodes: Vec<_> = scanner.by_ref().collect();
        let mut whole = Vec::new();
        if let Some(error) = scanner.strict_error(self.volume.sb.min_io_size) {
            let torn = self.need_recovery && scanner.is_torn(self.volume.max_write());
            if torn && self.may_be_torn(leb, &nodes) {
                let message = "torn end of the log discarded";
                report.findings.note(error.at(), codes::LOG_RECOVERED, message);
            } else {
                report.refuse_node("log-corrupt", error)?;
                if let Err(error) = self.volume.read_leb(Leb::new(leb), &mut whole) {
                    report.refuse_read(leb_start(leb), "log-unreadable", error)?;
                }
                nodes = recovery::all_nodes(Leb::new(leb), &whole, 0, self.volume.limits);
            }
        }
        let Some((first_offset, first)) = nodes.first() else {
            if is_tail {
                self.lost(leb_start(leb), "the log has no commit start node", report)?;
            }
            return Ok(false);
        };
        if is_tail {
            if !self.take_commit_start(*first_offset, first, report)? {
                return Ok(false);
            }
        } else if first.header.sqnum < self.log.cs_sqnum {
            return Ok(false);
        } else if *first_offset != 0 {
            let message = "the first node of a log LEB is not at its start";
            report.refuse(first.at, "log-corrupt", message)?;
        }
        for (offset, node) in &nodes {
            self.log.max_sqnum = self.log.max_sqnum.max(node.header.sqnum);
            self.node(*offset, node, report)?;
        }
        self.log.head = leb;
        self.log.head_offset = scanner.offset();
        Ok(true)
    }

    /// Returns whether a damaged log LEB may be the last one written (17.6).
    fn may_be_torn(&self, leb: u32, nodes: &[(u32, Node<'_>)]) -> bool {
        let next = if leb == self.volume.sb.log_last() { LOG_FIRST } else { leb + 1 };
        if next == self.master.log_lnum {
            return true;
        }
        let mut bytes = Vec::new();
        if self.volume.read_written(Leb::new(next), &mut bytes).is_err() {
            return false;
        }
        let mut scanner = Scanner::new(Leb::new(next), &bytes, 0, self.volume.limits);
        let first = scanner.next();
        let known = if self.log.cs_sqnum == 0 {
            nodes.first().map_or(0, |(_, node)| node.header.sqnum)
        } else {
            self.log.cs_sqnum
        };
        match first {
            Some((_, node)) => node.header.sqnum <= known,
            None => scanner.strict_error(self.volume.sb.min_io_size).is_none(),
        }
    }

    fn lost(&mut self, at: Location, message: &str, report: &mut Report) -> Result<(), UbifsError> {
        self.log.is_lost = true;
        report.refuse(at, "log-lost", message)
    }

    fn take_commit_start(
        &mut self,
        offset: u32,
        node: &Node<'_>,
        report: &mut Report,
    ) -> Result<bool, UbifsError> {
        let start = match node.commit_start() {
            Ok(start) if offset == 0 => start,
            _ => {
                let message = "the first node of the log is not a commit start node";
                self.lost(node.at, message, report)?;
                return Ok(false);
            }
        };
        if start.cmt_no != self.master.cmt_no {
            let (found, expected) = (start.cmt_no, self.master.cmt_no);
            let message = format!("the log starts commit {found}, expected {expected}");
            report.of_row("M9");
            self.lost(node.at, &message, report)?;
            return Ok(false);
        }
        self.log.cs_sqnum = node.header.sqnum;
        Ok(true)
    }

    fn node(
        &mut self,
        offset: u32,
        node: &Node<'_>,
        report: &mut Report,
    ) -> Result<(), UbifsError> {
        let sqnum = node.header.sqnum;
        if sqnum >= SQNUM_LIMIT || sqnum < self.log.cs_sqnum {
            let message = format!("sequence number {sqnum} does not belong into this log");
            return report.of_row("L2").refuse(node.at, "log-corrupt", message);
        }
        match node.header.node_type {
            NodeType::Reference => match node.reference() {
                Ok(reference) => self.bud(reference, node.at, report),
                Err(error) => report.of_row("L3").refuse_node("log-corrupt", error),
            },
            NodeType::CommitStart if offset == 0 => Ok(()),
            other => {
                let message = format!("{} in the log at offset {offset}", other.name());
                report.refuse(node.at, "log-corrupt", message)
            }
        }
    }

    fn bud(&mut self, bud: Reference, at: Location, report: &mut Report) -> Result<(), UbifsError> {
        let sb = &self.volume.sb;
        let valid = bud.head < HEADS
            && sb.is_main(bud.leb.get())
            && bud.offset <= sb.leb_size
            && bud.offset.is_multiple_of(sb.min_io_size);
        if !valid {
            let message = format!(
                "reference to leb {}:{} for head {}, expected a main LEB and head 0 to 2",
                bud.leb, bud.offset, bud.head
            );
            return report.of_row("L3").refuse(at, "log-corrupt", message);
        }
        match self.log.buds.iter().find(|known| known.leb == bud.leb) {
            Some(known) if known.head == bud.head && known.offset <= bud.offset => Ok(()),
            Some(known) => {
                let message = format!("leb {} is a bud of head {} already", bud.leb, known.head);
                report.of_row("L3").refuse(at, "log-corrupt", message)
            }
            None => {
                self.log.buds.push(bud);
                Ok(())
            }
        }
    }
}

/// Returns the error of a bud scan without its node, for messages.
pub(crate) fn first_error(error: Option<FormatError>, at: Location) -> FormatError {
    error.unwrap_or(FormatError::NotErased { at })
}
