//! Stories of states, as `lab replay` prints them.

use eraseblock_lab::Shape;
use eraseblock_lab::files::{Jffs2Stack, Yaffs2Stack, ubifs};
use eraseblock_lab::powercut::{Options, Plan, StateId, Target, explain};
use eraseblock_lab::story::{Chips, Fate, Story};
use eraseblock_lab::ubi::UbiTarget;

/// Returns the whole text of a story.
fn text(story: &Story) -> String {
    let cuts = story.cuts.iter().flat_map(|cut| {
        let events = cut.events.iter().map(|event| event.what.clone());
        let looks = cut.looks.iter().flat_map(|look| look.lines.clone());
        [cut.id.clone(), cut.left.clone()].into_iter().chain(events).chain(looks)
    });
    story.operations.iter().cloned().chain(cuts).collect::<Vec<_>>().join("\n")
}

/// One message was `volume Some(0) is marked as damaged`, and operations were Rust names.
fn assert_is_prose(text: &str) {
    for word in ["Some(", "None", "Ok(", "Err(", " { ", "::", "Object", "Place", "0x7f"] {
        assert!(!text.contains(word), "`{word}` in: {text}");
    }
}

/// Checks that the chips are those before and after the last cut, and after the recovery.
fn assert_chips(story: &Story) {
    let Chips { before, cut: after, recovered } = story.chips.as_ref().unwrap();
    let cut = story.cuts.last().unwrap();
    let event = cut.events.iter().find(|event| event.fate == Fate::Cut).unwrap();
    assert_eq!(before.next_event(), event.number);
    assert_eq!(after.next_event(), event.number + 1);
    assert!(recovered.next_event() >= after.next_event());
}

#[test]
fn both_cuts_of_a_recovery_are_told() {
    let (target, options) = (UbiTarget::new(Shape::Mini), Options::workload(1, None));
    // The programs of copy 0 of the table, while the first volume is created.
    let id = (210..230).map(|event| format!("ubi/mini/1@{event}.P5r1").parse().unwrap());
    let ids = id.filter(|id: &StateId| explain(&target, id, &options).is_ok());
    let mut told = 0;
    for first in ids {
        let next = first.cuts[0].0 + 1;
        let second = first.then(next, "P3".parse().unwrap());
        let Ok(explained) = explain(&target, &second, &options) else {
            continue;
        };
        assert!(explained.violation.is_none());
        let story = explained.story;
        assert_eq!(story.cuts.len(), 2);
        assert_eq!(story.cuts[0].looks.len(), 2, "the recovery that was cut, uncut");
        assert!(story.cuts[1].looks[0].by.contains("first"));
        assert_eq!(story.cuts[1].events[0].number, next, "of the recovery alone");
        assert_chips(&story);
        told += 1;
    }
    assert!(told > 4, "{told}");
}

/// Returns the story of the first state that a sequence has.
fn tell(target: &dyn Target, plan: Plan) -> Story {
    let id = StateId::new(target.name(), plan);
    let options = Options::of(vec![plan]);
    let whole = explain(target, &id, &options).unwrap();
    assert!(whole.violation.is_none() && whole.story.cuts.is_empty());
    let cut = |event: u64| id.then(event, "P3".parse().unwrap());
    let mut stories = (0..2000).filter_map(|event| explain(target, &cut(event), &options).ok());
    let explained = stories.next().unwrap();
    assert!(explained.violation.is_none());
    explained.story
}

#[test]
fn states_of_jffs2_are_told() {
    for chip in ["nand", "nor"] {
        let story = tell(&Jffs2Stack::find(chip).unwrap(), Plan::Single(4));
        let text = text(&story);
        assert_is_prose(&text);
        assert!(text.contains("the root: a directory, mode 0755"), "{text}");
        assert!(chip == "nor" || text.contains("of its nodes begin"), "{text}");
        assert_chips(&story);
    }
}

#[test]
fn states_of_yaffs2_are_told() {
    for chip in ["nand", "inband"] {
        let story = tell(&Yaffs2Stack::find(chip).unwrap(), Plan::Single(4));
        let text = text(&story);
        assert_is_prose(&text);
        for part in ["the root: a directory, mode 0755", "the header of object 1 in 0, sequence"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_chips(&story);
    }
}

#[test]
fn states_of_ubifs_are_told() {
    let story = tell(&ubifs(Shape::Mini), Plan::Single(4));
    let text = text(&story);
    assert_is_prose(&text);
    for part in [
        "page reads and",
        "flash events while mounting",
        "the root: a directory, mode 0755",
        "of its nodes begin",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_chips(&story);
}

/// A sequence that only some operations are left of has their stories, and so has a workload that
/// was not cut.
#[test]
fn kept_operations_are_told() {
    let target = UbiTarget::new(Shape::Mini);
    let options = Options::workload(1, None);
    let id: StateId = "ubi/mini/1:1,3".parse().unwrap();
    let explained = explain(&target, &id, &options).unwrap();
    let whole: StateId = "ubi/mini/1:1-3".parse().unwrap();
    let whole = explain(&target, &whole, &options).unwrap();
    assert!(explained.violation.is_none() && whole.violation.is_none());
    let [first, second, third] = &whole.story.operations[..] else {
        panic!("{:?}", whole.story.operations)
    };
    assert_eq!(&explained.story.operations, &[first.clone(), third.clone()]);
    assert!(second.starts_with("operation 2: "), "{second}");
    // Nothing can happen to a volume that was not created.
    let none = explain(&target, &"ubi/mini/1:3".parse().unwrap(), &options).unwrap();
    assert!(none.story.operations.len() < 2, "{:?}", none.story.operations);
    assert!(explain(&target, &"ubi/mini/1".parse().unwrap(), &options).is_err());
}
