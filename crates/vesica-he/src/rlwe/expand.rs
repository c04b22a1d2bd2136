//! One ciphertext into many: SealPIR's expansion (figure 3).
//!
//! The ciphertext is the root of a tree. A node of level j splits into c + τ(c) and X^(-2^j)·(c - τ(c)), where τ moves
//! X to X^(n/2^j + 1), and the leaves are what comes out. The tree is walked depth first, each leaf is used as soon as
//! it is there, and so one node of each level is held, which fit in a cache, and not all leaves, which are some tens of
//! mebibytes.

use super::{Ciphertext, Rlwe, Scratch, SwitchKey};

/// What all nodes of a level share.
struct Level<'a> {
    /// Where τ finds its values ([`vesica_ring::Basis::automorphism`]).
    map: Vec<u32>,
    /// X^(-2^j) in evaluation form and in Montgomery's form.
    shift: Vec<u64>,
    key: &'a SwitchKey,
}

/// The walk down the tree.
struct Walk<'a, F> {
    ring: &'a Rlwe,
    levels: Vec<Level<'a>>,
    leaves: usize,
    scratch: Scratch,
    /// A polynomial on which τ was.
    moved: Vec<u64>,
    /// τ of a node.
    image: Ciphertext,
    each: F,
}

impl Rlwe {
    /// The exponents g of the keys that expanding to `leaves` ciphertexts needs: n/2^j + 1 for every level j.
    pub fn expansion_exponents(&self, leaves: usize) -> Vec<usize> {
        (0..leaves.next_power_of_two().ilog2()).map(|level| (self.n() >> level) + 1).collect()
    }

    /// One ciphertext into `leaves`, of which each is given to `each` with its number, in no order: the constant of
    /// number i is 2^levels times coefficient i of what was encrypted, and whoever encrypts divides by that. Their
    /// other coefficients are zero if all coefficients from `leaves` on are.
    ///
    /// There is a key for each of [`Rlwe::expansion_exponents`].
    ///
    /// # Panics
    /// If there are no leaves, more than coefficients, or too few keys.
    pub fn expand(
        &self,
        mut ciphertext: Ciphertext,
        keys: &[SwitchKey],
        leaves: usize,
        each: impl FnMut(usize, &Ciphertext),
    ) {
        let exponents = self.expansion_exponents(leaves);
        assert!(leaves >= 1 && leaves <= self.n() && keys.len() >= exponents.len());
        let level = |(level, (g, key)): (usize, (usize, _))| {
            // X^-(2^level) is -X^(n - 2^level).
            let mut shift = vec![0; self.n()];
            shift[self.n() - (1 << level)] = -1;
            Level { map: self.basis.automorphism(g), shift: self.plaintext(&shift), key }
        };
        let levels: Vec<Level<'_>> = exponents.into_iter().zip(keys).enumerate().map(level).collect();
        let mut waiting = vec![self.zero(); levels.len()];
        let (image, scratch) = (self.zero(), Scratch::new(self));
        let mut walk = Walk { ring: self, levels, leaves, scratch, moved: image.a.clone(), image, each };
        walk.down(0, 0, &mut ciphertext, &mut waiting);
    }
}

impl<F: FnMut(usize, &Ciphertext)> Walk<'_, F> {
    /// All leaves below a node of a level, of which the first has number `at`. In `waiting` is room for one right child
    /// a level.
    fn down(&mut self, level: usize, at: usize, node: &mut Ciphertext, waiting: &mut [Ciphertext]) {
        let basis = &self.ring.basis;
        let Some((right, waiting)) = waiting.split_first_mut() else {
            return (self.each)(at, node);
        };
        if at + (1 << level) >= self.leaves {
            // The right child would be zero, so the left one is twice the node.
            for words in [&mut node.b, &mut node.a] {
                self.moved.copy_from_slice(words);
                basis.add(words, &self.moved);
            }
            return self.down(level + 1, at, node, waiting);
        }
        let Level { map, shift, key } = &self.levels[level];
        basis.permute(map, &node.a, &mut self.moved);
        self.ring.switch(&self.moved, key, &mut self.scratch, &mut self.image);
        basis.permute(map, &node.b, &mut self.moved);
        basis.add(&mut self.image.b, &self.moved);
        basis.split(&mut node.b, &self.image.b, shift, &mut right.b);
        basis.split(&mut node.a, &self.image.a, shift, &mut right.a);
        self.down(level + 1, at, node, waiting);
        self.down(level + 1, at + (1 << level), right, waiting);
    }
}
