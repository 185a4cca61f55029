//! The lab: complete stacks on simulated chips, under faults, judged by models that are independent
//! of their implementation.

mod cuts;
pub mod figures;
pub mod fscut;
pub mod powercut;
pub mod story;
