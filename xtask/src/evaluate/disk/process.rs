//! The same steps in process: UBIFS on our flash on a block device on the card.

use super::log::Steps;
use super::{LARGE_FILES, card_parameters, small_files};
use crate::bench::ubifs_rw::{Entry, read_all, remove, unpack};
use crate::evaluate::card::ours::{Cost, mount_with, on_card};
use anyhow::{Result, ensure};
use eraseblock_card::Card;
use eraseblock_ubifs::UbifsMount;
use eraseblock_ubifs_format::Compression;
use eraseblock_vfs::{
    Caller, FileKind, FileSystem, Ino, NewInode, NewKind, Timestamp, WritableFileSystem,
};
use std::sync::Arc;

const CHUNK: usize = 128 << 10;

fn caller() -> Caller {
    Caller::owner(Timestamp::from_seconds(1_700_000_000))
}

/// Measures all steps on a new card.
pub(super) fn measure(
    peb_size: u32,
    compression: Compression,
    trees: u32,
    large: &[u8],
) -> Result<Steps> {
    let on = on_card(Card::in_memory(card_parameters()?)?, peb_size)?;
    let card = Arc::clone(&on.card);
    let mount = || mount_with(&on, compression);
    mount()?.unmount()?;
    let mut steps = Steps::new();
    let mut last = card.counters();
    let mut mark = |name: String| {
        let now = card.counters();
        steps.insert(name, Cost::between(&last, &now));
        last = now;
    };
    let mut content = 0;
    let mounted = mount()?;
    mark("begin".to_owned());
    for number in 1..=trees {
        let entries = small_files(Some(&format!("t{number}")));
        content = entries.iter().map(Entry::len).sum();
        unpack(&mounted, &entries)?;
        mark(format!("write-{number}"));
    }
    mounted.sync()?;
    mark("write-sync".to_owned());
    mounted.unmount()?;
    let mounted = mount()?;
    mark("mounted".to_owned());
    for number in 1..=trees {
        let read = read_all(&mounted, tree_of(&mounted, number)?)?;
        ensure!(read == content, "{read} bytes read back of {content}");
        mark(format!("read-{number}"));
    }
    mounted.unmount()?;
    let mounted = mount()?;
    for number in 1..=trees {
        mark(format!("du-begin-{number}"));
        let root = tree_of(&mounted, number)?;
        list(&mounted, root)?;
        mark(format!("du-{number}"));
        remove(&mounted, root)?;
        let name = format!("t{number}");
        mounted.remove_dir(mounted.root(), name.as_bytes(), &caller())?;
        mark(format!("rm-{number}"));
        mounted.sync()?;
        mark(format!("rm-sync-{number}"));
    }
    mark("large-begin".to_owned());
    for name in LARGE_FILES {
        let new = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        let ino = mounted.create(mounted.root(), name.as_bytes(), &new, &caller())?;
        for (number, chunk) in large.chunks(CHUNK).enumerate() {
            mounted.write(ino, (number * CHUNK) as u64, chunk, &caller())?;
        }
    }
    mark("large-write".to_owned());
    mounted.sync()?;
    mark("large-sync".to_owned());
    mounted.unmount()?;
    let mounted = mount()?;
    mark("large-mounted".to_owned());
    read_all(&mounted, mounted.root())?;
    mark("large-read".to_owned());
    mounted.unmount()?;
    Ok(steps)
}

fn tree_of(mounted: &UbifsMount, number: u32) -> Result<Ino> {
    let name = format!("t{number}");
    Ok(mounted.lookup(mounted.root(), name.as_bytes())?)
}

/// Lists everything with its attributes, as du(1) does.
fn list(mounted: &UbifsMount, dir: Ino) -> Result<()> {
    for entry in mounted.entries(dir)? {
        mounted.attr(entry.ino)?;
        if entry.kind == FileKind::Directory {
            list(mounted, entry.ino)?;
        }
    }
    Ok(())
}
