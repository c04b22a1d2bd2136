//! Blocks: ciphers, hashes, products, transpositions.

use super::Case;
use crate::watch::Watch;
use vesica_block::blake::{self, Message};
use vesica_block::gf256::Elements;
use vesica_block::hash::Permutation;
use vesica_block::prg::Prg;
use vesica_block::rijndael256::Rijndael256;
use vesica_block::transpose::transpose;
use vesica_block::{Block, aes::Aes128, gf64, gf128, gf256, select};

/// Enough for every back end's widest batch, and a rest.
const MANY: usize = 133;

pub fn cases() -> Vec<Case> {
    vec![
        Case::timed("blocks/aes", aes),
        Case::timed("blocks/prg", prg),
        Case::timed("blocks/hash", hash),
        Case::timed("blocks/rijndael", rijndael),
        Case::timed("blocks/blake", blake),
        Case::timed("blocks/gf64", gf64),
        Case::timed("blocks/gf128", gf128),
        Case::timed("blocks/gf256", gf256),
        Case::timed("blocks/transpose", transposed),
        Case::timed("blocks/select", selected),
    ]
}

fn block(watch: &mut Watch) -> Block {
    Block::from_le_bytes(watch.secret())
}

fn blocks(watch: &mut Watch) -> Vec<Block> {
    (0..MANY).map(|_| block(watch)).collect()
}

fn aes(watch: &mut Watch) {
    let (key, mut text) = (block(watch), blocks(watch));
    watch.measure(|| Aes128::new(key).encrypt_in_place(&mut text));
    watch.result(&text);
}

fn prg(watch: &mut Watch) {
    let (seed, mut made) = (block(watch), vec![Block::ZERO; MANY]);
    watch.measure(|| Prg::new(seed).fill(&mut made));
    watch.result(&made);
}

fn hash(watch: &mut Watch) {
    let permutation = Permutation::new(Block(7));
    let mut made = [blocks(watch), blocks(watch), blocks(watch)];
    watch.measure(|| {
        permutation.cr(&mut made[0]);
        permutation.ccr(&mut made[1]);
        permutation.tccr(Block(3), &mut made[2]);
    });
    made.iter().for_each(|made| watch.result(made));
}

fn rijndael(watch: &mut Watch) {
    let cipher = Rijndael256::new(&[5; 32]);
    let mut states: Vec<[Block; 2]> = (0..MANY).map(|_| [block(watch), block(watch)]).collect();
    watch.measure(|| cipher.encrypt_in_place(&mut states));
    watch.result(&states);
    let mut states: Vec<[Block; 2]> = (0..MANY).map(|_| [block(watch), block(watch)]).collect();
    watch.measure(|| cipher.decrypt_in_place(&mut states));
    watch.result(&states);
}

fn blake(watch: &mut Watch) {
    let (key, rows) = (watch.secret(), watch.bytes(200 * 17));
    let messages: Vec<Message> = (0..MANY).filter_map(|_| Message::new(&watch.secret::<32>())).collect();
    let mut hashes = vec![[0; 32]; MANY];
    watch.measure(|| blake::keyed(&key, &messages, &mut hashes));
    watch.result(&hashes);
    watch.measure(|| blake::keyed_rows(&key, &rows, 200, &mut hashes));
    watch.result(&hashes[..17]);
}

fn gf64(watch: &mut Watch) {
    let (k, mut acc, mut scaled, by) = (block(watch), blocks(watch), blocks(watch), blocks(watch));
    let a: Vec<u64> = by.iter().map(|block| block.high()).collect();
    watch.measure(|| {
        gf64::mul_add(&mut acc, &a, k);
        gf64::scale_each(&mut scaled, &by);
    });
    watch.result(&acc);
    watch.result(&scaled);
}

fn gf128(watch: &mut Watch) {
    let (k, mut acc, mut each, by) = (block(watch), blocks(watch), blocks(watch), blocks(watch));
    let mut powers = vec![Block::ZERO; MANY];
    let sum = watch.measure(|| {
        gf128::mul_add(&mut acc, &by, k);
        gf128::mul_each(&mut each, &by);
        gf128::powers(k, &mut powers);
        gf128::mul_scalar(&mut each, k);
        gf128::inner(&acc, &by)
    });
    watch.result(&acc);
    watch.result(&each);
    watch.result(&powers[1..]);
    watch.result(&[sum]);
}

fn gf256(watch: &mut Watch) {
    let polynomial: Elements = (0..MANY).map(|_| [block(watch), block(watch)]).collect();
    let points: Elements = (0..MANY).map(|_| [block(watch), block(watch)]).collect();
    let one = [block(watch), block(watch)];
    let (made, inverse) = watch.measure(|| (polynomial.evaluate(&points), gf256::invert(one)));
    (0..MANY).for_each(|i| watch.result(&made.get(i)));
    watch.result(&inverse);
}

fn transposed(watch: &mut Watch) {
    let rows: Vec<Block> = (0..3 * 128).map(|_| block(watch)).collect();
    let mut columns = vec![Block::ZERO; rows.len()];
    watch.measure(|| transpose(&rows, &mut columns));
    watch.result(&columns);
}

/// Which are selected is public; what is selected is secret.
fn selected(watch: &mut Watch) {
    let values = blocks(watch);
    let words: Vec<u64> = values.iter().map(|block| block.low()).collect();
    let bits = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 31];
    let (word, block) = watch.measure(|| (select::words(&bits, &words), select::blocks(&bits, &values)));
    watch.result(&[word]);
    watch.result(&[block]);
}
