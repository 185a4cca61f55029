//! Chooses the next operation: at random, but one that must succeed.

use super::style::Style;
use super::{Bench, Op};

impl Bench {
    pub(super) fn choose(&mut self) -> Op {
        match self.operations {
            0 => return Op::Create { id: 0, is_static: false, lebs: 10 },
            1 => return Op::Create { id: 1, is_static: true, lebs: 3 },
            _ => {}
        }
        if !self.is_filled {
            if let Some(op) = self.propose_filling() {
                return op;
            }
            self.is_filled = true;
        }
        loop {
            let number = self.random.below(100);
            let number = kind_at(self.style.weights(), number);
            if let Some(op) = self.propose(number) {
                return op;
            }
        }
    }

    /// Returns the next operation that fills the device: a volume of all LEBs that are left, then
    /// data in each LEB without any. `None` if it is full.
    fn propose_filling(&mut self) -> Option<Op> {
        let left = self.ubi.available_lebs().saturating_sub(self.style.spare_lebs());
        if left > 0 {
            let id = (0..8).find(|id| !self.model.volumes.contains_key(id))?;
            return Some(Op::Create { id, is_static: false, lebs: left });
        }
        let size = self.layout.leb_size() as usize;
        for (volume, model) in &self.model.volumes {
            let (volume, lebs) = (*volume, model.lebs.len());
            let empty = model.lebs.iter().position(|leb| leb.content.is_empty());
            match empty.and_then(|leb| u32::try_from(leb).ok()) {
                Some(_) if model.is_static => {
                    let data = vec![0x5A; lebs * size];
                    return Some(Op::Update { volume, data });
                }
                Some(leb) => {
                    let data = self.data(size);
                    return Some(Op::Change { volume, leb, data });
                }
                None => {}
            }
        }
        None
    }

    fn propose(&mut self, number: u64) -> Option<Op> {
        let volume = self.pick_volume();
        match number {
            0..56 => self.propose_leb(number, volume?),
            56..60 => self.propose_read(volume?),
            60..72 => Some(Op::Step),
            72..76 => Some(Op::Flush),
            76..81 => Some(Op::Scrub { peb: self.below(self.target.shape.pebs()) }),
            81 => Some(Op::Reattach { detach: self.below(2) == 0 }),
            82..86 => self.propose_new(),
            86..88 => (self.model.volumes.len() > 2).then_some(Op::Remove { volume: volume? }),
            88..92 => self.propose_size(volume?),
            92..94 => self.propose_swap(volume?),
            94..95 => self.propose_replacement(volume?),
            _ => Some(self.propose_update(volume?)),
        }
    }

    fn propose_leb(&mut self, number: u64, volume: u32) -> Option<Op> {
        let model = &self.model.volumes[&volume];
        if model.is_static {
            return None;
        }
        let leb = u32::try_from(model.lebs.len()).ok()?;
        let leb = self.below(leb);
        let content = self.model.volumes[&volume].lebs[leb as usize].content.len();
        let left = self.layout.leb_size() as usize - content;
        match number {
            0..22 => {
                let data = self.data(left);
                (!data.is_empty()).then_some(Op::Append { volume, leb, data })
            }
            22..40 => {
                let data = self.data(self.layout.leb_size() as usize);
                Some(Op::Change { volume, leb, data })
            }
            40..44 => Some(Op::Map { volume, leb }),
            44..52 => Some(Op::Unmap { volume, leb }),
            _ => Some(Op::Erase { volume, leb }),
        }
    }

    fn propose_read(&mut self, volume: u32) -> Option<Op> {
        let lebs = u32::try_from(self.model.volumes[&volume].lebs.len()).ok()?;
        Some(Op::Read { volume, leb: self.below(lebs) })
    }

    fn propose_new(&mut self) -> Option<Op> {
        let id = (0..5).find(|id| !self.model.volumes.contains_key(id))?;
        let (is_static, lebs) = (self.below(4) == 0, 1 + self.below(5));
        (lebs <= self.ubi.available_lebs()).then_some(Op::Create { id, is_static, lebs })
    }

    fn propose_size(&mut self, volume: u32) -> Option<Op> {
        let model = &self.model.volumes[&volume];
        let used = model.used.div_ceil(u64::from(self.layout.leb_size()));
        let least = u32::try_from(used.max(1)).ok()?;
        let model_lebs = u32::try_from(model.lebs.len()).ok()?;
        let lebs = 1 + self.below(12);
        let most = model_lebs + self.ubi.available_lebs();
        (lebs >= least && lebs <= most).then_some(Op::Resize { volume, lebs })
    }

    fn propose_swap(&mut self, volume: u32) -> Option<Op> {
        let other = self.pick_volume()?;
        (other != volume).then_some(Op::Swap { volume, other })
    }

    fn propose_replacement(&mut self, volume: u32) -> Option<Op> {
        let other = self.pick_volume()?;
        let is_possible = other != volume && self.model.volumes.len() >= 4;
        is_possible.then_some(Op::Replace { volume, other })
    }

    fn propose_update(&mut self, volume: u32) -> Op {
        if self.style != Style::Mixed {
            let data = match self.below(3) {
                0 => Some(Vec::new()),
                1 => Some(vec![0x5A; self.unit()]),
                _ => None,
            };
            if let Some(data) = data {
                return Op::Update { volume, data };
            }
        }
        let lebs = self.model.volumes[&volume].lebs.len();
        let mut data = self.data(lebs.min(3) * self.layout.leb_size() as usize);
        let odd = self.below(40) as usize;
        data.truncate(data.len().saturating_sub(odd));
        if let Some(last) = data.last_mut() {
            *last &= 0x7F;
        }
        Op::Update { volume, data }
    }

    pub(super) fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.random.below(bound.into())).expect("below a 32-bit number")
    }

    fn pick_volume(&mut self) -> Option<u32> {
        let index = self.random.next_u64();
        let ids: Vec<u32> = self.model.volumes.keys().copied().collect();
        let index = usize::try_from(index % (ids.len() as u64).max(1)).ok()?;
        ids.get(index).copied()
    }

    /// Returns the smallest number of bytes that can be programmed.
    pub(super) fn unit(&self) -> usize {
        self.layout.min_io() as usize
    }

    /// Returns up to `room` bytes that occur nowhere else, in whole units; most often few.
    fn data(&mut self, room: usize) -> Vec<u8> {
        let unit = (self.layout.min_io() as usize).max(64);
        let most = if self.below(8) == 0 { 24 } else { 3 };
        let units = (1 + self.below(most) as usize).min(room / unit);
        let mut bytes = Vec::with_capacity(units * unit);
        while bytes.len() < units * unit {
            bytes.extend(self.random.next_u64().to_le_bytes());
        }
        if let Some(last) = bytes.last_mut() {
            *last &= 0x7F;
        }
        bytes
    }
}

/// Returns the kind that a number below 100 chooses.
fn kind_at(weights: &[(u64, u64)], mut number: u64) -> u64 {
    for (kind, weight) in weights {
        match number.checked_sub(*weight) {
            Some(rest) => number = rest,
            None => return *kind,
        }
    }
    number
}
