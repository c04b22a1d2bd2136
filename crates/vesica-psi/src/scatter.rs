//! Totals of many groups: a number that two parties have in shares goes to the place of its group in a long vector, and the party that does not
//! know the group sees nothing of it. Part of `circuit`, whose letters these are.
//!
//! [GGM86] Goldreich, Goldwasser, Micali, "How to construct random functions", J. ACM 33(4), 1986, for the tree; [SGRR19] Schoppmann, Gascón,
//! Reichert, Raykova, "Distributed vector-OLE", CCS 2019, eprint 2019/1084, for one of which a party knows all leaves but one; semi-honest.
//!
//!   K, M   groups under a leaf, leaves of a tree        low, leaves     q, r   a group's number is q·K + r               place, low
//!   p      shares of f_b·v_b, K·(c+1) numbers a tree    shares          w_u    what leaf u makes, as many numbers        pads
//!   α      the leaf that R does not know                hole            y      S's p, under all of w                     –
//!
//! With a column for each number of each group, step 4 of `circuit` sends what grows by g. Here it has columns for the K groups of one q alone:
//! one of them is a key's, by its r, and the others are 0. Then each of the groups that a key may be in has a tree:
//! 4'. R -> S: σ := q + α, bit by bit, where the bits of α are those that R did not choose in log M transfers from S.
//! 4". S grows a tree.   S -> R: of each level the sums of its left nodes and of its right ones, each under a key of that level's transfer;
//!     y := S's p + Σ w_u mod 2^64.   R knows all leaves but that at α.
//!     S takes w_u off its cells of q = u + σ, for all u. R adds w_u to its own, for all u but α. At u = α, which is its q, it adds
//!     its p + y - Σ w_u, over all u but α: that is f_b·v_b + w_α.
//! So the cells of both add up to f_b·v_b at the key's own group and to nothing elsewhere.
//! What R gets is under w_α, which looks random to it, and under keys that it has not. What S gets is under α, which is random to it. A bin
//! without a key or with fewer groups has numbers that are 0, and any q.
//!
//! No address and no branch depends on a group or on α: R computes on the node that it does not know as on any other, and puts what it should be
//! in its place by masks.

use crate::gmw::Made;
use vesica_block::{Block, hash::Permutation};
use vesica_session::{Channel, Misbehaviour, Result, SessionRng};
use zeroize::Zeroizing;

/// Numbers that a leaf makes, about: fewer of them make more leaves, which cost time, and more are more bytes.
const NUMBERS: u32 = 16;

/// Trees that are grown together: enough blocks for the cipher, and few enough for the cache.
const BATCH: usize = 16;

/// Trees of a message.
const MESSAGE: usize = 64 * BATCH;

/// The trees of a bin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// log2 of the groups under a leaf.
    pub log_low: u32,
    /// log2 of the leaves.
    pub depth: u32,
    /// Numbers of a group.
    pub width: u32,
    /// Trees of a bin.
    pub of_a_key: u32,
}

impl Shape {
    /// Those of some groups; none if columns for all of them send less than twice as much, which are then as fast.
    /// The last `of_other` of the sums are of S's numbers (`sums`), and have columns of both parties; some are times numbers of R's, which have `bits`
    /// in all (`products`).
    pub fn of(most: u32, sums: u32, of_a_key: u32, [of_other, bits]: [u32; 2]) -> Option<Self> {
        let width = sums.checked_add(1)?;
        let log_low = (NUMBERS / width).max(1).ilog2();
        let depth = most.div_ceil(1 << log_low).checked_next_power_of_two()?.ilog2();
        let shape = Self { log_low, depth, width, of_a_key };
        // Places travel as bytes.
        let of_s = 8 * u64::from(of_other);
        let digits = 8 * u64::from(bits);
        let each = 1 + 32 * u64::from(depth) + 16 * shape.numbers() as u64 + (of_s << log_low) + digits;
        let bytes = u64::from(of_a_key) * each;
        let columns =
            u64::from(most) * (8 * u64::from(width) + of_s) + digits * u64::from(if of_a_key == 1 { 1 } else { most });
        ((2..=8).contains(&depth) && 2 * bytes <= columns).then_some(shape)
    }

    /// Numbers that a leaf makes.
    pub fn numbers(&self) -> usize {
        (self.width as usize) << self.log_low
    }

    /// What each column of step 4 is for: which of a key's groups, its r, and which number.
    pub fn each(self) -> impl Iterator<Item = [u32; 3]> {
        let lows =
            move |nth| (0..1 << self.log_low).flat_map(move |low| (0..self.width).map(move |which| [nth, low, which]));
        (0..self.of_a_key).flat_map(lows)
    }

