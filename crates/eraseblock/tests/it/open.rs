//! Opening and reading, with everything that can go wrong.

use crate::sample::{PEB, Sample, noise};
use eraseblock::observe::Notes;
use eraseblock::raw::vfs::Attr;
use eraseblock::target::filesystem::copy;
use eraseblock::target::{Shape, Wanted, open_file_system};
use eraseblock::{ErrorKind, FileKind, Image, Kind, ReadAt, Severity, VolumeKind, open};
use std::collections::HashSet;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

#[test]
fn volumes_are_found_by_name_and_number() {
    let sample = Sample::new();
    let image = open(sample.image()).unwrap();
    assert_eq!(image.kind(), Kind::Ubi);
    assert!(image.findings().is_empty());
    let names: Vec<String> = image.volumes().map(|volume| volume.name().into_owned()).collect();
    assert_eq!(names, ["kernel", "rootfs", "data"]);
    let kernel = image.volume("kernel").unwrap();
    assert_eq!((kernel.id(), kernel.kind()), (0, VolumeKind::Static));
    assert_eq!(image.volume(1).unwrap().name_bytes(), b"rootfs");
    assert_eq!(image.volume(&b"2"[..]).unwrap().name(), "data");
    assert!(image.volume("data").unwrap().size() >= 2 << 20);
    let error = image.volume("boot").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.message().contains("there is no volume `boot`"), "{error}");
    assert!(error.next_step().unwrap().contains("rootfs"), "{error:?}");
}

#[test]
fn the_content_of_a_volume_is_a_stream() {
    let sample = Sample::new();
    let image = open(sample.image()).unwrap();
    let mut content = image.volume("kernel").unwrap().content().unwrap();
    let mut all = Vec::new();
    content.read_to_end(&mut all).unwrap();
    assert!(all == noise(200_000) && content.len() == 200_000 && !content.is_empty());
    content.seek(SeekFrom::End(-3)).unwrap();
    let mut end = Vec::new();
    content.read_to_end(&mut end).unwrap();
    assert_eq!(end, all[199_997..]);
    assert!(content.seek(SeekFrom::Current(-1_000_000)).is_err());
    content.seek(SeekFrom::Start(u64::MAX)).unwrap();
    assert_eq!(content.read(&mut [0; 4]).unwrap(), 0);
}

#[test]
fn files_are_read_through_links_and_dots() {
    let sample = Sample::new();
    let fs = open(sample.image()).unwrap().file_system().unwrap();
    for path in ["/etc/motd", "etc/motd", "/link", "dir/motd", "/./etc//motd", "/etc/../../dir/up"]
    {
        assert_eq!(fs.read_to_string(path).unwrap(), "welcome\n", "{path}");
        assert!(fs.exists(path));
    }
    assert_eq!(fs.read_link("/link").unwrap(), b"/etc/motd");
    assert!(fs.symlink_metadata("/link").unwrap().is_symlink());
    let meta = fs.metadata("/link").unwrap();
    assert!(meta.is_file() && meta.len() == 8 && meta.kind() == FileKind::Regular);
    assert_eq!(meta.permissions() & 0o400, 0o400);
    let names: Vec<String> =
        fs.read_dir("/").unwrap().iter().map(|entry| entry.name().into_owned()).collect();
    assert_eq!(names, ["big", "dir", "etc", "link", "loop"]);
    let mut walked = Vec::new();
    fs.walk("/etc", &mut |path, entry| {
        assert!(entry.ino() > 1);
        walked.push(String::from_utf8_lossy(path).into_owned());
        Ok(())
    })
    .unwrap();
    walked.sort();
    assert_eq!(walked, ["motd", "up"]);
    assert!(fs.xattrs("/etc/motd").unwrap().is_empty());
}

#[test]
fn wrong_paths_have_their_kinds() {
    let sample = Sample::new();
    let fs = open(sample.image()).unwrap().file_system().unwrap();
    let kind = |path: &str| io::Error::from(fs.read(path).unwrap_err()).kind();
    assert_eq!(kind("/none"), io::ErrorKind::NotFound);
    assert_eq!(kind("/etc/motd/x"), io::ErrorKind::NotADirectory);
    assert!(fs.read("/none").unwrap_err().is_missing());
    let error = fs.read("/loop").unwrap_err();
    assert!(error.message().contains("too many symbolic links"), "{error}");
    assert_eq!(error.place(), Some("/loop"));
    let error = fs.read("/etc").unwrap_err();
    assert!(error.message().contains("/etc: is not a regular file"), "{error}");
    assert!(fs.read_to_string("/big").unwrap_err().message().contains("utf-8"));
    assert!(!fs.exists("/loop"));
}

