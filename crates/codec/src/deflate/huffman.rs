//! Huffman codes with limited lengths.
#![expect(clippy::cast_possible_truncation, reason = "symbols and lengths are small")]

/// More than the size of any alphabet of DEFLATE.
pub(super) const SYMBOLS: usize = 288;

/// More than the depth of any tree for a block: depth grows with the logarithm of the total.
const DEPTHS: usize = 32;

/// Longest code of literals, lengths and distances.
pub(super) const LONGEST: usize = 15;

/// Assigns a code length of at most `longest` to every symbol that occurs, and 0 to the others.
///
/// At least two symbols get a code, so that the code is complete. The sum of the frequencies must
/// be less than 65,536.
pub(super) fn lengths(frequencies: &[u32], longest: usize, lengths: &mut [u8]) {
    let mut leaves = [0; SYMBOLS];
    let mut count = 0;
    for (symbol, frequency) in frequencies.iter().enumerate() {
        leaves[count] = (frequency << 16) | symbol as u32;
        count += usize::from(*frequency != 0);
    }
    lengths.fill(0);
    if count < 2 {
        let used = if count == 0 { 0 } else { leaves[0] as u16 };
        lengths[usize::from(used)] = 1;
        lengths[usize::from(used == 0)] = 1;
        return;
    }
    let leaves = &mut leaves[..count];
    leaves.sort_unstable();
    let mut by_length = depths(leaves);
    limit(&mut by_length, longest);
    let mut rest = leaves.iter();
    for length in (1..=longest).rev() {
        for leaf in rest.by_ref().take(by_length[length] as usize) {
            lengths[usize::from(*leaf as u16)] = length as u8;
        }
    }
}

/// Returns the number of leaves, sorted by frequency, at each depth of their tree.
fn depths(leaves: &[u32]) -> [u32; DEPTHS] {
    let mut weights = [0; SYMBOLS];
    let mut parents = [0_u16; SYMBOLS];
    let (mut leaf, mut node) = (0, 0);
    let joints = leaves.len() - 1;
    for joint in 0..joints {
        let mut weight = 0;
        for _ in 0..2 {
            let next = leaves.get(leaf).map_or(u32::MAX, |leaf| leaf >> 16);
            if node < joint && weights[node] < next {
                weight += weights[node];
                parents[node] = joint as u16;
                node += 1;
            } else {
                weight += next;
                leaf += 1;
            }
        }
        weights[joint] = weight;
    }
    // Every inner node has two children, each an inner node or a leaf.
    let mut depth = [0_u8; SYMBOLS];
    let mut by_depth = [0; DEPTHS];
    by_depth[1] = 2;
    for joint in (0..joints - 1).rev() {
        let here = depth[usize::from(parents[joint])] + 1;
        depth[joint] = here;
        by_depth[usize::from(here)] -= 1;
        by_depth[usize::from(here) + 1] += 2;
    }
    by_depth
}

/// Moves leaves up to the depth `longest`, and others down to make space for them.
fn limit(by_length: &mut [u32; DEPTHS], longest: usize) {
    let deeper: u32 = by_length[longest + 1..].iter().sum();
    if deeper == 0 {
        return;
    }
    by_length[longest] += deeper;
    let room = |(length, count): (usize, &u32)| count << (longest - length);
    let taken: u32 = by_length.iter().enumerate().take(longest + 1).skip(1).map(room).sum();
    for _ in 0..taken.saturating_sub(1 << longest) {
        by_length[longest] -= 1;
        if let Some(length) = (1..longest).rev().find(|length| by_length[*length] != 0) {
            by_length[length] -= 1;
            by_length[length + 1] += 2;
        }
    }
}

/// A code word in the order of writing: its bits, the first one lowest, and from bit 16 its length.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Word(u32);

impl Word {
    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        (self.0 & 0xFFFF) as u64
    }

    #[inline(always)]
    pub(super) const fn len(self) -> u32 {
        self.0 >> 16
    }
}

/// Computes the canonical code with these lengths (RFC 1951, 3.2.2); symbols of length 0 have no
/// word.
pub(super) fn code(lengths: &[u8], words: &mut [Word]) {
    let mut count = [0_u16; LONGEST + 1];
    for length in lengths {
        count[usize::from(*length & 15)] += 1;
    }
    count[0] = 0;
    let mut next = [0_u16; LONGEST + 1];
    for length in 1..=LONGEST {
        next[length] = next[length - 1].wrapping_add(count[length - 1]) << 1;
    }
    for (word, length) in words.iter_mut().zip(lengths) {
        let length = usize::from(*length & 15);
        let code = next[length];
        next[length] = code.wrapping_add(1);
        let shift = (16 - length as u32) & 15;
        *word = Word(u32::from(code.reverse_bits() >> shift) | ((length as u32) << 16));
    }
}
