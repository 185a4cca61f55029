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
