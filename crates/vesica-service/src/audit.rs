use crate::error::Error;
pub struct Audit;
pub struct Entry<'a> {
    pub client: &'a str,
    pub fingerprint: Option<&'a str>,
    pub address: std::net::SocketAddr,
    pub what: What<'a>,
}
pub enum What<'a> {
    Fetched { part: u64, bytes: u64, seconds: f64 },
    Refused { keys: u64, why: &'a str },
    Asked { keys: u64 },
    Answered { keys: u64, seconds: f64 },
}
impl Audit {
    pub fn open(_: &std::path::Path) -> Result<Self, Error> {
        Ok(Self)
    }
    pub fn write(&self, _: &Entry<'_>) -> Result<(), Error> {
        Ok(())
    }
}
