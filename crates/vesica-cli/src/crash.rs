//! A panic is a bug of ours: say so, ask for a report, and end with the code for it.

use crate::output;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a bug.
pub const EXIT: u8 = 70;

static HAPPENED: AtomicBool = AtomicBool::new(false);

/// Replaces what Rust prints when any thread panics. The thread still unwinds, so that files are tidied up and the
/// peers are told.
pub fn watch() {
    std::panic::set_hook(Box::new(|info| {
        HAPPENED.store(true, Ordering::SeqCst);
        let message = info.payload_as_str().unwrap_or("no message");
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        output::tell(&format!(
            "error: a bug in Vesica {}: {message}{place}. Please report this line and what you ran at {}/issues; your \
             input is unchanged",
            env!("CARGO_PKG_VERSION"),
            env!("CARGO_PKG_REPOSITORY"),
        ));
    }));
}

/// Whether any thread panicked.
pub fn happened() -> bool {
    HAPPENED.load(Ordering::SeqCst)
}
