//! The page with the tables, `docs/evaluation.md`, and its picture.

use super::rows::{Row, counts, tables, to_markdown};
use super::{nand, report, words};
use std::fmt::Write as _;

/// The page, below the repository.
pub(super) const PATH: &str = "docs/evaluation.md";
/// The picture, below the repository.
pub(super) const PICTURE: &str = "docs/evaluation.svg";
/// The table that it shows.
const PICTURED: &str = "T5";

const HEAD: &str = "\
# Published tables, measured again

`make evaluate` measures everything in the tables of this page and writes it, and the report `target/evaluate/index.html`
with a picture for each table: `cargo xtask evaluate --write`, built with the feature `heap`, which counts
allocated bytes. What the guests measured is kept, and measured again when something that went into it changes: the
kernel, a program, a script or a parameter. `--fresh` measures everything again, `--quick` leaves out the larger
partitions in Linux, and `--no-guest` does without Linux. `cargo xtask evaluate nand` and `cargo xtask evaluate card` select
a part; `evaluate nand --table BL1,T4` chooses tables. `cargo xtask evaluate cuts` cuts the power of block file systems, and
`evaluate cuts --replay ID` judges one state again. `evaluate nand` and `evaluate cuts` with `--write` renew their tables on
this page, and leave the others alone.

![Random bytes that fit, by the size of the files: published, Linux and ours](evaluation.svg)

The published numbers are those of four texts and of measurements of cards:

- **001**: M. Opdenacker, \"Update on filesystems for flash storage\", ELCE 2008 (tables BL1 to BL10). Its
  charts are lost: the text has their titles, notes and conclusions, and few numbers. Nothing is read off
  a chart; what the text states in words is judged by a rule on the measured values.
- **002**: N. Brown, \"JFFS2, UBIFS, and the growth of flash storage\", LWN, December 2012 (tables L1 to L3).
- **003**: K. Uwatoko, \"Evaluation of UBI and UBIFS\", Toshiba, 2009 (tables T1 to T10).
- **004**: Fujitsu, July 2014 (F3 and F4, power cuts; F5, the mount time by the number of files: 512 bytes each, a thousand
  in a directory; its chart is lost, too).
- Table C2: the measurements of wirenboard/sdcard_benchmark, and the manual of flashbench 62.

`001:78` is line 78 of text 001; the words in quotes are on that line.

| column | content |
|---|---|
| published | the number of the text, \"no number in the text\", or words of a claim |
| Linux | Debian's kernel 6.1 in QEMU, on its own NAND simulator with the same geometry; \"not run\" where it was not measured |
| ours | this repository, in one process, on simulated chips and cards |
| verdict | computed from \"ours\", in the tables L from \"Linux\": holds, holds no longer, or not comparable; in parentheses what the value is worth |

*exact* values are counts, bytes and formulas. *model* values are exact counts multiplied by the times of the
chip's data sheet, or of the simulated card; processor time is not in them. Of *order* values only order and ratio mean something.

How it was measured:

";

const NOTES: &str = "\
- The tree stands for the root file system of the published runs, which is lost: seeded files of 256 bytes to
  256 KiB, most of them like machine code, one in four a text, one in twenty incompressible. Whether a tree
  fits, and how much, depends on the tree.
- A partition of n MiB gets files of 85 % of n MiB: 1, 4 and 15 directories with the same names and sizes and
  different bytes. The same files serve the write experiment.
- Every file system is mounted as by default, if nothing else is said. JFFS2 and YAFFS2 lie on the partition,
  the others on a UBI volume over all of it. UBI reserves blocks for bad ones as in 2008 (1 %, at least 2), except
  in rows that say otherwise. The mount of a file system on UBI includes the attach.
- The files are read right after the mount, so all caches are cold. They are removed after that in the same mount.
  Steps that write include a final sync.
- SquashFS images come from `mksquashfs` with its default compressor and block size.
- Memory (BL2) is what the mount requests from the allocator of this process and keeps: it cannot be compared
  with the free memory of a kernel, only among the rows.
- Tables of processor time (BL4, BL6) are not repeated: in process it is that of this machine.
- T2: one read of out-of-band bytes for each block of the chip, as published, on our chip. Linux 6.1 reads two.
- T3, T1: the pages of the volume table are the same for all sizes and are not counted as headers, in both columns.
- T1: what the board adds to each operation follows from the bad-block scan (T2) alone; the time that a block adds to the
  attach is then predicted, and holds within 20 %.

The Linux column:

- Linux counts calls of its functions that read a page, program a page and erase a block (kprobes) until the command
  returns. Its threads erase and collect garbage in the background, so its erases are those done so far. Time is not
  measured: the guest is emulated.
