//! That a party has been let in, and still is.

use std::fmt;

/// That a party has been let in. It is dropped with the party's link, or before there is one, and then others may come.
pub(crate) struct Pass {
    /// Which of its host's passes this is.
    pub number: u64,
    /// The job that the party came for.
    pub job: [u8; 32],
    leave: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Pass {
    /// Somebody has been let in for `job`; `leave` is called when that is over.
    pub fn new(number: u64, job: [u8; 32], leave: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { number, job, leave: Some(Box::new(leave)) }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(leave) = self.leave.take() {
            leave();
        }
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pass({})", self.number)
    }
}