#[test]
fn a_file_can_be_read_from_several_threads() {
    let sample = Sample::new();
    let file = open(sample.image()).unwrap().volume("rootfs").unwrap();
    let file = file.file_system().unwrap().open("/big").unwrap();
    assert!(file.len() == 400_000 && !file.is_empty());
    let expected = noise(400_000);
    std::thread::scope(|scope| {
        for part in 0..4_usize {
            let (file, expected) = (file.clone(), &expected);
            scope.spawn(move || {
                let mut bytes = vec![0; 100_000];
                file.read_exact_at(&mut bytes, part as u64 * 100_000).unwrap();
                assert!(bytes == expected[part * 100_000..][..100_000]);
            });
        }
    });
    let error = file.read_exact_at(&mut [0; 2], 399_999).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    let mut file = file;
    file.seek(SeekFrom::Start(399_990)).unwrap();
    let mut end = Vec::new();
    file.read_to_end(&mut end).unwrap();
    assert_eq!(end, expected[399_990..]);
}

/// An image on another machine.
#[derive(Debug)]
struct Remote(Vec<u8>);

impl ReadAt for Remote {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let bytes = self.0.get(start..start + buf.len());
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[test]
fn images_need_no_file() {
    let sample = Sample::new();
    let bytes = fs::read(sample.image()).unwrap();
    let image = Image::from_bytes(bytes.clone()).unwrap();
    assert_eq!(image.volume("rootfs").unwrap().read("/etc/motd").unwrap(), b"welcome\n");
    let image = Image::from_reader(Arc::new(Remote(bytes))).unwrap();
    assert_eq!(image.volume("rootfs").unwrap().read_to_string("/etc/motd").unwrap(), "welcome\n");
    assert!(Image::from_bytes([]).unwrap_err().message().contains("empty"));
}

#[test]
fn images_lie_at_offsets() {
    let sample = Sample::new();
    let ubi = fs::read(sample.image()).unwrap();
    let mut firmware = vec![0x55; 1000];
    firmware.extend_from_slice(&ubi);
    firmware.extend_from_slice(&vec![0x55; 3 * PEB]);
    firmware.extend_from_slice(&ubi);
    let path = sample.path("firmware.bin");
    fs::write(&path, &firmware).unwrap();
    let error = open(&path).unwrap_err();
    assert!(error.message().contains("there are 2 images in the file"), "{error}");
    let second = 1000 + ubi.len() as u64 + 3 * PEB as u64;
    for offset in [1000, second] {
        let image = Image::options().offset(offset).open(&path).unwrap();
        assert_eq!(image.volume("rootfs").unwrap().read("/link").unwrap(), b"welcome\n");
    }
    let part = Image::options().offset(1000).length(ubi.len() as u64);
    let fs = part.from_bytes(firmware).unwrap().file_system().unwrap();
    assert_eq!(fs.read("/etc/motd").unwrap(), b"welcome\n");
    let error = Image::options().offset(7).open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let error = Image::options().offset(u64::MAX).open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn a_bare_image_has_no_volumes() {
    let sample = Sample::new();
    let mut content = open(sample.image()).unwrap().volume("rootfs").unwrap().content().unwrap();
    let mut bytes = Vec::new();
    content.read_to_end(&mut bytes).unwrap();
    let image = Image::from_bytes(bytes).unwrap();
    assert_eq!((image.kind(), image.volumes().count()), (Kind::Ubifs, 0));
    assert_eq!(image.file_system().unwrap().read("/etc/motd").unwrap(), b"welcome\n");
    // Opened twice, it is the same.
    assert_eq!(image.file_system().unwrap().read("/link").unwrap(), b"welcome\n");
    let error = image.volume("rootfs").unwrap_err();
    assert!(error.message().contains("no volumes in it"), "{error}");
}

/// A page of the large file is damaged: everything else is read, and nothing wrong is delivered.
#[test]
fn damage_is_found_and_not_delivered() {
    let sample = Sample::new();
    let mut bytes = fs::read(sample.image()).unwrap();
    let content = noise(400_000);
    let at = bytes.windows(512).position(|window| window == &content[200_000..200_512]).unwrap();
    bytes[at..at + 64].fill(0);
    let image = Image::from_bytes(bytes).unwrap();
    let fs = image.volume("rootfs").unwrap().file_system().unwrap();
    assert_eq!(fs.read("/etc/motd").unwrap(), b"welcome\n");
    let error = fs.read("/big").unwrap_err();
    assert_eq!((error.kind(), error.place()), (ErrorKind::Corruption, Some("/big")));
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidData);
    let mut start = vec![0; 100_000];
    fs.open("/big").unwrap().read_exact_at(&mut start, 0).unwrap();
    assert!(start == content[..100_000]);
    let found = fs.check();
    assert!(found.iter().any(|finding| finding.code == "content-lost"), "{found:?}");
    assert_eq!(found.worst(), Some(Severity::Error));
}

/// The second copy of the volume table is lost: Linux would repair it, a reader says so.
#[test]
fn what_attaching_meets_is_a_finding() {
    let sample = Sample::new();
    let mut bytes = fs::read(sample.image()).unwrap();
    bytes[PEB + 4096..PEB + 4096 + 64].fill(0x55);
    let image = Image::from_bytes(bytes).unwrap();
    assert!(image.findings().has_problems(), "{:?}", image.findings());
    assert_eq!(image.volume("rootfs").unwrap().read("/etc/motd").unwrap(), b"welcome\n");
}

#[test]
fn strict_refuses_what_linux_refuses_and_says_why() {
    let sample = Sample::new();
    let mut bytes = fs::read(sample.image()).unwrap();
    // Both copies of the volume table.
    for peb in [0, PEB] {
        bytes[peb + 4096..peb + 4096 + 4096].fill(0x55);
    }
    let image = Image::from_bytes(bytes.clone()).unwrap();
    assert!(image.findings().has_problems());
    let error = Image::options().strict(true).from_bytes(bytes).unwrap_err();
    assert!(error.message().contains("Linux would refuse it"), "{error}");
    assert!(error.findings().has_problems(), "{error:?}");
}

#[test]
fn everything_can_be_taken_out() {
    let sample = Sample::new();
    let fs = open(sample.image()).unwrap().file_system().unwrap();
    let report = fs.extract_to(sample.path("out"), &eraseblock::ExtractOptions::default()).unwrap();
    assert_eq!((report.files, report.symlinks), (2, 4));
    assert_eq!(fs::read(sample.path("out/big")).unwrap(), noise(400_000));
    let error = fs.extract_to(sample.path("out"), &eraseblock::ExtractOptions::default());
    assert!(error.unwrap_err().message().contains("out"));
    let mut tar = Vec::new();
    assert_eq!(fs.to_tar(&mut tar).unwrap().files, 2);
    assert!(tar.len() > 400_000 && tar[257..].starts_with(b"ustar"));
    assert!(fs.check().is_empty() && fs.findings().is_empty() && fs.late_findings().is_empty());
}

/// A copy that ended before the size that the inode states was taken for whole.
#[test]
fn content_that_ends_early_is_an_error() {
    let sample = Sample::new();
    let mut target = sample.image().into_os_string();
    target.push(":rootfs");
    let wanted = Wanted { target, shape: Shape::default() };
    let opened = open_file_system(&wanted, &mut Notes::default()).unwrap();
    let fs = opened.fs();
    let motd = fs.lookup(fs.lookup(fs.root(), b"etc").unwrap(), b"motd").unwrap();
    let attr = fs.attr(motd).unwrap();
    assert_eq!(copy(fs, &attr, &mut |_, _| Ok(())).unwrap(), 8);
    let error = copy(fs, &Attr { size: 9, ..attr }, &mut |_, _| Ok(())).unwrap_err();
    assert!(error.message().contains("content ends at byte 8, its size is 9"), "{error}");
}

/// Notes on which threads it is read.
#[derive(Debug)]
struct Watched(Vec<u8>, Mutex<HashSet<ThreadId>>);

impl ReadAt for Watched {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.lock().unwrap().insert(std::thread::current().id());
        let start = usize::try_from(offset).unwrap();
        buf.copy_from_slice(&self.0[start..start + buf.len()]);
        Ok(())
    }
}

#[test]
fn an_image_is_opened_with_as_many_threads_as_asked_for() {
    let sample = Sample::new();
    for threads in 1..=2 {
        let seen = Mutex::default();
        let reader = Arc::new(Watched(fs::read(sample.image()).unwrap(), seen));
        let options = Image::options().threads(NonZeroUsize::new(threads).unwrap());
        let image = options.from_reader(reader.clone()).unwrap();
        assert_eq!(image.volumes().count(), 3);
        let seen = reader.1.lock().unwrap();
        assert!((1..=threads).contains(&seen.len()), "{threads}: {seen:?}");
        assert!(!seen.contains(&std::thread::current().id()));
    }
}
