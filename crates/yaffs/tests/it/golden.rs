//! Every image of the reference shows the tree that the reference shows.

use crate::manifest::{self, Manifest};
use crate::store::{Row, Store};
use eraseblock_yaffs::{OpenOptions, Source, Yaffs};
use std::sync::Arc;

fn open(image: Vec<u8>, ignore_checkpoint: bool) -> (Manifest, String, eraseblock_yaffs::Info) {
    let source = Source::Image(Arc::new(image));
    let options = OpenOptions { ignore_checkpoint, ..OpenOptions::default() };
    let (fs, findings) = Yaffs::open(source, &options).unwrap();
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    (manifest::of(&fs), findings.join("\n"), fs.info().clone())
}

#[test]
fn draft() {
    let Some(store) = Store::all() else { return };
    for row in store.rows() {
        if row.name.starts_with("sweep-") {
            let files = store.archive(&row.name);
            for (name, image) in files.iter().filter(|(name, _)| name.ends_with(".img")) {
                let name = name.trim_end_matches(".img");
                let expected = std::str::from_utf8(&files[&format!("{name}.manifest")]).unwrap();
                one(&row, &format!("{}/{name}", row.name), image.clone(), expected);
            }
        } else {
            one(&row, &row.name, store.image(&row.name), &store.manifest(&row.name));
        }
    }
}

fn one(row: &Row, name: &str, image: Vec<u8>, expected: &str) {
    let expected = manifest::parse(expected);
    for ignore in [false, true] {
        let result = std::panic::catch_unwind(|| open(image.clone(), ignore));
        let Ok((found, findings, info)) = result else { println!("### {name}: FAIL"); continue };
        let layout = &info.layout;
        let shape = (layout.page, layout.spare, layout.pages_per_block, layout.tags_ecc, layout.order == eraseblock_base::ByteOrder::Big, layout.data_ecc != eraseblock_yaffs::DataEcc::None);
        if shape != (row.page, row.spare, row.pages_per_block, row.tag_ecc, row.is_big, row.data_ecc != "none") && !ignore {
            println!("### {name}: layout {layout:?}");
        }
        let differences = manifest::differences(&expected, &found);
        if !differences.is_empty() {
            println!("### {name} {} ignore={ignore} {:?} DIFF {}\n{}\n{findings}", row.is_quirk, info.origin, differences.len(), differences[..differences.len().min(4)].join("\n"));
        }
    }
}
