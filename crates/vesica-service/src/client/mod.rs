//! The side that asks, from its table to the rows that were found.

pub mod ask;
pub mod day;
pub mod evaluate;
pub mod kept;
pub mod local;
pub mod output;
pub mod report;
pub mod talk;
