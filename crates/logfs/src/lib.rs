//! LogFS
