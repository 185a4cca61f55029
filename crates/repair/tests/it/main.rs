//! Repairs of volumes that were damaged on purpose.

#![allow(clippy::cast_possible_truncation)] // images of tests are small
#![allow(clippy::unwrap_used)] // also in the helpers of tests

mod campaign;
mod campaign_jffs2;
mod campaign_ubi;
mod chip;
mod in_place;
mod jffs2;
mod past;
mod random;
mod rebuild;
mod rules;
mod ubi;
mod volume;
