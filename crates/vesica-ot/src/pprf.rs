//! Punctured trees, many at a time: a pseudorandom function of which one party knows all values and the other all but one.
//!
//! [GYWZZ23] Guo, Yang, Wang, Zhang, Xie, Liu, Zhao, "Half-tree: halving the cost of tree expansion in COT and DPF",
//! EUROCRYPT 2023, eprint 2022/1431, Figures 3 and 5: trees whose levels all add up to Δ, but for the leaves, which are
//! hashed once more so as to look random.
//!
//!   Δ, w    planter's side of correlated OTs        delta, w      v, u   puncturer's: w = v + u·Δ          v, u
//!   α       where the puncturer's tree has a hole   hole          K_0    sum of a level's left nodes       sums
//!   r       the planter's own root of a tree        roots
//!
//! Level 1 is (r, r + Δ); a node x has the children H(x) and H(x) + x, so that siblings always add up to their parent
//! and a level to Δ; the leaves under x are H(x) and H(x + 1).
//! Message, planter to puncturer, for each tree of depth h: w_i + K_0 of level i, for i = 1 to h - 1 (for level 1, K_0 is r);
//! both sums of the leaves, each under a hash of w_h and w_h + Δ; and a last block, the sum of all leaves and of what the
//! caller adds.
//! The puncturer's v_i = w_i + u_i·Δ opens the sum of the side u_i: so α takes the other, and is as random as u.
//! Why r is random, and not w_1, which would save the first block: a puncturer that deviates may have a say in its v, and then
//! v_1 = w_1 + u_1·Δ would be a node that it chose. It could choose the same in two trees, and have the same leaves in both, while
//! the proof needs that H is asked about different nodes. With r, what it knows of level 1 is uniform whatever v is, so H
//! is asked about one block twice with probability about (t·2^h)²/2^128 for t trees. The simulator needs it too: it sends a
//! random first block, and has a random node to go on from.
//! Bytes: 16·(h + 2) a tree.
//! Differs from the paper: H is a permutation of the call's own.
//!
//! A node's place has the first level as its lowest bit: then a level is two halves, and expanding is three passes over
//! memory that fits the first-level cache. The addresses that the puncturer writes to depend on its own α, as does the sparse
//! vector that α is for; nothing else does.

use crate::SecretBlocks;
use crate::sums::{self, sum};
use vesica_block::{Block, hash::Permutation};
use zeroize::Zeroizing;

/// The hashes of one batch of trees.
pub struct Hashes {
    /// H: of inner nodes and leaves.
    pub nodes: Permutation,
    /// Of the OTs that the leaves' sums travel under.
    pub keys: Permutation,
}

/// Blocks of the message for each tree.
pub fn message(depth: usize) -> usize {
    depth + 2
}

/// Grows one tree for every block of `roots` and every `depth` blocks of `w`, and appends each one's message to `wire`. The
/// roots are fresh, random and secret. `tree` gets the number and the leaves, and says what to add to their sum.
pub fn plant(
    hashes: &Hashes,
    delta: Block,
    roots: &[Block],
    w: &[Block],
    depth: usize,
    wire: &mut Vec<Block>,
    mut tree: impl FnMut(usize, &[Block]) -> Block,
) {
    assert!(depth >= 2 && w.len() == depth * roots.len(), "{} trees of depth {depth}", roots.len());
    let keys = w.chunks_exact(depth).flat_map(|w| [w[depth - 1], w[depth - 1] ^ delta]);
    let mut keys: SecretBlocks = Zeroizing::new(keys.collect());
    hashes.keys.tccr(Block::ZERO, &mut keys);
    let mut nodes = Zeroizing::new(vec![Block::ZERO; 1 << depth]);
    for (i, ((&root, w), keys)) in roots.iter().zip(w.chunks_exact(depth)).zip(keys.as_chunks::<2>().0).enumerate() {
        (nodes[0], nodes[1]) = (root, root ^ delta);
        wire.push(w[0] ^ root);
        for level in 1..depth - 1 {
            let [left, _] = halve(&hashes.nodes, &mut nodes, level);
            wire.push(w[level] ^ left);
        }
        let [left, right] = leaves(&hashes.nodes, &mut nodes);
        wire.extend([left ^ keys[0], right ^ keys[1]]);
        wire.push(left ^ right ^ tree(i, &nodes));
    }
}

