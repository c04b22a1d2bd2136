//! What parties say to each other before the first unit and after the last.

pub mod agree;
pub mod answers;
pub mod breaks;
pub mod budget;
pub mod peers;
pub mod settle;
pub mod wait;

#[cfg(test)]
mod greedy;
#[cfg(test)]
mod tests;
