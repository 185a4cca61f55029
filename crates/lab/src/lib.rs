//! The laboratory: whole stacks on simulated chips, under faults, judged by models that know
//! nothing of how they work.

mod cuts;
pub mod figures;
pub mod fscut;
pub mod powercut;
pub mod story;