/// Grows one tree for every `depth` blocks of `v` and bits of `u`, with a hole, from the planter's message. `tree` gets the
/// number, the leaves (zero at the hole), the hole, and what the planter added to the leaf that is missing.
pub fn puncture(
    hashes: &Hashes,
    v: &[Block],
    u: impl Fn(usize) -> bool,
    depth: usize,
    wire: &[Block],
    mut tree: impl FnMut(usize, &mut [Block], usize, Block),
) {
    assert!(depth >= 2, "trees of depth {depth}");
    // Under both tweaks; which one holds is the secret u.
    let keys = v.chunks_exact(depth).flat_map(|v| [v[depth - 1]; 2]);
    let mut keys: SecretBlocks = Zeroizing::new(keys.collect());
    hashes.keys.tccr(Block::ZERO, &mut keys);
    // What a node that is zero has for children: a sum over a side is wrong by that much, as the hole's parent is zero.
    let mut of_zero = [Block::ZERO, Block::ONE];
    hashes.nodes.ccr(&mut of_zero);

    let mut nodes = Zeroizing::new(vec![Block::ZERO; 1 << depth]);
    let trees = v.chunks_exact(depth).zip(wire.chunks_exact(message(depth))).zip(keys.as_chunks::<2>().0);
    for (i, ((v, message), keys)) in trees.enumerate() {
        let mut hole = usize::from(!u(i * depth));
        nodes[hole] = Block::ZERO;
        nodes[1 - hole] = message[0] ^ v[0];
        for level in 1..depth - 1 {
            let side = u(i * depth + level);
            let sums = halve(&hashes.nodes, &mut nodes, level);
            let sibling = message[level] ^ v[level] ^ choose(side, sums) ^ of_zero[0];
            hole = place(&mut nodes, hole, 1 << level, side, sibling);
        }
        let side = u(i * depth + depth - 1);
        let sums = leaves(&hashes.nodes, &mut nodes);
        let [left, right, total] = [0, 1, 2].map(|i| message[depth - 1 + i]);
        let sibling = choose(side, [left ^ keys[0], right ^ keys[1]]) ^ choose(side, sums) ^ choose(side, of_zero);
        hole = place(&mut nodes, hole, 1 << (depth - 1), side, sibling);
        let missing = total ^ sums[0] ^ sums[1] ^ of_zero[0] ^ of_zero[1] ^ sibling;
        tree(i, &mut nodes, hole, missing);
    }
}

/// Expands the first 2^level nodes to twice as many, and sums both sides.
fn halve(h: &Permutation, nodes: &mut [Block], level: usize) -> [Block; 2] {
    let (left, right) = nodes[..2 << level].split_at_mut(1 << level);
    right.copy_from_slice(left);
    h.ccr(left);
    sums::add(right, left);
    [sum(left), sum(right)]
}

/// Expands the lower half of all nodes to leaves, and sums both sides.
fn leaves(h: &Permutation, nodes: &mut [Block]) -> [Block; 2] {
    let (left, right) = nodes.split_at_mut(nodes.len() / 2);
    right.iter_mut().zip(left.iter()).for_each(|(right, left)| *right = *left ^ Block::ONE);
    h.ccr(left);
    h.ccr(right);
    [sum(left), sum(right)]
}

