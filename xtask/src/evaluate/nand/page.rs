//! The page with the tables, `docs/evaluation.md`.

use super::rows::{Row, Verdict, tables, to_markdown};
use super::{bootlin, title, toshiba};
use std::fmt::Write as _;

/// The page, below the repository.
pub(super) const PATH: &str = "docs/evaluation.md";

const HEAD: &str = "\
# Published tables of raw NAND, measured again

`make evaluate` measures everything in the tables of this page and writes it: `cargo xtask evaluate nand --linux
--write` in the release build, with the feature `heap`, which counts allocated bytes. Without `--linux` it needs no
guest and less than a minute. `--linux-from FILE` takes the Linux column from the `results.json` of an earlier run,
and `--table BL1,T4` chooses tables.

The published numbers are those of three texts:

- **001**: M. Opdenacker, \"Update on filesystems for flash storage\", ELCE 2008 (tables BL1 to BL10). Its
  charts are lost: the text has their titles, notes and conclusions, and few numbers. Nothing is read off
  a chart; what the text states in words is judged by a rule on the measured values.
- **003**: K. Uwatoko, \"Evaluation of UBI and UBIFS\", Toshiba, 2009 (tables T1 to T10).
- **004**: Fujitsu, July 2014 (only F5, the mount time by the number of files: 512 bytes each, a thousand in a directory;
  its chart is lost, too).

`001:78` is line 78 of text 001; the words in quotes are on that line.

| column | content |
|---|---|
| published | the number of the text, \"no number in the text\", or words of a claim |
| Linux | Debian's kernel 6.1 in QEMU, on its own NAND simulator with the same geometry; \"not run\" where it was not measured |
| ours | this repository, in one process, on simulated chips |
| verdict | computed from \"ours\": holds, holds no longer, or not comparable; in parentheses what the value is worth |

*exact* values are counts, bytes and formulas. *model* values are exact counts multiplied by the times of the
chip's data sheet; processor time is not in them. Of *order* values only order and ratio mean something.

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
- yaffs2 is not part of Linux. Random chunks (BL7) and memory (BL2) were not measured there.
- Partitions get the same tree, unpacked by tar, which also sets times and owners.
- The layouts of T4, T6 and T7 and what UBI takes (BL9) must be the same on both sides: the command fails if they
  are not. What fits (T5, BL9) may differ.
";

/// Returns the page.
pub(super) fn page(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    let _ = writeln!(text, "- Tables BL: {}.", bootlin::medium());
    let _ = writeln!(text, "- Tables T: a chip of {}; partition of 32 MiB.", toshiba::medium());
    text.push_str(NOTES);
    let count = |wanted| rows.iter().filter(|row| row.verdict == wanted).count();
    let _ = writeln!(
        text,
        "\nOf the published numbers and claims, {} hold, {} hold no longer, {} are not comparable.",
        count(Verdict::Holds),
        count(Verdict::HoldsNoLonger),
        count(Verdict::NotComparable)
    );
    for table in tables(rows) {
        let _ = writeln!(
            text,
            "\n## {table}: {}\n\n{}",
            title(table),
            to_markdown(rows, table).trim_end()
        );
    }
    text
}
