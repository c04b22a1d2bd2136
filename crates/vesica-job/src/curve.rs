//! From a curve's name to its type: the one place that knows all of them.

use crate::spec::CurveName;
use vesica_curve::Group;

/// Something to do with a group that is known by name only at run time.
pub trait WithGroup {
    /// What comes of it.
    type Out;

    /// Does it.
    fn with<G: Group>(self) -> Self::Out;
}

/// Does `work` with the group called `name`.
pub fn with_group<W: WithGroup>(name: CurveName, work: W) -> W::Out {
    match name {
        CurveName::Curve25519 => work.with::<vesica_curve::Curve25519>(),
    }
}
