//! Images that the reference wrote, read by us.

mod golden;
mod manifest;
mod store;
