//! The NFS server as clients meet it: handles and directory cookies outlive it.

use crate::client::{Client, in_dir, names, visited};
use crate::damage;
use crate::history::used;
use crate::mount_rw::with_volumes;
use crate::sample::Sample;
use crate::yaffs::unpack;
use nfs3_client::nfs3_types::nfs3::*;
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

/// The server; its standard error must stay open.
struct Served(Child, BufReader<ChildStderr>);

impl Drop for Served {
    /// A visit that panics leaves no server.
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// Serves `target` while `visit` runs, and ends with SIGTERM.
pub(crate) fn served(
    sample: &Sample,
    target: &str,
    options: &[&str],
    visit: impl AsyncFnOnce(Client),
) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_eraseblock"))
        .args(["serve", "nfs", target, "--listen", "127.0.0.1:0"])
        .args(options)
        .current_dir(sample.path(""))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    // Findings about the image may come before it.
    while !line.contains("127.0.0.1:") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "no server");
    }
    let port = line.split("127.0.0.1:").nth(1).unwrap().split(',').next().unwrap();
    let port: u16 = port.parse().unwrap();
    let mut served = Served(process, lines);
    visited(port, visit);
    Command::new("kill").arg(served.0.id().to_string()).status().unwrap();
    assert!(served.0.wait().unwrap().success());
    line.clear();
    served.1.read_line(&mut line).unwrap();
    assert!(line.starts_with("mount -t nfs"), "{line}");
}

async fn make(client: &mut Client, dir: &nfs_fh3, name: &str) -> nfs_fh3 {
    let how = createhow3::UNCHECKED(sattr3::default());
    let args = CREATE3args { where_: in_dir(dir, name), how };
    let CREATE3res::Ok(made) = client.create(&args).await.unwrap() else { panic!("{name}") };
    let Nfs3Option::Some(file) = made.obj else { panic!("no handle") };
    let data = Opaque::owned(name.as_bytes().to_vec());
    let count = u32::try_from(name.len()).unwrap();
    let stable = stable_how::FILE_SYNC;
    let write = WRITE3args { file: file.clone(), offset: 0, count, stable, data };
    assert!(matches!(client.write(&write).await.unwrap(), WRITE3res::Ok(_)));
    file
}

/// What clients of a YAFFS2 write is there for the next server and for every other command.
#[test]
fn a_yaffs2_is_served_for_writing() {
    let sample = Sample::new();
    let image = unpack(&sample, "basic-checkpoint");
    for round in 0..2 {
        let mut files = Vec::new();
        served(&sample, image, &["--rw"], async |mut client| {
            let root = client.root_nfs_fh3();
            for index in 0..10 {
                files.push(make(&mut client, &root, &format!("file-{round}-{index}")).await);
            }
            let listed = names(&mut client, &root, 0).await;
            assert!(
                listed.iter().any(|(name, _)| name == "etc") && listed.len() > 10 * (round + 1)
            );
        });
        let run = sample.ok(&["check", image]);
        assert!(run.err.contains("consistent"), "{}", run.err);
        let name = format!("file-{round}-7");
        assert_eq!(sample.ok(&["cat", image, &name]).out, name);
    }
}

#[test]
fn handles_and_cookies_of_a_written_chip_outlive_the_server() {
    let sample = with_volumes();
    let mut kept = None;
    served(&sample, "c:root", &["--rw"], async |mut client| {
        let root = client.root_nfs_fh3();
        let mut files = Vec::new();
        for index in 0..40 {
            files.push(make(&mut client, &root, &format!("file-{index}")).await);
        }
        let listed = names(&mut client, &root, 0).await;
        kept = Some((root, files, listed));
    });
    let run = sample.ok(&["check", "c:root"]);
    assert!(run.err.contains("consistent"), "{}", run.err);
    assert_eq!(sample.ok(&["cat", "c:root", "file-7"]).out, "file-7");
    let (root, files, listed) = kept.unwrap();
    assert_eq!(listed.len(), 40);
    for options in [&["--rw"][..], &[]] {
        served(&sample, "c:root", options, async |mut client| {
            let args = READ3args { file: files[23].clone(), offset: 0, count: 100 };
            let READ3res::Ok(ok) = client.read(&args).await.unwrap() else { panic!("stale") };
            assert_eq!(ok.data.as_ref(), b"file-23");
            assert_eq!(names(&mut client, &root, 0).await, listed);
            assert_eq!(names(&mut client, &root, listed[20].1).await, listed[21..]);
        });
    }
}

