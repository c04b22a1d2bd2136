//! From a specification to a report: the only room that sees everyone.
