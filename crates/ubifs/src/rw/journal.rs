//! Reserves space in the journal and writes to it (spec: ubifs-runtime 7.6, 8.1).
//!
//! # Invariants
//! 1. Space is reserved before sequence numbers are taken, so that within a head they ascend.
//! 2. Nodes of one operation lie in one LEB, one after the other.

use super::core::Core;
use super::error::{Fault, Step, at};
use super::flash::align8;
use super::wbuf::{BASE_HEAD, DATA_HEAD, GC_HEAD, Wbuf};
use eraseblock_ubifs_format::constants::{SQNUM_LIMIT, group};
use eraseblock_ubifs_format::encode::{self, Seal};
use eraseblock_ubifs_format::{Dent, Inode, Truncation};

/// Number of commits that a reservation tries before it gives up.
const PATIENCE: u32 = 128;

/// The place of a node of a group: offset in the group's buffer, exact length, sequence number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) leb: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
}

/// Nodes of one operation on their way to the base head.
#[derive(Debug, Default)]
pub(super) struct Group {
    bytes: Vec<u8>,
    /// Start and length of each node.
    nodes: Vec<(u32, u32)>,
}

impl Group {
    /// Returns the length of an entry node with this many name bytes.
    pub(super) fn dent_len(name: &[u8]) -> u32 {
        align8(57 + name.len() as u32)
    }

    fn added(&mut self, start: usize) {
        self.nodes.push((start as u32, (self.bytes.len() - start) as u32));
    }

    fn seal(core: &mut Core, last: bool) -> Step<Seal> {
        let sqnum = core.next_sqnum()?;
        Ok(Seal { sqnum, group: if last { group::LAST } else { group::IN } })
    }

    pub(super) fn dent(&mut self, core: &mut Core, dent: &Dent<'_>) -> Step<()> {
        let seal = Self::seal(core, false)?;
        let start = encode::start(&mut self.bytes);
        encode::dent(&mut self.bytes, dent, seal);
        self.added(start);
        Ok(())
    }

    pub(super) fn inode(&mut self, core: &mut Core, inode: &Inode<'_>, last: bool) -> Step<()> {
        let seal = Self::seal(core, last)?;
        let start = encode::start(&mut self.bytes);
        encode::inode(&mut self.bytes, inode, seal);
        self.added(start);
        Ok(())
    }

    pub(super) fn truncation(
        &mut self,
        core: &mut Core,
        node: &Truncation,
        last: bool,
    ) -> Step<()> {
        let seal = Self::seal(core, last)?;
        let start = encode::start(&mut self.bytes);
        encode::truncation(&mut self.bytes, node, seal);
        self.added(start);
        Ok(())
    }

    /// Adds a data node that is complete except for its sequence number, as the last of its group.
    pub(super) fn last_data(&mut self, core: &mut Core, framed: &[u8]) -> Step<()> {
        let sqnum = core.next_sqnum()?;
        let start = encode::start(&mut self.bytes);
        self.bytes.extend_from_slice(framed);
        self.bytes[start + 21] = group::LAST;
        encode::seal(&mut self.bytes[start..], sqnum);
        self.added(start);
        Ok(())
    }
}

impl Core {
    /// Returns the next sequence number.
    pub(super) fn next_sqnum(&mut self) -> Step<u64> {
        if self.max_sqnum + 1 >= SQNUM_LIMIT {
            self.flash.turn_read_only("sequence numbers are used up");
            self.flash.check_writable()?;
        }
        self.max_sqnum += 1;
        Ok(self.max_sqnum)
    }

    /// Ensures that `len` bytes can be appended to a head; commits and collects garbage if
    /// necessary.
    pub(super) fn reserve(&mut self, head: usize, len: u32) -> Step<()> {
        let mut no_space = 0;
        for _ in 0..PATIENCE {
            match self.try_reserve(head, align8(len)) {
                Err(Fault::CommitFirst) => self.commit()?,
                Err(fault) if fault.is_no_space() && no_space < 2 => {
                    no_space += 1;
                    self.commit()?;
                }
                result => return result,
            }
        }
        Err(Fault::no_space())
    }

    fn try_reserve(&mut self, head: usize, len: u32) -> Step<()> {
        self.flash.check_writable()?;
        if self.heads[head].leb != 0 && self.heads[head].room(&self.flash) >= len {
            return Ok(());
        }
        let (leb, start) = match self.find_room(len, head == BASE_HEAD) {
            Err(fault) if fault.is_no_space() => (self.collect_garbage(false)?, 0),
            found => found?,
        };
        // Garbage collection may have moved this head.
        if self.heads[head].leb != 0 && self.heads[head].room(&self.flash) >= len {
            self.lprops.set_taken(&self.flash, leb, false)?;
            return Ok(());
        }
        self.sync_head(head)?;
        if let Err(fault) = self.add_bud(head, leb, start) {
            if !matches!(fault, Fault::CommitFirst) {
                let reason = format!("moving a journal head: {}", fault.describe());
                self.flash.turn_read_only(&reason);
            }
            self.lprops.set_taken(&self.flash, leb, false)?;
            return Err(fault);
        }
        self.heads[head].seek(leb, start);
        Ok(())
    }

    /// Writes out one write-buffer.
    pub(super) fn sync_head(&mut self, head: usize) -> Step<()> {
        let Self { flash, lprops, heads, .. } = self;
        heads[head].sync(flash, lprops)
    }

    /// Writes out all write-buffers.
    pub(super) fn sync_heads(&mut self) -> Step<()> {
        for head in [BASE_HEAD, DATA_HEAD, GC_HEAD] {
            self.sync_head(head)?;
        }
        Ok(())
    }

    /// Appends nodes for which space was reserved to a head.
    pub(super) fn append(&mut self, head: usize, nodes: &[u8]) -> Step<(u32, u32)> {
        let Self { flash, lprops, heads, .. } = self;
        let wbuf: &mut Wbuf = &mut heads[head];
        let result = wbuf.append(flash, lprops, nodes);
        if let Err(fault) = &result {
            flash.turn_read_only(&format!("writing the journal: {}", fault.describe()));
        }
        result
    }

    /// Writes a group to the base head, in reserved space. The durability of `inos` depends on it;
    /// with `sync` it is made durable at once.
    pub(super) fn write_group(
        &mut self,
        group: &Group,
        inos: &[u32],
        sync: bool,
    ) -> Step<Vec<Written>> {
        let (leb, start) = self.append(BASE_HEAD, &group.bytes)?;
        if sync || self.options.sync {
            self.sync_head(BASE_HEAD)?;
        } else {
            self.heads[BASE_HEAD].inos.extend(inos);
        }
        let place = |&(offset, len): &(u32, u32)| Written { leb, offset: start + offset, len };
        Ok(group.nodes.iter().map(place).collect())
    }

    /// Reads a node from flash or from the write-buffer that still holds it.
    pub(super) fn read_node(&self, leb: u32, offset: u32, buf: &mut [u8]) -> Step<()> {
        if u64::from(offset) + buf.len() as u64 > u64::from(self.flash.leb_size) {
            return Err(Fault::refused(
                at(leb, offset),
                "node-leaves-leb",
                "a node leaves its LEB",
            ));
        }
        if !self.heads.iter().any(|wbuf| wbuf.holds(leb, offset)) {
            self.flash.read(leb, offset, buf)?;
        }
        for wbuf in &self.heads {
            wbuf.overlay(leb, offset, buf);
        }
        Ok(())
    }
}
