//! UBI under power cuts: a target of the [engine](crate::powercut), and campaigns over many chips.

mod campaign;
mod device;
mod judge;
mod model;
mod sequence;
mod workload;

pub use campaign::{Campaign, Summary, Unit, WORKLOADS, campaign, campaign_until};
pub use device::UbiTarget;
