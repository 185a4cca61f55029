//! Writes the changed part of the tree (layer 3; spec: ubifs-runtime 12.6, 12.7, 12.9, 12.10).

use super::Lpt;
use crate::rw::error::{Fault, Step};
use crate::rw::flash::Flash;
use crate::rw::place::Place;
use eraseblock_base::Leb;
use eraseblock_base::align::align_up_usize;
use eraseblock_ubifs_format::constants::sb_flags;
use eraseblock_ubifs_format::lpt::{LebProps, Nnode, NnodeBranch, Pnode, SaveTable, SpaceTable};

/// Bytes for one LEB of the area.
struct Run {
    start: Place,
    bytes: Vec<u8>,
}

impl Run {
    fn end(&self) -> Place {
        self.start.after(self.bytes.len() as u32)
    }
}

/// A tree being written.
struct Writer {
    runs: Vec<Run>,
    ltab_run: Option<(usize, usize)>,
    lsave_done: bool,
}

impl Lpt {
    /// Frees LEBs that are completely dirty; they stay unchanged until the master is written.
    fn collect_trivially(&mut self, flash: &mut Flash) {
        let head = self.head.leb;
        for (leb, row) in (flash.sb.lpt_first()..).zip(&mut self.ltab) {
            if leb != head && row.dirty > 0 && row.free + row.dirty == flash.leb_size {
                row.free = flash.leb_size;
                row.dirty = 0;
                row.held = true;
                flash.activity.lpt_lebs_freed += 1;
            }
        }
    }

    /// Returns the number of bytes that can be written before garbage collection is needed.
    fn room(&self, flash: &Flash) -> u64 {
        let lebs = (flash.sb.lpt_first()..).zip(&self.ltab);
        let whole = lebs
            .filter(|(leb, row)| *leb != self.head.leb && row.free + row.dirty == flash.leb_size)
            .count();
        whole as u64 * u64::from(flash.leb_size)
            + u64::from(flash.leb_size - self.head.offset.min(flash.leb_size))
    }

    /// Returns whether space is short.
    pub(in crate::rw) fn is_short_of_room(&self, flash: &Flash) -> bool {
        self.room(flash) <= 2 * self.whole
    }

    /// Writes all dirty nodes; `props` returns the content of a leaf. Writes nothing if nothing is
    /// dirty. Call [`Lpt::committed`] once the master is on flash.
    pub(in crate::rw) fn write(
        &mut self,
        flash: &mut Flash,
        props: &dyn Fn(usize) -> LebProps,
    ) -> Step<()> {
        self.collect_trivially(flash);
        if !self.is_dirty() {
            return Ok(());
        }
        let mut writer = Writer {
            runs: vec![Run { start: self.head, bytes: Vec::new() }],
            ltab_run: None,
            lsave_done: !flash.sb.has(sb_flags::BIG_LPT),
        };
        self.place_tables(flash, &mut writer);
        let top = self.levels.len() - 1;
        self.place_subtree(flash, &mut writer, top, 0, props)?;
        while !writer.lsave_done || writer.ltab_run.is_none() {
            self.next_leb(flash, &mut writer)?;
            self.place_tables(flash, &mut writer);
        }
        self.close_run(flash, &mut writer)?;
        let last = writer.runs.last().expect("there is always a current run");
        self.head = last.end();
        self.tables_dirty = false;
        let table =
            SpaceTable { lebs: self.ltab.iter().map(|row| (row.free, row.dirty)).collect() };
        let (run, start) = writer.ltab_run.expect("the loop above placed it");
        let packed = table.pack(&flash.lpt);
        writer.runs[run].bytes[start..start + packed.len()].copy_from_slice(&packed);
        for run in &writer.runs {
            let Place { leb, offset } = run.start;
            if offset == 0 {
                // A commit that was cut may have left nodes in it.
                flash.unmap(leb)?;
            }
            if !run.bytes.is_empty() {
                flash.write(leb, offset, &run.bytes)?;
            }
        }
        Ok(())
    }

