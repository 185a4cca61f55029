//! A new tree in the LPT area (spec: ubifs-format 11.9).

use super::{LebProps, LptGeometry, Nnode, NnodeBranch, Pnode, SaveTable, SpaceTable};
use crate::constants::LPT_FANOUT;
use alloc::vec;
use alloc::vec::Vec;
use eraseblock_base::{Leb, align};

/// A place in the LPT area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LptPlace {
    /// The LEB.
    pub leb: Leb,
    /// Byte offset in it.
    pub offset: u32,
}

/// A new tree: the contents of the LPT area and the fields of the master node that refer to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FreshLpt {
    /// Contents of the used LPT LEBs, in order: a multiple of the minimum I/O unit each, filled
    /// with 0xFF after the last node. The rest of the area is erased.
    pub lebs: Vec<Vec<u8>>,
    /// The root.
    pub root: LptPlace,
    /// The space table.
    pub ltab: LptPlace,
    /// The save table, in the big model.
    pub lsave: Option<LptPlace>,
    /// The position of the next write.
    pub head: LptPlace,
}

/// Lays out the tree for the LEBs of the main area in `props`. `geometry` must be that of the
/// volume at its current size and [`LptGeometry::fits`]. Returns `None` if the LPT area is too
/// small, which cannot happen with a layout from `layout`.
pub fn build(geometry: &LptGeometry, props: &[LebProps], main_first: Leb) -> Option<FreshLpt> {
    let mut area = Area::new(geometry);
    let mut children = Vec::with_capacity(geometry.pnode_cnt as usize);
    for (number, lebs) in (0..).zip(props.chunks(LPT_FANOUT as usize)) {
        let mut pnode = Pnode {
            number,
            lebs: [LebProps::empty(geometry.inputs.leb_size); LPT_FANOUT as usize],
        };
        pnode.lebs[..lebs.len()].copy_from_slice(lebs);
        children.push(area.append(&pnode.pack(geometry)));
    }
    for level in 1..=geometry.height {
        let groups = children.chunks(LPT_FANOUT as usize);
        children = (0..)
            .zip(groups)
            .map(|(index, group)| {
                let mut branches = [None; LPT_FANOUT as usize];
                for (branch, place) in branches.iter_mut().zip(group) {
                    *branch = Some(NnodeBranch { leb: place.leb, offset: place.offset });
                }
                let number = geometry.nnode_number(level, index);
                area.append(&Nnode { number, branches }.pack(geometry))
            })
            .collect();
    }
    let root = *children.first()?;
    let lsave = geometry
        .inputs
        .big
        .then(|| area.append(&save_table(geometry, props.len(), main_first).pack(geometry)));
    let ltab = area.append_space_table()?;
    let head = area.head();
    Some(FreshLpt { lebs: area.finish(), root, ltab, lsave, head })
}

/// Returns the first LEBs of the main area, followed by the very first one repeatedly: all of them
/// exist.
fn save_table(geometry: &LptGeometry, main_lebs: usize, main_first: Leb) -> SaveTable {
    let numbers = (0..geometry.inputs.lsave_cnt).map(|slot| {
        let offset = if (slot as usize) < main_lebs { slot } else { 0 };
        Leb::new(main_first.get().saturating_add(offset))
    });
    SaveTable { lebs: numbers.collect() }
}

/// The LPT area while it is being filled.
struct Area<'a> {
    geometry: &'a LptGeometry,
    lebs: Vec<Vec<u8>>,
}

impl<'a> Area<'a> {
    fn new(geometry: &'a LptGeometry) -> Self {
        Self { geometry, lebs: vec![Vec::new()] }
    }

    /// Reserves `size` bytes and returns their place.
    fn place(&mut self, size: usize) -> LptPlace {
        let leb_size = self.geometry.inputs.leb_size as usize;
        if self.current().len() + size > leb_size {
            self.lebs.push(Vec::new());
        }
        let index = self.lebs.len() as u32 - 1;
        let leb = Leb::new(self.geometry.inputs.lpt_first.get() + index);
        LptPlace { leb, offset: self.current().len() as u32 }
    }

    fn append(&mut self, node: &[u8]) -> LptPlace {
        let place = self.place(node.len());
        self.current().extend_from_slice(node);
        place
    }

    /// Appends the table of the final free and dirty bytes of all LEBs, including its own.
    fn append_space_table(&mut self) -> Option<LptPlace> {
        let inputs = &self.geometry.inputs;
        let size = self.geometry.ltab_size as usize;
        let place = self.place(size);
        let last = self.lebs.len() - 1;
        let ends = self
            .lebs
            .iter()
            .enumerate()
            .map(|(index, leb)| if index == last { leb.len() + size } else { leb.len() });
        let mut rows: Vec<_> = ends
            .map(|end| {
                let written = align::align_up(end as u32, inputs.min_io);
                (inputs.leb_size - written, written - end as u32)
            })
            .collect();
        let unused = (inputs.lpt_lebs as usize).checked_sub(rows.len())?;
        rows.extend(core::iter::repeat_n((inputs.leb_size, 0), unused));
        let table = SpaceTable { lebs: rows }.pack(self.geometry);
        self.current().extend_from_slice(&table);
        Some(place)
    }

    fn current(&mut self) -> &mut Vec<u8> {
        self.lebs.last_mut().expect("an area has a current LEB")
    }

    fn head(&self) -> LptPlace {
        let inputs = &self.geometry.inputs;
        let last = self.lebs.len() - 1;
        LptPlace {
            leb: Leb::new(inputs.lpt_first.get() + last as u32),
            offset: align::align_up(self.lebs[last].len() as u32, inputs.min_io),
        }
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        for leb in &mut self.lebs {
            let end = align::align_up_usize(leb.len(), self.geometry.inputs.min_io as usize);
            leb.resize(end, 0xFF);
        }
        self.lebs
    }
}
