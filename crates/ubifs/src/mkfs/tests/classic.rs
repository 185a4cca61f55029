//! Comparison with the classic tool, if it is installed.

use super::*;
use eraseblock_ubifs_format::layout::LayoutOptions;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the classic tool on `root`; returns `None` if it is not installed.
fn classic(root: &Path, arguments: &[String]) -> Option<Result<Vec<u8>, String>> {
    let work = tempfile::tempdir().unwrap();
    let image = work.path().join("image");
    let mut command = Command::new("/usr/sbin/mkfs.ubifs");
    let output = command.arg("-r").arg(root).args(arguments).arg("-o").arg(&image).output().ok()?;
    if output.status.success() {
        return Some(Ok(fs::read(&image).unwrap()));
    }
    Some(Err(String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn arguments(options: &LayoutOptions, compressor: &str) -> Vec<String> {
    let mut arguments = vec!["-m".to_owned(), options.min_io.to_string()];
    let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    add("-e", options.leb_size.to_string());
    add("-c", options.max_leb_cnt.to_string());
    add("-x", compressor.to_owned());
    add("-p", options.orph_lebs.to_string());
    add("-f", options.fanout.to_string());
    add("-R", options.reserved.to_string());
    if let Some(log_lebs) = options.log_lebs {
        add("-l", log_lebs.to_string());
    }
    if let Some(journal) = options.journal_bytes {
        add("-j", journal.to_string());
    }
    arguments
}

#[test]
fn a_plain_tree_has_the_same_nodes_and_totals() {
    let root = tempfile::tempdir().unwrap();
    let mut tree = SourceTree::new(directory());
    for dir in 0..5_u32 {
        let path = root.path().join(format!("dir{dir}"));
        fs::create_dir(&path).unwrap();
        let id = tree.add(NodeId::ROOT, format!("dir{dir}").as_bytes(), directory()).unwrap();
        for number in 0..20_u32 {
            let (name, content) =
                (format!("file{number}"), text((dir * 7000 + number * 611) as usize, number));
            fs::write(path.join(&name), &content).unwrap();
            tree.add(id, name.as_bytes(), file(content)).unwrap();
        }
    }
    let mut options = MkfsOptions { compressor: Compressor::None, ..options() };
    for max_leb_cnt in [300, 6000] {
        options.layout.max_leb_cnt = max_leb_cnt;
        let Some(image) = classic(root.path(), &arguments(&options.layout, "none")) else { return };
        let theirs = verify(&image.unwrap(), LEB, Strictness::Classic);
        let ours = verify(&built(&tree, &options).0, LEB, Strictness::Ours);
        assert_eq!(ours.leaves, theirs.leaves);
        let strip =
            |sb: &eraseblock_ubifs_format::Superblock| eraseblock_ubifs_format::Superblock {
                uuid: [0; 16],
                leb_cnt: 0,
                hash_algo: 0,
                sqnum: 0,
                ..sb.clone()
            };
        assert_eq!(strip(&ours.superblock), strip(&theirs.superblock));
        let totals = |m: &eraseblock_ubifs_format::Master| {
            (m.index_size, m.total_used, m.empty_lebs, m.idx_lebs, m.highest_inum)
        };
        assert_eq!(totals(&ours.master), totals(&theirs.master));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn any_geometry_gives_the_same_superblock(
        min_io in 3..13_u32,
        pages in 1..200_u32,
        max_leb_cnt in 17..9000_u32,
        log_lebs in proptest::option::of(2..30_u32),
        orph_lebs in 1..4_u32,
        fanout in 3..30_u32,
        reserved in 0..100_000_u64,
    ) {
        let min_io = 1 << min_io;
        let leb_size = (15_360_u32.next_multiple_of(min_io) + pages * min_io).min(1 << 20);
        let layout = LayoutOptions {
            log_lebs, orph_lebs, fanout, reserved, ..LayoutOptions::new(leb_size, min_io, max_leb_cnt)
        };
        let root = tempfile::tempdir().unwrap();
        let Some(theirs) = classic(root.path(), &arguments(&layout, "none")) else { return Ok(()) };
        let ours = Layout::for_image(&layout);
        match (theirs, ours) {
            // Ours also refuses images that the tool builds but Linux does not mount.
            (_, Err(_)) => {}
            (Err(message), Ok(_)) => prop_assert!(false, "only refused by the tool: {}", message),
            (Ok(image), Ok(ours)) => {
                let theirs = verify(&image, leb_size, Strictness::Classic).superblock;
                prop_assert_eq!(
                    (theirs.max_bud_bytes, theirs.log_lebs, theirs.lpt_lebs, theirs.rp_size),
                    (ours.max_bud_bytes, ours.log_lebs, ours.lpt_lebs, ours.rp_size)
                );
                prop_assert_eq!(theirs.has(2), ours.big_lpt);
                prop_assert_eq!(theirs.main_first(), ours.main_first().get());
            }
        }
    }
}