/// The handle of the root, and of the file that a path names.
pub(crate) async fn handles(client: &mut Client, path: &str) -> (nfs_fh3, nfs_fh3) {
    let root = client.root_nfs_fh3();
    let mut found = root.clone();
    for name in path.split('/') {
        let what = in_dir(&found, name);
        let LOOKUP3res::Ok(ok) = client.lookup(&LOOKUP3args { what }).await.unwrap() else {
            panic!("no {name}")
        };
        found = ok.object;
    }
    (root, found)
}

/// Handles depended on the spelling of the target: a server started with another spelling made the
/// handles of all clients stale.
fn handles_are_the_same(sample: &Sample, spellings: &[(&str, &[&str])], path: &str) {
    let mut first = None;
    for (target, options) in spellings {
        served(sample, target, options, async |mut client| {
            let found = handles(&mut client, path).await;
            let first = first.get_or_insert_with(|| found.clone());
            assert_eq!(*first, found, "{target} {options:?}");
            let args = READ3args { file: first.1.clone(), offset: 0, count: 100 };
            let READ3res::Ok(ok) = client.read(&args).await.unwrap() else { panic!("{target}") };
            assert_eq!(ok.data.as_ref(), b"127.0.0.1 localhost\n", "{target}");
        });
    }
}

#[test]
fn handles_depend_on_the_volume_and_not_on_its_spelling() {
    let sample = with_volumes();
    sample.ok(&["put", "c:root", "src"]);
    std::os::unix::fs::symlink("c", sample.path("link")).unwrap();
    let write = &["--rw"][..];
    let spellings =
        [("c:root", write), ("c:root", &[]), ("c:0", &[]), ("c", &[]), ("./c:0", write)];
    handles_are_the_same(&sample, &spellings, "etc/hosts");
    handles_are_the_same(
        &sample,
        &[("c", write), ("link", write), ("link:root", &[])],
        "etc/hosts",
    );
    sample.ubi();
    let spellings = [("all.ubi:rootfs", &[][..]), ("all.ubi:1", &[]), ("./all.ubi", &[])];
    handles_are_the_same(&sample, &spellings, "etc/hosts");
    sample.ok(&["mkfs", "jffs2", "src", "-o", "j", "--peb", "64KiB"]);
    let grown = &["--rw", "--size", "1MiB", "--peb", "64KiB"][..];
    handles_are_the_same(&sample, &[("j", &[]), ("./j", grown), ("j", &[])], "etc/hosts");
}

/// A volume that is to grow is larger than the file: there was no way to say how large the flash is.
#[test]
fn an_image_that_was_just_built_is_served_for_writing() {
    let sample = Sample::new();
    sample.ubi();
    let address = ["--listen", "127.0.0.1:0"];
    let short = [&["serve", "nfs", "all.ubi:rootfs", "--rw"][..], &address].concat();
    for arguments in [&short[..], &["put", "all.ubi:rootfs", "src"]] {
        let run = sample.run(arguments);
        assert_eq!(run.code, 3, "{}", run.err);
        assert!(run.err.contains("hint: --size SIZE"), "{}", run.err);
    }
    let run = sample.run(&["serve", "nfs", "all.ubi:rootfs", "--rw", "-o", "allow_other"]);
    assert!(run.code == 2 && run.err.contains("no such option"), "{}", run.err);
    let options = ["--rw", "--size", "16MiB", "-o", "compressor=none,cache=2MiB"];
    served(&sample, "all.ubi:rootfs", &options, async |mut client| {
        let root = client.root_nfs_fh3();
        make(&mut client, &root, "made").await;
    });
    assert!(sample.ok(&["check", "all.ubi:rootfs"]).err.contains("consistent"));
    assert_eq!(sample.ok(&["cat", "all.ubi:rootfs", "made"]).out, "made");
}

