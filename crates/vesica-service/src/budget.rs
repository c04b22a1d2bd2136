use crate::error::Error;
pub struct Budget;
impl Budget {
    pub fn open(_: &std::path::Path) -> Result<Self, Error> {
        Ok(Self)
    }
    pub fn take(
        &self,
        _client: &str,
        _keys: u64,
        _a_day: u64,
        _a_minute: u32,
        _lifetime: u64,
    ) -> Result<Result<(), String>, Error> {
        Ok(Ok(()))
    }
}
