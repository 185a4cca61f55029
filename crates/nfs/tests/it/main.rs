//! The server as clients use it: through a socket and an independent client.

// Helpers of tests are test code, which clippy cannot detect.
#![allow(clippy::unwrap_used)]

mod client;

use client::{Client, in_dir, names, visited};
use eraseblock_nfs::{Served, Server, ServerOptions};
use eraseblock_vfs::{Caller, FileSystem, NewInode, NewKind, Timestamp, WritableFileSystem};
use eraseblock_vfs_testkit::ModelFs;
use nfs3_client::nfs3_types::nfs3::*;
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

fn options(port: u16) -> ServerOptions {
    let address = ([127, 0, 0, 1], port).into();
    ServerOptions { address, generation: 77, owner: (5, 6) }
}

/// Serves in a thread while `visit` runs with a client.
fn served(exported: Served, visit: impl AsyncFnOnce(Client)) {
    let server = Server::new(exported, &options(0)).unwrap();
    let (port, stop) = (server.address().port(), server.stopper());
    let thread: JoinHandle<()> = std::thread::spawn(move || server.run().unwrap());
    visited(port, visit);
    stop();
    thread.join().unwrap();
}

async fn found(client: &mut Client, dir: &nfs_fh3, text: &str) -> Result<nfs_fh3, nfsstat3> {
    match client.lookup(&LOOKUP3args { what: in_dir(dir, text) }).await.unwrap() {
        LOOKUP3res::Ok(ok) => Ok(ok.object),
        LOOKUP3res::Err((status, _)) => Err(status),
    }
}

async fn content(client: &mut Client, file: &nfs_fh3, offset: u64) -> (Vec<u8>, bool) {
    let args = READ3args { file: file.clone(), offset, count: 100_000 };
    let READ3res::Ok(ok) = client.read(&args).await.unwrap() else { panic!("no content") };
    (ok.data.as_ref().to_vec(), ok.eof)
}

fn sample() -> Arc<ModelFs> {
    let fs = ModelFs::default();
    let by = &Caller::owner(Timestamp::from_seconds(7));
    let inode = |kind| NewInode { kind, permissions: 0o640, uid: 1, gid: 2 };
    let dir = fs.create(1, b"d", &inode(NewKind::Directory), by).unwrap();
    for number in 0..200 {
        fs.create(dir, format!("f{number}").as_bytes(), &inode(NewKind::Regular), by).unwrap();
    }
    let file = fs.resolve(b"d/f7").unwrap();
    fs.write(file, 3, b"content", by).unwrap();
    fs.create(1, b"l", &inode(NewKind::Symlink(b"d/f7")), by).unwrap();
    Arc::new(fs)
}

#[test]
fn everything_can_be_read_and_nothing_written() {
    served(Served::ReadOnly(sample()), async |mut client| {
        let root = client.root_nfs_fh3();
        let dir = found(&mut client, &root, "d").await.unwrap();
        let file = found(&mut client, &dir, "f7").await.unwrap();
        assert_eq!(content(&mut client, &file, 0).await, (b"\0\0\0content".to_vec(), true));
        assert_eq!(content(&mut client, &file, 8).await, (b"nt".to_vec(), true));
        assert_eq!(found(&mut client, &dir, "none").await, Err(nfsstat3::NFS3ERR_NOENT));
        let GETATTR3res::Ok(attr) =
            client.getattr(&GETATTR3args { object: file.clone() }).await.unwrap()
        else {
            panic!("no attributes")
        };
        let attr = attr.obj_attributes;
        assert_eq!(
            (attr.size, attr.mode, attr.uid, attr.gid, attr.mtime.seconds),
            (10, 0o640, 1, 2, 7)
        );
        let link = found(&mut client, &root, "l").await.unwrap();
        let READLINK3res::Ok(target) =
            client.readlink(&READLINK3args { symlink: link }).await.unwrap()
        else {
            panic!("no target")
        };
        assert_eq!(target.data.0.as_ref(), b"d/f7");
        let listed = names(&mut client, &dir, 0).await;
        assert_eq!(listed.len(), 200);
        let data = Opaque::owned(vec![1]);
        let write = WRITE3args { file, offset: 0, count: 1, stable: stable_how::UNSTABLE, data };
        let refused = client.write(&write).await.unwrap();
        assert!(matches!(refused, WRITE3res::Err((nfsstat3::NFS3ERR_ROFS, _))));
    });
}

