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