    /// Places tables first in a LEB, as soon as they fit.
    fn place_tables(&mut self, flash: &Flash, writer: &mut Writer) {
        let size = flash.lpt.lsave_size as u32;
        if !writer.lsave_done && writer.rest(flash) >= size {
            let lebs = self.lsave.iter().map(|leb| Leb::new(*leb)).collect();
            self.lsave_at = writer.append(&SaveTable { lebs }.pack(&flash.lpt));
            writer.lsave_done = true;
        }
        let size = flash.lpt.ltab_size as u32;
        if writer.ltab_run.is_none() && writer.rest(flash) >= size {
            let start = writer.current().bytes.len();
            self.ltab_at = writer.append(&vec![0; size as usize]);
            writer.ltab_run = Some((writer.runs.len() - 1, start));
        }
    }

    fn place_subtree(
        &mut self,
        flash: &Flash,
        writer: &mut Writer,
        level: usize,
        index: usize,
        props: &dyn Fn(usize) -> LebProps,
    ) -> Step<()> {
        let packed = if level == 0 {
            let mut lebs = [LebProps::empty(flash.leb_size); 4];
            for (slot, leb) in lebs.iter_mut().enumerate() {
                let index = index * 4 + slot;
                if index < flash.main_lebs() as usize {
                    *leb = props(index);
                }
            }
            Pnode { number: index as u32, lebs }.pack(&flash.lpt)
        } else {
            let mut branches = [None; 4];
            for (slot, branch) in branches.iter_mut().enumerate() {
                let child = index * 4 + slot;
                let Some(known) = self.levels[level - 1].get(child).copied() else { break };
                if known.dirty {
                    self.place_subtree(flash, writer, level - 1, child, props)?;
                }
                *branch = self.levels[level - 1][child]
                    .place
                    .map(|Place { leb, offset }| NnodeBranch { leb: Leb::new(leb), offset });
            }
            let number = flash.lpt.nnode_number(level as u32, index as u32);
            Nnode { number, branches }.pack(&flash.lpt)
        };
        if writer.rest(flash) < packed.len() as u32 {
            self.next_leb(flash, writer)?;
            self.place_tables(flash, writer);
            if writer.rest(flash) < packed.len() as u32 {
                self.next_leb(flash, writer)?;
            }
        }
        let slot = &mut self.levels[level][index];
        slot.place = Some(writer.append(&packed));
        slot.dirty = false;
        Ok(())
    }

    fn close_run(&mut self, flash: &Flash, writer: &mut Writer) -> Step<()> {
        let run = writer.current();
        let end = run.bytes.len();
        let padded = align_up_usize(end, flash.min_io as usize);
        run.bytes.resize(padded, 0xFF);
        let Place { leb, offset: written } = run.end();
        let row = self.row(flash, leb)?;
        row.free = flash.leb_size - written;
        row.dirty += (padded - end) as u32;
        Ok(())
    }

    /// Ends the current LEB and continues in the next empty one.
    fn next_leb(&mut self, flash: &Flash, writer: &mut Writer) -> Step<()> {
        self.close_run(flash, writer)?;
        let count = self.ltab.len();
        let current = (writer.current().start.leb - flash.sb.lpt_first()) as usize;
        let usable = |row: &super::Row| row.free == flash.leb_size && !row.held;
        let found = (1..=count)
            .map(|step| (current + step) % count)
            .find(|index| usable(&self.ltab[*index]));
        let Some(index) = found else { return Err(Fault::no_space()) };
        let leb = flash.sb.lpt_first() + index as u32;
        writer.runs.push(Run { start: Place::start_of(leb), bytes: Vec::new() });
        Ok(())
    }

    /// Frees what only the old tree needed, once the master that refers to the new tree is on
    /// flash.
    pub(in crate::rw) fn committed(&mut self, flash: &mut Flash) -> Step<()> {
        for (leb, row) in (flash.sb.lpt_first()..).zip(&mut self.ltab) {
            if std::mem::take(&mut row.held) {
                flash.unmap(leb)?;
            }
        }
        Ok(())
    }
}

impl Writer {
    fn current(&mut self) -> &mut Run {
        self.runs.last_mut().expect("there is always a current run")
    }

    fn rest(&mut self, flash: &Flash) -> u32 {
        let run = self.current();
        flash.leb_size - run.end().offset
    }

    fn append(&mut self, packed: &[u8]) -> Place {
        let run = self.current();
        let place = run.end();
        run.bytes.extend_from_slice(packed);
        place
    }
}
