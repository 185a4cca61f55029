//! The native half of the Python package `eraseblock`: the library, for the classes in
//! `python/eraseblock`.
//!
//! # Invariants
//! 1. Every call that reads an image releases the interpreter (`work`).
//! 2. rayon's global pool, which hangs in a forked child, is never used (`work`).
//! 3. A panic becomes an exception.
//! 4. The only unsafe code is what PyO3's macros expand to.

mod build;
mod edit;
mod error;
mod fs;
mod image;
mod options;
mod source;
mod view;
mod work;

/// The native half of the package `eraseblock`; its classes are not public.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::build::{build, check, cli, survey_of};
    #[pymodule_export]
    use crate::edit::{EditVolume, edit};
    #[pymodule_export]
    use crate::fs::{File, FileSystem};
    #[pymodule_export]
    use crate::image::{Image, Volume, open};
    #[pymodule_export]
    use crate::work::provoke_panic;
}
