//! The required content of a UBI device, and the allowed content after a cut (spec: ubi 20).

use eraseblock_base::align::is_erased;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A content without the erased bytes after it.
pub(crate) type Content = Arc<Vec<u8>>;

/// The state of one LEB.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LebModel {
    pub(crate) content: Content,
    /// Contents that may reappear after a cut: unmapping is lazy.
    pub(crate) ghosts: Vec<Content>,
}

impl LebModel {
    /// Sets the only content allowed from now on.
    pub(crate) fn set(&mut self, content: Vec<u8>) {
        *self = Self { content: Arc::new(content), ghosts: Vec::new() };
    }

    pub(crate) fn unmap(&mut self) {
        let old = std::mem::take(&mut self.content);
        if !old.is_empty() {
            self.ghosts.push(old);
        }
    }
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VolumeModel {
    pub(crate) name: String,
    pub(crate) is_static: bool,
    pub(crate) lebs: Vec<LebModel>,
    /// Bytes in a static volume.
    pub(crate) used: u64,
}

/// A device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Model {
    pub(crate) volumes: BTreeMap<u32, VolumeModel>,
}

impl Model {
    /// All unmapped blocks have been erased: no earlier content can reappear.
    pub(crate) fn forget_ghosts(&mut self) {
        let lebs = self.volumes.values_mut().flat_map(|volume| &mut volume.lebs);
        lebs.for_each(|leb| leb.ghosts.clear());
    }
}

/// Data that was being written when the power went off.
#[derive(Clone, Debug)]
pub(crate) struct Torn {
    pub(crate) volume: u32,
    pub(crate) leb: u32,
    /// The remaining earlier content of the LEB.
    pub(crate) base: Content,
    pub(crate) data: Vec<u8>,
}

/// The states allowed after a cut in the middle of one operation.
#[derive(Clone, Debug)]
pub(crate) struct Allowed {
    pub(crate) before: Arc<Model>,
    pub(crate) after: Arc<Model>,
    pub(crate) torn: Option<Torn>,
    /// A volume that is completely old, completely new, or marked as damaged.
    pub(crate) updating: Option<u32>,
    /// A volume whose LEBs from a number may already be removed.
    pub(crate) shrinking: Option<(u32, u32)>,
}

/// A LEB as it was read: pieces as they were programmed, and whether each could be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) bytes: Vec<u8>,
    /// Bytes up to the last one that is not erased.
    pub(crate) used: usize,
    /// End of each piece and whether its bytes are trusted.
    pub(crate) pieces: Vec<(usize, bool)>,
}

impl Found {
    pub(crate) fn is_readable(&self) -> bool {
        self.pieces.iter().all(|(_, good)| *good)
    }

    /// Returns whether it is readable, starts with `content` and is erased after that.
    pub(crate) fn is(&self, content: &[u8]) -> bool {
        self.is_readable() && self.resembles(content)
    }

    fn resembles(&self, content: &[u8]) -> bool {
        self.used <= content.len() && self.bytes.starts_with(content)
    }

    /// Drops the padding after the data of a static volume, which no checksum covers.
    pub(crate) fn padded(mut self, end: usize, unit: usize) -> Self {
        let filled = end.next_multiple_of(unit).min(self.bytes.len());
        if self.used > 0
            && let Some(filling) = self.bytes.get_mut(end..filled)
        {
            filling.fill(0);
        }
        self.measure()
    }

    /// Determines where the erased rest begins.
    pub(crate) fn measure(mut self) -> Self {
        let erased = self.bytes.rchunks(64).take_while(|chunk| is_erased(chunk));
        let rest = self.bytes.len() - erased.map(<[u8]>::len).sum::<usize>();
        let last = self.bytes[..rest].iter().rposition(|byte| *byte != 0xFF);
        self.used = last.map_or(0, |last| last + 1);
        self
    }

    /// Returns whether all pieces that could be read are those of `content`.
    pub(crate) fn is_as_far_as_readable(&self, content: &[u8]) -> bool {
        let mut start = 0;
        self.pieces.iter().all(|(end, good)| {
            let piece = &self.bytes[start..*end];
            let expected = content.get(start..).unwrap_or_default();
            let expected = &expected[..expected.len().min(piece.len())];
            start = *end;
            !good || (piece.starts_with(expected) && is_erased(&piece[expected.len()..]))
        })
    }

    /// Returns whether it is `base` followed by a prefix of `data`, with at most one torn piece: a
    /// torn piece cannot be read, or has some of its bits programmed.
    pub(crate) fn is_torn(&self, base: &[u8], data: &[u8]) -> bool {
        if self.pieces.is_empty() {
            // Unmapped: the earlier content must not be lost.
            return base.is_empty();
        }
        let goal: Vec<u8> = base.iter().chain(data).copied().collect();
        let (mut start, mut torn) = (0, false);
        for (end, good) in &self.pieces {
            let piece = &self.bytes[start..*end];
            let goal = goal.get(start..goal.len().min(*end)).unwrap_or_default();
            let complete = *good && piece.starts_with(goal) && is_erased(&piece[goal.len()..]);
            let fixed = base.len().saturating_sub(start).min(piece.len());
            if torn {
                if !good || !is_erased(&piece[fixed..]) {
                    return false;
                }
            } else if !complete {
                torn = true;
                let cleared = |(byte, goal): (&u8, &u8)| byte & goal == *goal;
                let partly = piece.iter().zip(goal).all(cleared)
                    && piece.starts_with(&goal[..fixed.min(goal.len())])
                    && is_erased(&piece[goal.len()..]);
                if *good && !partly {
                    return false;
                }
            }
            start = *end;
        }
        true
    }
}