#[test]
fn handles_and_cookies_outlive_the_server() {
    let fs = sample();
    let mut kept = None;
    served(Served::ReadOnly(Arc::<ModelFs>::clone(&fs)), async |mut client| {
        let root = client.root_nfs_fh3();
        let dir = found(&mut client, &root, "d").await.unwrap();
        let file = found(&mut client, &dir, "f7").await.unwrap();
        kept = Some((names(&mut client, &dir, 0).await, dir, file));
    });
    let (listed, dir, file) = kept.unwrap();
    served(Served::ReadOnly(fs), async |mut client| {
        assert_eq!(content(&mut client, &file, 3).await.0, b"content");
        assert_eq!(names(&mut client, &dir, 0).await, listed);
    });
}

#[test]
fn a_writable_server_makes_changes_and_goes_read_only_at_the_end() {
    let fs = Arc::new(ModelFs::default());
    served(Served::ReadWrite(Arc::<ModelFs>::clone(&fs)), async |mut client| {
        let root = client.root_nfs_fh3();
        let attributes = sattr3 { mode: Nfs3Option::Some(0o600), ..sattr3::default() };
        let how = createhow3::GUARDED(attributes.clone());
        let create = CREATE3args { where_: in_dir(&root, "f"), how };
        let CREATE3res::Ok(made) = client.create(&create).await.unwrap() else {
            panic!("not made")
        };
        let Nfs3Option::Some(file) = made.obj else { panic!("no handle") };
        let again = client.create(&create).await.unwrap();
        assert!(matches!(again, CREATE3res::Err((nfsstat3::NFS3ERR_EXIST, _))));
        let data = Opaque::owned(b"written".to_vec());
        let stable = stable_how::UNSTABLE;
        let write = WRITE3args { file: file.clone(), offset: 1, count: 7, stable, data };
        let WRITE3res::Ok(written) = client.write(&write).await.unwrap() else {
            panic!("no write")
        };
        assert_eq!(written.committed, stable_how::FILE_SYNC);
        let new_attributes = sattr3 { size: Nfs3Option::Some(4), ..sattr3::default() };
        let guard = Nfs3Option::None;
        let cut = SETATTR3args { object: file.clone(), new_attributes, guard };
        assert!(matches!(client.setattr(&cut).await.unwrap(), SETATTR3res::Ok(_)));
        assert_eq!(content(&mut client, &file, 0).await.0, b"\0wri");
        let mkdir = MKDIR3args { where_: in_dir(&root, "d"), attributes };
        let MKDIR3res::Ok(made) = client.mkdir(&mkdir).await.unwrap() else { panic!("no mkdir") };
        let Nfs3Option::Some(dir) = made.obj else { panic!("no handle") };
        let rename = RENAME3args { from: in_dir(&root, "f"), to: in_dir(&dir, "g") };
        assert!(matches!(client.rename(&rename).await.unwrap(), RENAME3res::Ok(_)));
        let attr = client.getattr(&GETATTR3args { object: dir.clone() }).await.unwrap();
        assert!(matches!(attr, GETATTR3res::Ok(ok) if ok.obj_attributes.mode == 0o600));
        let rmdir = RMDIR3args { object: in_dir(&root, "d") };
        let refused = client.rmdir(&rmdir).await.unwrap();
        assert!(matches!(refused, RMDIR3res::Err((nfsstat3::NFS3ERR_NOTEMPTY, _))));
    });
    let file = fs.attr(fs.resolve(b"d/g").unwrap()).unwrap();
    assert_eq!((file.permissions, file.uid, file.gid, file.size), (0o600, 5, 6, 4));
    let gone = fs.unlink(fs.resolve(b"d").unwrap(), b"g", &Caller::owner(Timestamp::default()));
    assert!(gone.is_err(), "still writable");
}

/// REMOVE removed directories and RMDIR deleted files: the server passed both to one call.
#[test]
fn each_kind_has_its_own_call_to_remove_it() {
    let fs = sample();
    let by = &Caller::owner(Timestamp::from_seconds(7));
    let inode = NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };
    fs.create(1, b"empty", &inode, by).unwrap();
    served(Served::ReadWrite(Arc::<ModelFs>::clone(&fs)), async |mut client| {
        let root = client.root_nfs_fh3();
        let dir = found(&mut client, &root, "d").await.unwrap();
        let remove = REMOVE3args { object: in_dir(&root, "empty") };
        let refused = client.remove(&remove).await.unwrap();
        assert!(matches!(refused, REMOVE3res::Err((nfsstat3::NFS3ERR_ISDIR, _))));
        let rmdir = RMDIR3args { object: in_dir(&dir, "f7") };
        let refused = client.rmdir(&rmdir).await.unwrap();
        assert!(matches!(refused, RMDIR3res::Err((nfsstat3::NFS3ERR_NOTDIR, _))));
        found(&mut client, &root, "empty").await.unwrap();
        found(&mut client, &dir, "f7").await.unwrap();
        let rmdir = RMDIR3args { object: in_dir(&root, "empty") };
        assert!(matches!(client.rmdir(&rmdir).await.unwrap(), RMDIR3res::Ok(_)));
        let remove = REMOVE3args { object: in_dir(&dir, "f7") };
        assert!(matches!(client.remove(&remove).await.unwrap(), REMOVE3res::Ok(_)));
    });
    assert!(fs.resolve(b"empty").is_err() && fs.resolve(b"d/f7").is_err());
}

