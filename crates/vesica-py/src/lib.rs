//! The native half of the Python package: conversions, and nothing else. What people call is in `python/vesica`.
//!
//! Documents, reports and forecasts cross as text, tables through Arrow's C stream interface. Whatever lasts runs on a thread of its
//! own ([`work`]), so that the interpreter is free and Ctrl-C is heard.

#![allow(clippy::too_many_arguments)] // keyword arguments of Python's, each with its name

mod backend;
mod cluster;
mod document;
mod failure;
mod jobs;
mod secretflow;
mod services;
mod table;
mod work;

use pyo3::prelude::*;

/// A task of a cluster, as a run, asks for megabytes time and again, from many threads. The system's C library gives them back to the kernel each time, and
/// each page of them costs a fault and is zeroed when it is touched; this one keeps what is free for a
/// second, and after that until something else is freed.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native half of `vesica`. What people call is in the modules of the package.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::cluster::{Breaks, Door, Lane, Meeting, Recipient, Secret, Start, Taking, Terms, read_job};
    #[pymodule_export]
    use crate::jobs::{cert, check, command, r#gen, intersect, page, plan, report_file, run};
    #[pymodule_export]
    use crate::secretflow::secretflow_run;
    #[pymodule_export]
    use crate::services::{Asked, ask, check_service, fetch, plan_service, prepare, serve};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::work::Stop;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("WIRE_VERSION", vesica_job::WIRE_VERSION)
    }
}
