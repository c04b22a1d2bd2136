use crate::error::Error;
use std::time::Duration;
pub struct Metrics;
impl Metrics {
    pub fn open(_: Option<&str>) -> Result<std::sync::Arc<Self>, Error> {
        Ok(std::sync::Arc::new(Self))
    }
    pub fn set_ready(&self, _: bool) {}
    pub fn set_links(&self, _: usize) {}
    pub fn set_store(&self, _: u64, _: u64) {}
    pub fn fetched(&self, _: u64, _: Duration) {}
    pub fn refused(&self, _: u64) {}
    pub fn asked(&self, _: u64, _: Duration) {}
}
