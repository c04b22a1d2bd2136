//! Whether the instructions of the kernels stand in the kernels.
//!
//! An instruction of vectors is a function of the standard library, which becomes that instruction where whoever calls it is compiled for the same
//! set. A closure in a kernel need not be. Example: sums of blocks that bits select went through one, so that on AVX2 each `and` of two vectors was
//! a call with three addresses, and `rr22` took 4.3 s in place of some tenths. Tests see nothing of it: the results are right.

use crate::{Chore, machines, output};

/// Sets whose instructions no other crate of ours has as functions.
const SETS: [&str; 8] =
    ["::avx", "::fma::", "::vaes::", "::vpclmulqdq::", "::pclmulqdq::", "::gfni::", "::aes::", "::neon::"];

/// Builds the command as it is installed, and fails with each instruction of vectors that is a function in it.
pub fn check() -> Chore {
    let program =
        machines::built(&["build", "--release", "--quiet", "--package", "vesica-cli", "--bin", "vesica"], &[])?;
    let symbols = output("nm", &["--demangle", &program.display().to_string()])?;
    let mut found: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.splitn(3, ' ').nth(2))
        .filter(|name| name.starts_with("core::core_arch::") && SETS.iter().any(|set| name.contains(set)))
        .collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return Ok(());
    }
    Err(format!(
        "these instructions are functions that a kernel calls; see who does by `objdump -dC {}`, and give it `#[inline(always)]`:\n{}",
        program.display(),
        found.join("\n")
    ))
}
