use vesica_types::Digest;

/// Two key sets, and what they are an example of.
pub struct Sets {
    /// What the pair is an example of.
    pub name: &'static str,
    /// Alice's keys: distinct, ascending.
    pub xs: Vec<Digest>,
    /// Bob's.
    pub ys: Vec<Digest>,
}

/// Digests of the numbers `from..to`: the same number, the same digest; in ascending order.
pub fn digests(from: u64, to: u64) -> Vec<Digest> {
    let mut all: Vec<Digest> = (from..to).map(digest).collect();
    all.sort_unstable();
    all
}

/// What splitmix64 adds for each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The mixer of splitmix64, which is one to one.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn digest(number: u64) -> Digest {
    // No two numbers share a digest, and the order is scattered.
    let (a, b) = (mix(number.wrapping_add(STEP)), mix(number ^ 0x5851_f42d_4c95_7f2d));
    let mut bytes = [0; Digest::BYTES];
    bytes[..8].copy_from_slice(&a.to_le_bytes());
    bytes[8..].copy_from_slice(&b.to_le_bytes());
    Digest(bytes)
}

/// The pairs of sets that every protocol is tried on: empty, one key, disjoint, equal, contained, overlapping, lopsided.
pub fn set_pairs() -> Vec<Sets> {
    let pair = |name, x: (u64, u64), y: (u64, u64)| Sets { name, xs: digests(x.0, x.1), ys: digests(y.0, y.1) };
    vec![
        pair("both empty", (0, 0), (0, 0)),
        pair("alice empty", (0, 0), (0, 5)),
        pair("bob empty", (0, 5), (0, 0)),
        pair("one and the same", (0, 1), (0, 1)),
        pair("one each, different", (0, 1), (1, 2)),
        pair("one among many", (7, 8), (0, 100)),
        pair("disjoint", (0, 60), (60, 125)),
        pair("equal", (0, 77), (0, 77)),
        pair("contained", (10, 20), (0, 64)),
        pair("half", (0, 64), (32, 96)),
        pair("odd sizes", (0, 33), (16, 47)),
        pair("lopsided", (0, 500), (499, 502)),
    ]
}

/// A reproducible source of choices: splitmix64.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(STEP);
        (mix(self.0) % n as u64) as usize
    }
}