- It is one run. Background work makes its counts vary; ours are the same in every run.
- yaffs2 is not part of Linux. Memory (BL2) was not measured there.
- BL8: the images of the Linux column are those of mkfs.ubifs. F5: a guest makes 4,000 files, not 70,000.
- Partitions get the same tree, unpacked by tar, which also sets times and owners.
- R1: each recording in `recordings` is repeated on a partition of 8 MiB, and everything removed after each time; in Linux by
  `eraseblock lab replay-ops --in`. What names and sizes were there at the end is shown as a hash, which must be the same
  on both sides.
- The layouts of T4, T6 and T7 and what UBI takes (BL9) must be the same on both sides: the command fails if they
  are not. What fits (T5, BL9) may differ.
";

/// Returns the page.
pub(super) fn page(rows: &[Row]) -> String {
    let [large, small] = nand::media();
    let mut text = HEAD.to_owned();
    let _ = writeln!(text, "- Tables BL: {large}.");
    let _ = writeln!(text, "- Tables T: a chip of {small}; partition of 32 MiB.");
    text.push_str(NOTES);
    let _ = write!(text, "\n{}\n", sum(counts(rows)));
    for table in tables(rows) {
        text.push_str(&section(rows, table));
    }
    text
}

fn sum([holds, no_longer, open]: [usize; 3]) -> String {
    format!(
        "Of the published numbers and claims, {holds} hold, {no_longer} hold no longer, {open} are not \
         comparable."
    )
}

/// Returns a table with its title.
fn section(rows: &[Row], table: &str) -> String {
    let words = words(table);
    let note = if words.note.is_empty() { String::new() } else { format!("{}\n\n", words.note) };
    let table_of = to_markdown(rows, table);
    format!("\n## {table}: {}\n\n{note}{}\n", words.title, table_of.trim_end())
}

/// Returns the page with the tables of these rows in place of its own; new ones come last. The sum is counted
/// again.
pub(super) fn updated(page: &str, rows: &[Row]) -> String {
    let mut parts: Vec<String> = page.split("\n## ").map(str::to_owned).collect();
    for table in tables(rows) {
        let part = section(rows, table).trim_start_matches("\n## ").to_owned();
        let start = format!("{table}: ");
        match parts.iter_mut().find(|known| known.starts_with(&start)) {
            Some(known) => *known = part,
            None => parts.push(part),
        }
    }
    let counted = sum(verdicts(&parts));
    if let Some(head) = parts.first_mut() {
        let lines = head.lines().map(|line| {
            if line.starts_with("Of the published numbers") { counted.as_str() } else { line }
        });
        *head = lines.collect::<Vec<_>>().join("\n") + "\n";
    }
    parts.join("\n## ")
}

/// Counts the verdicts in tables: the column before the last.
fn verdicts(parts: &[String]) -> [usize; 3] {
    let mut counts = [0; 3];
    for line in parts.iter().skip(1).flat_map(|part| part.lines()) {
        let Some(verdict) = line.rsplit(" | ").nth(1) else { continue };
        let words = ["holds (", "holds no longer (", "not comparable ("];
        if let Some(found) = words.iter().position(|words| verdict.starts_with(words)) {
            counts[found] += 1;
        }
    }
    counts
}

/// Returns the picture of the page.
pub(super) fn picture(rows: &[Row]) -> Option<String> {
    report::picture(rows, PICTURED, "Random bytes that fit 32 MiB, by the size of the files")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::repository;
    use crate::evaluate::rows::{Cell, Fidelity, Verdict};

    #[test]
    fn a_table_is_renewed_in_its_place_and_the_sum_counted() {
        let row = |table, ours: u64| {
            Row::new(table, "claim: something", "", "")
                .published(Cell::text("true"), "001:1 \"true\"")
                .ours(ours, Fidelity::Exact)
                .judged(Verdict::Holds)
        };
        let whole = [row("T4", 1), row("F3", 2)];
        let before = page(&whole);
        assert_eq!(updated(&before, &whole), before);
        let after = updated(&before, &[row("T4", 7), row("F4", 3)]);
        assert_eq!(after, page(&[row("T4", 7), row("F3", 2), row("F4", 3)]));
        assert!(after.contains("3 hold, 0 hold no longer, 0 are not comparable"), "{after}");
    }

    #[test]
    fn the_sum_of_the_page_is_that_of_its_tables() {
        let page = std::fs::read_to_string(repository().join(PATH)).unwrap();
        assert_eq!(updated(&page, &[]), page);
    }
}
