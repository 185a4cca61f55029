//! The command as users meet it: the binary is run over small images that it makes itself, or that
//! the classic tools make where they are installed.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used)]

mod acl;
mod axfs;
mod bare;
mod build;
mod builders;
mod card;
mod chip;
mod classic;
mod classic_options;
#[path = "../../../nfs/tests/it/client.rs"]
mod client;
mod completeness;
mod damage;
mod debug;
mod documents;
mod everywhere;
mod explore;
mod fakeroot;
mod finding;
mod frame;
mod history;
mod jffs2;
mod jffs2_change;
mod lab;
mod logfs;
mod manners;
mod manners_json;
mod manners_output;
mod mount;
mod mount_kill;
mod mount_posix;
mod mount_rw;
mod mount_users;
mod nand;
mod read;
mod readers;
mod recordings;
mod recovery;
mod repair;
mod sample;
mod scan;
mod scripts;
mod serve;
mod sparse;
mod structures;
mod timeline;
mod ubi_image;
mod yaffs;
mod yaffs_change;