impl Allowed {
    /// Returns whether this content of the LEB is allowed.
    pub(crate) fn permits(&self, volume: u32, leb: u32, found: &Found) -> bool {
        let models = [&self.before, &self.after].into_iter();
        let lebs = models.filter_map(|model| model.volumes.get(&volume)?.lebs.get(leb as usize));
        let known = lebs
            .flat_map(|leb| leb.ghosts.iter().chain([&leb.content]))
            .any(|content| found.is(content));
        let shrunk = self.shrinking.is_some_and(|(of, first)| of == volume && leb >= first);
        let torn = self.torn.as_ref().filter(|torn| (torn.volume, torn.leb) == (volume, leb));
        known
            || (shrunk && found.is(&[]))
            || torn.is_some_and(|torn| found.is_torn(&torn.base, &torn.data))
    }

    /// Returns whether this content of the LEB is allowed with unstable cells: nothing is wrong in
    /// it, but parts or all of it may be lost.
    pub(crate) fn permits_lost(&self, volume: u32, leb: u32, found: &Found) -> bool {
        let models = [&self.before, &self.after].into_iter();
        let lebs = models.filter_map(|model| model.volumes.get(&volume)?.lebs.get(leb as usize));
        let mut known = lebs.flat_map(|leb| leb.ghosts.iter().chain([&leb.content]));
        let torn = self.torn.as_ref().filter(|torn| (torn.volume, torn.leb) == (volume, leb));
        found.is(&[])
            || known.any(|content| found.is_as_far_as_readable(content))
            || torn.is_some_and(|torn| found.is_torn(&torn.base, &torn.data))
            || self.permits_torn_ghost(volume, leb, found)
    }

    /// Returns whether it is the beginning of what a LEB held that is unmapped. Decaying content of
    /// an erased block comes back and is copied; if that is cut, and the original has decayed by
    /// then, the torn copy is all that is left.
    fn permits_torn_ghost(&self, volume: u32, leb: u32, found: &Found) -> bool {
        let of = |model: &Model| {
            model.volumes.get(&volume).and_then(|it| it.lebs.get(leb as usize)).cloned()
        };
        let Some(after) = of(&self.after).filter(|after| after.content.is_empty()) else {
            return false;
        };
        let before = of(&self.before).unwrap_or_default();
        let mut ghosts = before.ghosts.iter().chain([&before.content]).chain(&after.ghosts);
        ghosts.any(|content| found.is_torn(&[], content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8], bad: &[usize]) -> Found {
        let pieces = (1..=bytes.len() / 2).map(|n| (2 * n, !bad.contains(&(n - 1)))).collect();
        Found { bytes: bytes.to_vec(), used: 0, pieces }.measure()
    }

    /// Only part of the decaying content of an unmapped LEB came back
    /// (`ubi/large/eager-103008@2298.E4+2300.P2half`).
    #[test]
    fn a_torn_copy_of_unmapped_content_is_allowed_and_one_of_mapped_content_is_not() {
        let of = |leb: LebModel| {
            let (name, is_static, used) = ("v".to_owned(), false, 0);
            let volume = VolumeModel { name, is_static, lebs: vec![leb], used };
            Arc::new(Model { volumes: BTreeMap::from([(4, volume)]) })
        };
        let mut leb = LebModel::default();
        leb.set(vec![1, 2, 3, 4]);
        let before = of(leb.clone());
        let allowed = |after| Allowed {
            before: before.clone(),
            after,
            torn: None,
            updating: None,
            shrinking: None,
        };
        let torn = found(&[1, 2, 0xFF, 0xFF], &[]);
        assert!(!allowed(before.clone()).permits_lost(4, 0, &torn));
        leb.unmap();
        let unmapped = allowed(of(leb));
        assert!(unmapped.permits_lost(4, 0, &torn) && !unmapped.permits(4, 0, &torn));
        assert!(!unmapped.permits_lost(4, 0, &found(&[1, 9, 0xFF, 0xFF], &[])));
    }

    #[test]
    fn torn_writes() {
        let (base, data) = ([1, 2], [0x30, 0x40, 0x50, 0x60]);
        let torn = |bytes: &[u8], bad: &[usize]| found(bytes, bad).is_torn(&base, &data);
        assert!(torn(&[1, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], &[]));
        assert!(torn(&[1, 2, 0x30, 0x40, 0x50, 0x60, 0xFF, 0xFF], &[]));
        assert!(torn(&[1, 2, 0x30, 0x40, 0x51, 0xFF, 0xFF, 0xFF], &[]));
        assert!(torn(&[1, 2, 9, 9, 0xFF, 0xFF, 0xFF, 0xFF], &[1]));
        assert!(!torn(&[1, 2, 0x20, 0x40, 0xFF, 0xFF, 0xFF, 0xFF], &[]), "another bit cleared");
        assert!(!torn(&[1, 2, 0x31, 0x40, 0x50, 0x60, 0xFF, 0xFF], &[]), "a hole");
        assert!(!torn(&[1, 3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], &[]), "the base changed");
        assert!(!torn(&[1, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF], &[]), "data after it");
        let unmapped = Found::default();
        assert!(unmapped.is_torn(&[], &data) && !unmapped.is_torn(&base, &data));
        assert!(found(&[1, 2, 9, 9], &[1]).is_as_far_as_readable(&[1, 2, 3]));
        assert!(!found(&[1, 2, 9, 9], &[0]).is_as_far_as_readable(&[1, 2, 3]));
    }
}
