//! AES-128 (FIPS 197), encryption only, many blocks under one key.

use crate::Block;
use crate::backend::{self, Ready};

/// A key, expanded; wiped when dropped.
pub struct Aes128(backend::Key);

impl Aes128 {
    /// Expands `key`, whose bytes in order are those of the standard.
    pub fn new(key: Block) -> Self {
        Self::on(Ready::chosen(), key)
    }

    /// Whether the back end of this process has instructions for it. Without them, a cipher that is made of additions and
    /// rotations is faster.
    pub fn has_instructions() -> bool {
        Ready::chosen().has_aes()
    }

    pub(crate) fn on(ready: Ready, key: Block) -> Self {
        Self(backend::Key::new(ready, key))
    }

    /// Encrypts every block where it stands.
    pub fn encrypt_in_place(&self, blocks: &mut [Block]) {
        self.0.encrypt(blocks);
    }

    /// The encryption of one block.
    pub fn encrypt(&self, block: Block) -> Block {
        let mut one = [block];
        self.encrypt_in_place(&mut one);
        one[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, SIZES};

    fn hex(text: &str) -> Block {
        Block(u128::from_str_radix(text, 16).expect("hex").swap_bytes())
    }

    /// FIPS 197, appendix C.1; SP 800-38A, appendix F.1.1 (ECB-AES128, four blocks).
    #[test]
    fn vectors_of_the_standards() {
        for ready in Ready::all() {
            let aes = Aes128::on(ready, hex("000102030405060708090a0b0c0d0e0f"));
            let plain = hex("00112233445566778899aabbccddeeff");
            assert_eq!(aes.encrypt(plain), hex("69c4e0d86a7b0430d8cdb78070b4c55a"), "{ready:?}");

            let aes = Aes128::on(ready, hex("2b7e151628aed2a6abf7158809cf4f3c"));
            let mut blocks = [
                "6bc1bee22e409f96e93d7e117393172a",
                "ae2d8a571e03ac9c9eb76fac45af8e51",
                "30c81c46a35ce411e5fbc1191a0a52ef",
                "f69f2445df4f9b17ad2b417be66c3710",
            ]
            .map(hex);
            aes.encrypt_in_place(&mut blocks);
            let expected = [
                "3ad77bb40d7a3660a89ecaf32466ef97",
                "f5d3d58503b9699de785895a96fdbaaf",
                "43b1cd7f598ece23881b00e3ed030688",
                "7b0c785e27e8ad3f8223207104725dd4",
            ];
            assert_eq!(blocks, expected.map(hex), "{ready:?}");
        }
    }

    #[test]
    fn back_ends_agree() {
        for n in SIZES {
            let blocks = checks::blocks(n, 1);
            checks::agree(|ready| {
                let mut out = blocks.clone();
                Aes128::on(ready, Block(0x0123_4567_89ab_cdef_u128 << 40)).encrypt_in_place(&mut out);
                out
            });
        }
    }
}
