//! The lab: campaigns on any chip, what they demand, their page, and states made smaller.

use crate::sample::Sample;
use std::fs;

/// A small chip without a name of its own, and how ids name it.
const CHIP: [&str; 6] = ["--peb", "16KiB", "--page", "512", "--blocks", "40"];
const NAME: &str = "40x16384-512-512-16";

fn json(sample: &Sample, arguments: &[&str]) -> serde_json::Value {
    let run = sample.ok(&[arguments, &["--json"]].concat());
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn a_campaign_runs_on_any_chip_and_writes_a_page() {
    let sample = Sample::new();
    let campaign = [
        &["lab", "powercut", "--target", "ubi", "--workload", "full", "--states", "300"][..],
        &["--every", "301", "--nested", "0", "--thorough", "--html", "page.html"],
        &CHIP,
    ];
    let found = json(&sample, &campaign.concat());
    let done = &found["workloads_done"][0];
    assert_eq!((&done["shape"], &done["workload"]), (&NAME.into(), &"full-1".into()));
    let rare = found["rare"].as_object().unwrap();
    assert!(rare.contains_key("attaches that erased early"), "{rare:?}");
    assert!(rare.values().all(|count| count.as_u64().unwrap() > 0), "{rare:?}");
    let states = found["states"].as_u64().unwrap();
    for by in ["variants", "cut_events", "cut_operations"] {
        let counts = found[by].as_object().unwrap().values();
        assert_eq!(counts.map(|count| count.as_u64().unwrap()).sum::<u64>(), states, "{by}");
    }
    let page = fs::read_to_string(sample.path("page.html")).unwrap();
    for part in ["Rare events", "attaches that erased early", NAME, "prefers-color-scheme:dark"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<script") && !page.contains("src="), "{page}");
}

#[test]
fn file_systems_run_on_any_chip() {
    let sample = Sample::new();
    let part = ["--part", "w25n01gv", "--blocks", "40"];
    for (target, chip, name) in
        [("ubifs", &part[..], "ubifs/40xW25N01GV"), ("jffs2", &CHIP[..], &*format!("jffs2/{NAME}"))]
    {
        let campaign = ["lab", "powercut", "--target", target, "--states", "20", "--nested", "0"];
        let found = json(&sample, &[&campaign[..], chip].concat());
        assert_eq!((&found["target"], &found["states"]), (&name.into(), &20.into()));
        // No event of the campaign has this number.
        let run = sample.run(&["lab", "replay", &format!("{name}/seq1-0@9999999.P3")]);
        assert!(run.code != 0 && run.err.contains("no such event"), "{}", run.err);
    }
}

#[test]
fn impossible_chips_are_refused() {
    let sample = Sample::new();
    let refused = |chip: &[&str]| {
        let run = sample.run(&[&["lab", "powercut", "--target", "ubi"][..], chip].concat());
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{chip:?}: {}", run.err);
        run.err
    };
    assert!(refused(&["--chip", "huge"]).contains("there is no chip `huge`"));
    assert!(refused(&["--peb", "16KiB", "--page", "500"]).contains("a power of two"));
    assert!(refused(&["--peb", "16KiB"]).contains("--page"));
    assert!(refused(&["--blocks", "40"]).contains("--part, or --peb and --page"));
    let small = ["--peb", "16KiB", "--page", "512", "--blocks", "12"];
    let run = sample.run(&[&["lab", "powercut", "--target", "ubi"][..], &small].concat());
    assert!(run.code != 0 && run.err.contains("use more blocks"), "{}", run.err);
    assert!(refused(&["--chip", "mini", "--part", "W25N01GV"]).contains("cannot be used with"));
}

/// Too few states for anything rare: the run fails and names what is missing.
#[test]
fn a_thorough_campaign_names_what_never_happened() {
    let sample = Sample::new();
    let campaign = ["lab", "powercut", "--target", "ubi", "--chip", "mini", "--states", "5"];
    let campaign = [&campaign[..], &["--nested", "0", "--workload", "failing"]].concat();
    assert_eq!(sample.run(&campaign).code, 0);
    let run = sample.run(&[&campaign[..], &["--thorough"]].concat());
    assert_ne!(run.code, 0);
    let missing = "no failed erases in appends to mapped LEBs in any workload";
    assert!(run.err.contains(missing), "{}", run.err);
}

/// The chips of a state are those before and after its recovery, and other commands open them.
#[test]
fn the_chips_of_a_state_can_be_opened() {
    let sample = Sample::new();
    let ids = (150..400).map(|event| format!("ubi/{NAME}/full-1:1-2@{event}.P3"));
    let replay = |id: &String| sample.run(&["lab", "replay", id, "--chip", "c"]).code == 0;
    let id = ids.into_iter().find(replay).unwrap();
    let events = |file: &str| {
        assert!(sample.run(&["info", file]).out.contains("UBI"), "{file}");
        json(&sample, &["chip", "stats", file])["counters"]["page_programs"].as_u64().unwrap()
    };
    assert!(events("c.before") < events("c.after"));
    let run = sample.run(&["lab", "replay", &id, "--chip", "c"]);
    assert!(run.code != 0 && run.err.contains("exists already"), "{}", run.err);
    let story = sample.ok(&["lab", "replay", &id]).out;
    assert!(story.contains("operation 1: create dynamic volume 0 of 10 LEBs"), "{story}");
    let run = sample.ok(&["lab", "shrink", &id]);
    assert!(run.out.contains("nothing wrong, so nothing to shrink"), "{}", run.out);
    assert!(json(&sample, &["lab", "shrink", &id])["shrunk"].is_null());
}

/// A campaign judged by shares, in any order and with one unit twice, is the campaign judged at once.
#[test]
fn shares_of_a_campaign_add_up() {
    let sample = Sample::new();
    let campaign = ["lab", "powercut", "--target", "jffs2", "--every", "3", "--nested", "7"];
    let campaign = [&campaign[..], &["--units", "7"]].concat();
    let whole = json(&sample, &campaign);
    let units = sample.ok(&[&campaign[..], &["--list-units"]].concat()).out;
    let units: Vec<&str> = units.lines().collect();
    assert_eq!((units.len(), units[6]), (7, "jffs2/nand/seq1-6"));
    for share in ["2/3", "0/3", "1/3"] {
        sample.ok(&[&campaign[..], &["--shard", share, "--out", "rows"]].concat());
    }
    let rows: Vec<serde_json::Value> = units
        .iter()
        .map(|unit| format!("rows/{}.json", unit.replace('/', "_")))
        .map(|path| serde_json::from_slice(&fs::read(sample.path(&path)).unwrap()).unwrap())
        .collect();
    let sum = |what: &str| rows.iter().map(|row| row[what].as_u64().unwrap()).sum::<u64>();
    for what in ["states", "nested_states", "duplicates", "events", "operations"] {
        assert_eq!(sum(what), whole[what].as_u64().unwrap(), "{what}");
    }
    let digest = |value: &serde_json::Value| {
        u128::from_str_radix(value["digest"].as_str().unwrap(), 16).unwrap()
    };
    let sum = rows.iter().map(digest).fold(0, u128::wrapping_add);
    assert_eq!(sum, digest(&whole));
    // Only the missing row is judged again, and it is the same one.
    let path = sample.path("rows/jffs2_nand_seq1-4.json");
    let before = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    sample.ok(&[&campaign[..], &["--out", "rows"]].concat());
    assert_eq!(fs::read(&path).unwrap(), before);
    let one = sample.ok(&[&campaign[..], &["--unit", "jffs2/nand/seq1-4"]].concat());
    assert_eq!(one.out.as_bytes(), before);
}

#[test]
fn shares_of_another_campaign_are_refused() {
    let sample = Sample::new();
    let ubi = ["lab", "powercut", "--target", "ubi", "--chip", "all", "--states", "900"];
    let units = sample.ok(&[&ubi[..], &["--list-units"]].concat()).out;
    assert_eq!(units.lines().collect::<Vec<_>>(), ["ubi/mini/1", "ubi/subpage/failing-1"]);
    let campaign = ["lab", "powercut", "--target", "jffs2", "--every", "9", "--units", "2"];
    sample.ok(&[&campaign[..], &["--out", "rows"]].concat());
    for (more, message) in [
        (&["--out", "rows", "--seed", "2"][..], "the folder has another campaign"),
        (&["--unit", "jffs2/nand/seq1-2"], "the campaign has no unit `jffs2/nand/seq1-2`"),
        (&["--list-units", "--states", "5"], "units are judged completely"),
        (&["--list-units", "--budget", "5s"], "units are judged completely"),
        (&["--shard", "2/2"], "expected I/N with a number I from 0 to N-1"),
    ] {
        let run = sample.run(&[&campaign[..], more].concat());
        assert!(run.code != 0 && run.err.contains(message), "{more:?}: {}", run.err);
    }
}
