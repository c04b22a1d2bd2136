/// What a job guarantees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Computational security: the best attack known takes about 2^kappa steps.
    pub kappa: u32,
    /// Statistical security: anything left to chance goes wrong with probability at most 2^-sigma a job.
    pub sigma: u32,
}

impl Level {
    /// 128 bits of computational and 40 bits of statistical security, as in the papers implemented here.
    pub const STANDARD: Level = Level { kappa: 128, sigma: 40 };
}

/// The queries for which the 2^-sigma of a retrieval are spent: all that one client puts to one state of a table.
///
/// A retrieval has no job that ends, and neither side knows beforehand how many queries there will be. 2^20 of them are far more than the
/// shapes that are offered are made for. A client that puts Q of them, and Q is more, has Q·2^-60.
pub const QUERIES_A_CLIENT: u64 = 1 << 20;
