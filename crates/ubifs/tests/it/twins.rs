//! Names of one hash whose entries do not ascend in the index.

use crate::beside::colliding;
use crate::check::Bytes;
use crate::rw::{checked, file, mount};
use eraseblock_vfs::{Caller, FileSystem, Timestamp, WritableFileSystem};
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// Without this order, a lookup stops at the second name that sorts after the wanted one, and the
/// names after that would be lost.
#[test]
fn a_new_name_follows_every_name_that_sorts_before_it() {
    let volume = colliding(64);
    let fs = mount(&volume).unwrap();
    let known = [b"nameb", b"named"].map(|name| (name, fs.create(1, name, &file(), NOW).unwrap()));
    fs.unmount().unwrap();
    let mut bytes = Bytes::of(&volume);
    bytes.swap_twins();
    let volume = bytes.volume();
    let fs = mount(&volume).unwrap();
    let made = fs.create(1, b"namec", &file(), NOW).unwrap();
    fs.unmount().unwrap();
    let fs = mount(&Arc::new(volume.with(volume.lebs()))).unwrap();
    for (name, ino) in known.into_iter().chain([(b"namec", made)]) {
        assert_eq!(fs.lookup(1, name).ok(), Some(ino), "{}", String::from_utf8_lossy(name));
        fs.unlink(1, name, NOW).unwrap();
        assert!(fs.lookup(1, name).is_err());
    }
    checked(&fs).unwrap();
}