/// Puts the sibling of the hole under `parent` where it belongs, zero on the other side, and says where the hole is now.
fn place(nodes: &mut [Block], parent: usize, half: usize, side: bool, sibling: Block) -> usize {
    let hole = parent + half * usize::from(!side);
    nodes[parent + half * usize::from(side)] = sibling;
    nodes[hole] = Block::ZERO;
    hole
}

/// The second if `side`, else the first, without a branch.
fn choose(side: bool, pair: [Block; 2]) -> Block {
    pair[0] ^ ((pair[0] ^ pair[1]) & Block::mask(side))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use vesica_block::prg::Prg;

    fn hashes() -> Hashes {
        Hashes { nodes: Permutation::new(Block(1)), keys: Permutation::new(Block(2)) }
    }

    #[test]
    fn all_leaves_but_one_are_shared() {
        for (trees, depth) in [(0, 2), (1, 2), (1, 3), (5, 5), (300, 6), (3, 11)] {
            let mut prg = Prg::new(Block(3));
            let delta = prg.block();
            let mut w = vec![Block::ZERO; trees * depth];
            prg.fill(&mut w);
            let u: Vec<bool> = (0..w.len()).map(|_| prg.block().0 & 1 == 1).collect();
            let v = ideal::correlated(delta, &u, &w);

            let (mut wire, mut planted) = (Vec::new(), Vec::new());
            let mut roots = vec![Block::ZERO; trees];
            prg.fill(&mut roots);
            plant(&hashes(), delta, &roots, &w, depth, &mut wire, |i, leaves| {
                planted.push(leaves.to_vec());
                Block(i as u128)
            });
            assert_eq!(wire.len(), trees * message(depth));
            let mut seen = 0;
            puncture(
                &hashes(),
                &v,
                |i| u[i],
                depth,
                &wire,
                |i, leaves, hole, missing| {
                    let want = (0..depth).fold(0, |hole, l| hole | usize::from(!u[i * depth + l]) << l);
                    assert_eq!(hole, want);
                    assert_eq!(missing, planted[i][hole] ^ Block(i as u128));
                    assert_eq!(leaves[hole], Block::ZERO);
                    leaves[hole] = planted[i][hole];
                    assert_eq!(*leaves, *planted[i]);
                    seen += 1;
                },
            );
            assert_eq!(seen, trees);
            assert!(ideal::all_differ(&planted.concat()));
        }
    }

    /// A puncturer that got the same v twice knows nothing of one tree from the other.
    #[test]
    fn trees_from_the_same_transfers_differ() {
        let (delta, w, u) =
            (Block(99), [[Block(5), Block(6), Block(7), Block(8)]; 2].concat(), [true, false, true, true]);
        let v = ideal::correlated(delta, &[u, u].concat(), &w);
        let (mut wire, mut planted, mut known) = (Vec::new(), Vec::new(), Vec::new());
        plant(&hashes(), delta, &[Block(1000), Block(2000)], &w, 4, &mut wire, |_, leaves| {
            planted.extend_from_slice(leaves);
            Block::ZERO
        });
        assert!(ideal::all_differ(&planted));
        puncture(
            &hashes(),
            &v,
            |i| u[i % 4],
            4,
            &wire,
            |_, leaves, hole, missing| {
                leaves[hole] = missing;
                known.extend_from_slice(leaves);
            },
        );
        assert_eq!(known, planted);
    }

    /// Inner levels add up to Δ, leaves must not: they would give it away.
    #[test]
    fn leaves_do_not_add_up_to_delta() {
        let (delta, w) = (Block(99), [Block(5), Block(6), Block(7), Block(8)]);
        let mut nodes = [Block(5), Block(5) ^ delta, Block::ZERO, Block::ZERO];
        let [left, right] = halve(&hashes().nodes, &mut nodes, 1);
        assert_eq!(left ^ right, delta);
        plant(&hashes(), delta, &[Block(5)], &w, 4, &mut Vec::new(), |_, leaves| {
            assert_ne!(sum(leaves), delta);
            Block::ZERO
        });
    }
}
