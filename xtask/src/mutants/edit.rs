//! Mutants as insertions into a text, all of them at once; line numbers stay.

use std::collections::BTreeSet;
use std::ops::Range;

/// The call that decides whether a mutant is active, up to its number.
const SWITCH: &str = "::eraseblock_base::mutant::active(";

/// What a mutant inserts around a part of the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Edit {
    /// The part; empty to insert at one place.
    pub(super) range: Range<usize>,
    /// The text before the switch.
    pub(super) before: &'static str,
    /// The text between the switch and the part.
    pub(super) between: String,
    /// The text after the part.
    pub(super) after: &'static str,
}

impl Edit {
    /// Evaluates another expression instead of this one.
    pub(super) fn instead(range: Range<usize>, other: &str) -> Self {
        Self { range, before: "(if ", between: format!(" {{ {other} }} else {{ "), after: " })" }
    }

    /// Leaves a statement out.
    pub(super) fn without(range: Range<usize>) -> Self {
        Self { range, before: "if !", between: " { ".to_owned(), after: " }" }
    }

    /// Returns this value at the beginning of a function.
    pub(super) fn returned(at: usize, value: &str) -> Self {
        let between = format!(" {{ return {value}; }} ");
        Self { range: at..at, before: " if ", between, after: "" }
    }

    /// Continues a condition or a pattern, which then never holds.
    pub(super) fn never(at: usize, joint: &'static str) -> Self {
        Self { range: at..at, before: joint, between: " ".to_owned(), after: "" }
    }
}

/// Where a mutant lies in the written text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) number: usize,
    /// From the beginning of the first insertion to the end of the last one.
    pub(super) whole: Range<usize>,
    /// Insertions.
    pub(super) inserted: [Range<usize>; 2],
}

/// An insertion into the source, in the order of [`sorted`].
struct Insertion {
    at: usize,
    /// Ends of parts come first, then insertions at one place, then beginnings of parts.
    kind: u8,
    /// Of beginnings, the longer part comes first; of ends, the shorter one. Of equal parts, the
    /// first mutant is outside.
    nesting: (i64, i64),
    text: String,
    mutant: usize,
    half: usize,
}

/// Plants the mutants of these numbers in a text; `edits` begin with the number `first`.
pub(super) fn plant(
    text: &str,
    edits: &[&Edit],
    first: usize,
    left_out: &BTreeSet<usize>,
) -> (String, Vec<Written>) {
    let planted =
        edits.iter().enumerate().filter(|(index, _)| !left_out.contains(&(first + index)));
    let mut out = String::with_capacity(text.len() * 3);
    let mut written: Vec<Option<Written>> = vec![None; edits.len()];
    let mut at = 0;
    for insertion in sorted(planted.map(|(index, edit)| (index, *edit)), first) {
        out.push_str(&text[at..insertion.at]);
        at = insertion.at;
        let begin = out.len();
        out.push_str(&insertion.text);
        let place = begin..out.len();
        let number = first + insertion.mutant;
        let entry = written[insertion.mutant].get_or_insert_with(|| Written {
            number,
            whole: place.clone(),
            inserted: [place.clone(), place.clone()],
        });
        entry.whole.end = place.end;
        entry.inserted[insertion.half] = place;
    }
    out.push_str(&text[at..]);
    (out, written.into_iter().flatten().collect())
}

fn sorted<'a>(edits: impl Iterator<Item = (usize, &'a Edit)>, first: usize) -> Vec<Insertion> {
    let mut insertions = Vec::new();
    for (mutant, edit) in edits {
        let Range { start, end } = edit.range;
        let length = i64::try_from(end - start).unwrap_or(i64::MAX);
        let order = i64::try_from(mutant).unwrap_or(i64::MAX);
        let text = format!("{}{SWITCH}{}){}", edit.before, first + mutant, edit.between);
        let kind = if start == end { 1 } else { 2 };
        let nesting = (-length, order);
        insertions.push(Insertion { at: start, kind, nesting, text, mutant, half: 0 });
        if !edit.after.is_empty() {
            let (text, nesting) = (edit.after.to_owned(), (length, -order));
            insertions.push(Insertion { at: end, kind: 0, nesting, text, mutant, half: 1 });
        }
    }
    insertions.sort_by_key(|it| (it.at, it.kind, it.nesting));
    insertions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_nest_as_their_parts_do() {
        let text = "x == y + 1";
        let edits = [
            Edit::instead(0..10, "x != y + 1"),
            Edit::instead(5..10, "y - 1"),
            Edit::instead(9..10, "2"),
        ];
        let (out, written) = plant(text, &edits.each_ref(), 7, &BTreeSet::new());
        let on = |number| format!("::eraseblock_base::mutant::active({number})");
        let wanted = format!(
            "(if {} {{ x != y + 1 }} else {{ x == (if {} {{ y - 1 }} else {{ y + (if {} {{ 2 }} \
             else {{ 1 }}) }}) }})",
            on(7),
            on(8),
            on(9)
        );
        assert_eq!(out, wanted);
        assert_eq!(written[1].number, 8);
        assert!(
            out[written[1].whole.clone()].starts_with("(if ::eraseblock_base::mutant::active(8)")
        );
        let (out, written) = plant(text, &edits.each_ref(), 7, &BTreeSet::from([7, 9]));
        assert_eq!(out, format!("x == (if {} {{ y - 1 }} else {{ y + 1 }})", on(8)));
        assert_eq!(written.len(), 1);
    }

    #[test]
    fn equal_parts_nest_in_the_order_of_their_mutants() {
        let edits = [Edit::instead(0..1, "true"), Edit::instead(0..1, "false")];
        let (out, _) = plant("a", &edits.each_ref(), 0, &BTreeSet::new());
        let (outer, inner) = (out.find("active(0)").unwrap(), out.find("active(1)").unwrap());
        assert!(outer < inner && out.ends_with("a }) })"), "{out}");
    }
}