/// Space that only waits for a commit was not given back before the server ended.
#[test]
fn a_quiet_server_gives_back_space() {
    let sample = with_volumes();
    served(&sample, "c:root", &["--rw"], async |mut client| {
        let root = client.root_nfs_fh3();
        let free = async |client: &mut Client| {
            let args = FSSTAT3args { fsroot: root.clone() };
            let FSSTAT3res::Ok(ok) = client.fsstat(&args).await.unwrap() else { panic!("fsstat") };
            ok.fbytes
        };
        let before = free(&mut client).await;
        // What compresses well takes much of the index, whose space comes back with a commit.
        let file = make(&mut client, &root, "large").await;
        let (count, stable) = (61_440, stable_how::UNSTABLE);
        for part in 0..400 {
            let data = Opaque::owned(vec![7; 61_440]);
            let write =
                WRITE3args { file: file.clone(), offset: part * 61_440, count, stable, data };
            assert!(matches!(client.write(&write).await.unwrap(), WRITE3res::Ok(_)));
        }
        let args = COMMIT3args { file, offset: 0, count: 0 };
        assert!(matches!(client.commit(&args).await.unwrap(), COMMIT3res::Ok(_)));
        let object = in_dir(&root, "large");
        let removed = client.remove(&REMOVE3args { object }).await.unwrap();
        assert!(matches!(removed, REMOVE3res::Ok(_)));
        let waiting = free(&mut client).await;
        assert!(waiting < before - before / 10, "{waiting} of {before} bytes are free");
        let begin = std::time::Instant::now();
        loop {
            let now = free(&mut client).await;
            if now >= before - before / 20 {
                break;
            }
            assert!(begin.elapsed().as_secs() < 60, "{now} of {before} bytes are free");
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    });
}

/// A part of a file whose node is damaged is an error to a client, not zeros.
#[test]
fn lost_content_is_an_error_to_clients() {
    let (sample, _) = damage::jffs2();
    for options in [&["--peb", "64KiB"][..], &["--peb", "64KiB", "--rw"]] {
        served(&sample, "j", options, async |mut client| {
            let (_, file) = handles(&mut client, "f").await;
            for (offset, is_good) in [(0, true), (28_672, false), (32_768, true)] {
                let args = READ3args { file: file.clone(), offset, count: 4096 };
                match client.read(&args).await.unwrap() {
                    READ3res::Ok(_) => assert!(is_good, "{offset}"),
                    READ3res::Err((status, _)) => {
                        assert!(!is_good && status == nfsstat3::NFS3ERR_IO, "{offset}: {status}");
                    }
                }
            }
        });
    }
}

#[test]
fn a_past_state_is_served_and_its_handles_are_its_own() {
    let sample = used();
    let before = fs::read(sample.path("used")).unwrap();
    let mut kept = Vec::new();
    for (options, content) in [
        (&["--as-of", "commit:0"][..], &b"first\n"[..]),
        (&["--as-of", "commit:1"], b"second\n"),
        (&[], b"second\n"),
    ] {
        served(&sample, "used", options, async |mut client| {
            let (root, file) = handles(&mut client, "kept").await;
            let listed = names(&mut client, &root, 0).await;
            let has_gone = listed.iter().any(|(name, _)| name == "gone");
            assert_eq!(has_gone, !options.is_empty(), "{options:?}: {listed:?}");
            let args = READ3args { file: file.clone(), offset: 0, count: 100 };
            let READ3res::Ok(ok) = client.read(&args).await.unwrap() else { panic!("{options:?}") };
            assert_eq!(ok.data.as_ref(), content, "{options:?}");
            for other in &kept {
                let args = READ3args { file: nfs_fh3::clone(other), offset: 0, count: 100 };
                let stale = client.read(&args).await.unwrap();
                // Which of them depends on whether the number of the other state is larger.
                let is_refused = matches!(
                    stale,
                    READ3res::Err((nfsstat3::NFS3ERR_BADHANDLE | nfsstat3::NFS3ERR_STALE, _))
                );
                assert!(is_refused, "{stale:?}");
            }
            kept.push(file);
        });
    }
    let refused = sample.run(&["serve", "nfs", "used", "--rw", "--as-of", "commit:0"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("a state of the past cannot be changed"), "{}", refused.err);
    assert_eq!(fs::read(sample.path("used")).unwrap(), before);
}