    /// Columns of step 4.
    pub fn columns(&self) -> usize {
        self.of_a_key as usize * self.numbers()
    }

    /// Transfers that it takes for each bin.
    pub fn transfers(&self) -> usize {
        (self.of_a_key * self.depth) as usize
    }

    fn leaves(&self) -> usize {
        1 << self.depth
    }
}

/// Steps 4' and 4" of a unit: shares of the numbers of each of `most` groups, in the order of groups, from `shares` of step 4, which has a column for each of a
/// tree's numbers, for one tree of a bin after the other. R gives `places`: q of each bin, for one of the groups that its key may be in after the
/// other. It uses up the transfers of `made` that go from S to R.
///
/// # Errors
/// Those of the channel; the peer's if it breaks the protocol.
pub fn scatter(
    (shape, most): (Shape, usize),
    [grows, ends]: [Permutation; 2],
    made: &mut Made,
    shares: &[Vec<u64>],
    places: Option<Vec<u8>>,
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<Vec<u64>> {
    let leaves = shape.leaves();
    let mut trees = Trees {
        shape,
        nodes: Zeroizing::new(vec![Block::ZERO; BATCH * leaves]),
        pads: Zeroizing::new(vec![Block::ZERO; BATCH * leaves]),
        grows,
        ends,
        cells: vec![[0; 2]; shape.numbers().div_ceil(2) * leaves],
    };
    match places {
        None => trees.plant(&std::mem::take(&mut made.both), shares, ch, rng)?,
        Some(places) => {
            let (keys, choices) = (std::mem::take(&mut made.one), std::mem::take(&mut made.choices));
            trees.puncture(&keys, &choices, &places, shares, ch)?;
        }
    }
    // A group's numbers are under its leaf, one group after the other.
    let (numbers, all) = (shape.numbers(), most * shape.width as usize);
    let cell = |i: usize| trees.cells[i % numbers / 2 * leaves + i / numbers][i % numbers % 2];
    Ok((0..all).map(cell).collect())
}

/// Trees that grow, and what they have left. Nodes of a batch stand by their place in the tree, the first level as its lowest bit, and then by
/// the tree.
struct Trees {
    shape: Shape,
    nodes: Zeroizing<Vec<Block>>,
    pads: Zeroizing<Vec<Block>>,
    grows: Permutation,
    ends: Permutation,
    /// Two numbers each: for each pair of a leaf's numbers, those of all q.
    cells: Vec<[u64; 2]>,
}

/// Sums of left nodes and of right ones, of each tree.
type Sums = [[Block; BATCH]; 2];

impl Trees {
    /// S's side.
    fn plant(
        &mut self,
        keys: &[Zeroizing<Vec<Block>>; 2],
        shares: &[Vec<u64>],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<()> {
        let Shape { depth, of_a_key, .. } = self.shape;
        let (depth, leaves, numbers) = (depth as usize, self.shape.leaves(), self.shape.numbers());
        let bins = shares[0].len();
        // 4'. <- σ
        let places = ch.recv_exact(of_a_key as usize * bins)?;
        if places.iter().any(|&place| usize::from(place) >= leaves) {
            return Err(ch.accuse(Misbehaviour::Malformed("place of a group")));
        }
        let each = places.chunks_exact(bins).zip(shares.chunks_exact(numbers)).zip(0..);
        for ((places, shares), of) in each {
            for message in batches(0..bins, MESSAGE) {
                let mut wire = Vec::with_capacity(message.len() * (32 * depth + 8 * numbers));
                for batch in batches(message, BATCH) {
                    let n = batch.len();
                    // 4". -> sums
                    self.nodes[..n].fill_with(|| Block::from_le_bytes(rng.bytes()));
                    for level in 0..depth {
                        let [left, right] = self.grow(n, level);
                        for (i, bin) in batch.clone().enumerate() {
                            let key = (of * bins + bin) * depth + level;
                            wire.extend((left[i] ^ keys[0][key]).to_le_bytes());
                            wire.extend((right[i] ^ keys[1][key]).to_le_bytes());
                        }
                    }
                    // -> y
                    let places = &places[batch.clone()];
                    self.ends.images(&mut self.nodes[..n * leaves]);
                    for (pair, cells) in self.cells.chunks_exact_mut(leaves).enumerate() {
                        let pads = &mut self.pads[..n * leaves];
                        self.ends.tccr_to(Block(pair as u128), &self.nodes[..n * leaves], pads);
                        let mut sums = [[0u64; 2]; BATCH];
                        for (u, pads) in pads.chunks_exact(n).enumerate() {
                            for ((pad, sum), &place) in pads.iter().zip(&mut sums).zip(places) {
                                let (pad, cell) = (halves(*pad), &mut cells[u ^ usize::from(place)]);
                                for half in 0..2 {
                                    sum[half] = sum[half].wrapping_add(pad[half]);
                                    cell[half] = cell[half].wrapping_sub(pad[half]);
                                }
                            }
                        }
                        for (half, share) in shares[2 * pair..].iter().take(2).enumerate() {
                            let y = share[batch.clone()].iter().zip(&sums).map(|(p, sum)| p.wrapping_add(sum[half]));
                            y.for_each(|y| wire.extend(y.to_le_bytes()));
                        }
                    }
                }
                ch.send(&wire)?;
            }
        }
        Ok(())
    }

    /// R's side.
    fn puncture(
        &mut self,
        keys: &[Block],
        choices: &[u64],
        places: &[u8],
        shares: &[Vec<u64>],
        ch: &mut dyn Channel,
    ) -> Result<()> {
        let depth = self.shape.depth as usize;
        let (leaves, numbers) = (self.shape.leaves(), self.shape.numbers());
        let bins = shares[0].len();
        let chosen = |key: usize| choices[key / 64] >> (key % 64) & 1;
        // 4'. -> σ
        let hole = |tree: usize| (0..depth).fold(0u8, |hole, l| hole | ((chosen(tree * depth + l) ^ 1) as u8) << l);
        let holes: Zeroizing<Vec<u8>> = Zeroizing::new((0..places.len()).map(hole).collect());
        let sigma: Vec<u8> = places.iter().zip(&*holes).map(|(place, hole)| place ^ hole).collect();
        ch.send(&sigma)?;
        // What a node that is zero has for children: the hole's are so.
        let mut of_zero = [Block::ZERO, Block::ONE];
        self.grows.ccr(&mut of_zero);
        let mut is_hole = Zeroizing::new(vec![0u64; BATCH * leaves]);
        let each = sigma.chunks_exact(bins).zip(holes.chunks_exact(bins)).zip(shares.chunks_exact(numbers)).zip(0..);
        for (((sigma, holes), shares), of) in each {
            for message in batches(0..bins, MESSAGE) {
                let wire = ch.recv_exact(message.len() * (32 * depth + 8 * numbers))?;
                let mut wire = &wire[..];
                for batch in batches(message, BATCH) {
                    let n = batch.len();
                    let (sums, rest) = wire.split_at(32 * depth * n);
                    let (ys, rest) = rest.split_at(8 * numbers * n);
                    wire = rest;
                    // 4". <- sums
                    self.nodes[..n].fill(Block::ZERO);
                    for (level, sums) in sums.chunks_exact(32 * n).enumerate() {
                        let mine = self.grow(n, level);
                        let mut siblings = [[Block::ZERO; BATCH]; 2];
                        for (i, (bin, sent)) in batch.clone().zip(sums.as_chunks::<32>().0).enumerate() {
                            let key = (of * bins + bin) * depth + level;
                            let right = Block(u128::from(std::hint::black_box(chosen(key))).wrapping_neg());
                            let sent = [0, 16].map(|from| block(&sent[from..]));
                            let all = [0, 1].map(|side| sent[side] ^ mine[side][i] ^ of_zero[side]);
                            let sibling = all[0] ^ (all[0] ^ all[1]) & right ^ keys[key];
                            siblings[0][i] = sibling ^ sibling & right;
                            siblings[1][i] = sibling & right;
                        }
                        self.mend(n, level, &holes[batch.clone()], &siblings);
                    }
                    for (u, masks) in is_hole.chunks_exact_mut(BATCH).enumerate() {
                        let holes = &holes[batch.clone()];
                        masks.iter_mut().zip(holes).for_each(|(mask, hole)| *mask = same(u as u64, u64::from(*hole)));
                    }
                    // <- y
                    self.ends.images(&mut self.nodes[..n * leaves]);
                    for (pair, cells) in self.cells.chunks_exact_mut(leaves).enumerate() {
                        let pads = &mut self.pads[..n * leaves];
                        self.ends.tccr_to(Block(pair as u128), &self.nodes[..n * leaves], pads);
                        // What R adds at the hole.
                        let mut there = [[0u64; 2]; BATCH];
                        let of_pair = shares[2 * pair..].iter().zip(ys[16 * n * pair..].chunks_exact(8 * n));
                        for (half, (share, ys)) in of_pair.take(2).enumerate() {
                            let both = share[batch.clone()].iter().zip(ys.as_chunks().0);
                            for (there, (p, y)) in there.iter_mut().zip(both) {
                                there[half] = p.wrapping_add(u64::from_le_bytes(*y));
                            }
                        }
                        for (pads, masks) in pads.chunks_exact(n).zip(is_hole.chunks_exact(BATCH)) {
                            for ((pad, there), mask) in pads.iter().zip(&mut there).zip(masks) {
                                let pad = halves(*pad).map(|pad| pad & !mask);
                                (0..2).for_each(|half| there[half] = there[half].wrapping_sub(pad[half]));
                            }
                        }
                        for (u, (pads, masks)) in pads.chunks_exact(n).zip(is_hole.chunks_exact(BATCH)).enumerate() {
                            let trees = pads.iter().zip(&there).zip(masks).zip(&sigma[batch.clone()]);
                            for (((pad, there), mask), &place) in trees {
                                let (pad, cell) = (halves(*pad), &mut cells[u ^ usize::from(place)]);
                                for half in 0..2 {
                                    cell[half] = cell[half].wrapping_add(pad[half] & !mask | there[half] & mask);
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Grows the nodes of n trees by a level, and adds up the left ones and the right ones.
    fn grow(&mut self, n: usize, level: usize) -> Sums {
        let (left, right) = self.nodes[..2 * (n << level)].split_at_mut(n << level);
        right.iter_mut().zip(left.iter()).for_each(|(right, left)| *right = *left ^ Block::ONE);
        self.grows.ccr(left);
        self.grows.ccr(right);
        let mut sums = [[Block::ZERO; BATCH]; 2];
        for (sums, nodes) in sums.iter_mut().zip([left, right]) {
            for nodes in nodes.chunks_exact(n) {
                sums.iter_mut().zip(nodes).for_each(|(sum, node)| *sum ^= *node);
            }
        }
        sums
    }

    /// Puts what the children of the holes' parents are in their place: a sibling, or zero for the next hole.
    fn mend(&mut self, n: usize, level: usize, holes: &[u8], siblings: &Sums) {
        let (left, right) = self.nodes[..2 * (n << level)].split_at_mut(n << level);
        for (nodes, siblings) in [left, right].into_iter().zip(siblings) {
            for (parent, nodes) in nodes.chunks_exact_mut(n).enumerate() {
                for ((node, sibling), &hole) in nodes.iter_mut().zip(siblings).zip(holes) {
                    let hole = u64::from(hole) & ((1 << level) - 1);
                    let mask = same(parent as u64, hole);
                    *node ^= (*node ^ *sibling) & Block::from_halves(mask, mask);
                }
            }
        }
    }
}

/// All ones if two small numbers are the same, and else zero.
fn same(a: u64, b: u64) -> u64 {
    ((a ^ b).wrapping_sub(1) >> 63).wrapping_neg()
}

/// `range` in parts of `most`.
fn batches(range: std::ops::Range<usize>, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let end = range.end;
    range.step_by(most).map(move |start| start..end.min(start + most))
}

/// The two numbers of a block.
fn halves(block: Block) -> [u64; 2] {
    [block.low(), block.high()]
}

/// A block of a message.
fn block(bytes: &[u8]) -> Block {
    Block::from_le_bytes(bytes[..16].try_into().expect("a block has 16 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few groups, and groups of which a key may be in many, go by columns. Where trees are taken they send less than half as much.
    #[test]
    fn trees_are_taken_where_they_send_less_than_half() {
        let shape = |log_low, depth, width, of_a_key| Some(Shape { log_low, depth, width, of_a_key });
        assert_eq!(Shape::of(1024, 0, 1, [0; 2]), shape(4, 6, 1, 1));
        assert_eq!(Shape::of(512, 1, 2, [0; 2]), shape(3, 6, 2, 2));
        assert_eq!(Shape::of(64, 1, 1, [0; 2]), shape(3, 3, 2, 1));
        assert_eq!(Shape::of(60, 16, 1, [0; 2]), shape(0, 6, 17, 1));
        for (most, sums, of_a_key) in [(1024, 0, 1024), (1024, 0, 10), (64, 0, 1), (5, 1, 1), (1, 1023, 1), (1, 0, 1)] {
            assert_eq!(Shape::of(most, sums, of_a_key, [0; 2]), None, "{most} {sums} {of_a_key}");
        }
        for (most, sums) in (1..=1024).flat_map(|most| (0..1024 / most).map(move |sums| (most, sums))) {
            if let Some(shape) = Shape::of(most, sums, 1, [0; 2]) {
                assert!(shape.leaves() << shape.log_low >= most as usize && shape.depth <= 8, "{shape:?}");
                assert_eq!(shape.each().count(), shape.columns());
            }
        }
    }

    #[test]
    fn a_mask_is_all_ones_exactly_where_numbers_are_the_same() {
        for (a, b) in [(0, 0), (255, 255), (0, 1), (255, 0), (7, 6)] {
            assert_eq!(same(a, b), if a == b { u64::MAX } else { 0 });
        }
    }
}