#[test]
fn files_get_more_names() {
    let fs = sample();
    served(Served::ReadWrite(Arc::<ModelFs>::clone(&fs)), async |mut client| {
        let root = client.root_nfs_fh3();
        let dir = found(&mut client, &root, "d").await.unwrap();
        let file = found(&mut client, &dir, "f7").await.unwrap();
        let link = LINK3args { file: file.clone(), link: in_dir(&root, "twin") };
        let LINK3res::Ok(ok) = client.link(&link).await.unwrap() else { panic!("no link") };
        assert!(matches!(ok.file_attributes, Nfs3Option::Some(attr) if attr.nlink == 2));
        let again = client.link(&link).await.unwrap();
        assert!(matches!(again, LINK3res::Err((nfsstat3::NFS3ERR_EXIST, _))));
        assert_eq!(found(&mut client, &root, "twin").await, Ok(file));
    });
    served(Served::ReadOnly(fs), async |mut client| {
        let root = client.root_nfs_fh3();
        let link = LINK3args { file: root.clone(), link: in_dir(&root, "x") };
        let refused = client.link(&link).await.unwrap();
        assert!(matches!(refused, LINK3res::Err((nfsstat3::NFS3ERR_ROFS, _))));
    });
}

/// The limits were invented: names of 32768 bytes, no links, 1 TiB of space.
#[test]
fn limits_and_space_are_those_of_the_file_system() {
    let fs = sample();
    let stats = fs.stat_fs().unwrap();
    served(Served::ReadOnly(fs), async |mut client| {
        let object = client.root_nfs_fh3();
        let PATHCONF3res::Ok(limits) =
            client.pathconf(&PATHCONF3args { object: object.clone() }).await.unwrap()
        else {
            panic!("no limits")
        };
        assert_eq!((limits.name_max, limits.linkmax), (255, 0x7FFF_FFFF));
        let FSSTAT3res::Ok(space) = client.fsstat(&FSSTAT3args { fsroot: object }).await.unwrap()
        else {
            panic!("no space")
        };
        let bytes = |blocks: u64| blocks * u64::from(stats.block_size);
        assert_eq!((space.tbytes, space.fbytes), (bytes(stats.blocks), bytes(stats.blocks_free)));
    });
}

#[test]
fn the_directory_above_is_found() {
    let fs = sample();
    let by = &Caller::owner(Timestamp::from_seconds(7));
    let inode = NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };
    let below = fs.create(fs.resolve(b"d").unwrap(), b"below", &inode, by).unwrap();
    fs.create(below, b"deep", &inode, by).unwrap();
    served(Served::ReadOnly(fs), async |mut client| {
        let root = client.root_nfs_fh3();
        let mut path = vec![root.clone()];
        for name in ["d", "below", "deep"] {
            let dir = path[path.len() - 1].clone();
            path.push(found(&mut client, &dir, name).await.unwrap());
        }
        for pair in path.windows(2) {
            assert_eq!(found(&mut client, &pair[1], "..").await.as_ref(), Ok(&pair[0]));
        }
        assert_eq!(found(&mut client, &root, "..").await, Ok(root.clone()));
        let file = found(&mut client, &path[1], "f7").await.unwrap();
        assert_eq!(found(&mut client, &file, "..").await, Err(nfsstat3::NFS3ERR_NOTDIR));
    });
}

/// A change wakes the background work within seconds; without one, it would wait for half a minute.
#[test]
fn background_work_follows_a_change() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let server = Server::new(Served::ReadWrite(sample()), &options(0)).unwrap();
    let server = server.with_background_work(move || {
        let _ = sender.send(());
        Ok(false)
    });
    let (port, stop) = (server.address().port(), server.stopper());
    let thread: JoinHandle<()> = std::thread::spawn(move || server.run().unwrap());
    assert!(receiver.recv_timeout(Duration::from_secs(2)).is_err(), "nothing has changed");
    visited(port, async |mut client| {
        let root = client.root_nfs_fh3();
        let how = createhow3::UNCHECKED(sattr3::default());
        let create = CREATE3args { where_: in_dir(&root, "f"), how };
        assert!(matches!(client.create(&create).await.unwrap(), CREATE3res::Ok(_)));
    });
    receiver.recv_timeout(Duration::from_secs(15)).unwrap();
    stop();
    thread.join().unwrap();
}
