//! UBIFS and JFFS2 on one simulated chip, in seconds on the chip, and the bytes that a mount of
//! JFFS2 reads.

use super::{Bench, Row};
use anyhow::{Result, ensure};
use eraseblock_lab::figures::side_by_side::{Cost, Medium, Summaries, mount_bytes, table};

/// Mebibytes of the chip whose mount is measured with and without summaries.
const MOUNTED: u32 = 256;

impl Bench {
    /// Runs both file systems with the same workload on chips of several sizes. The table gives
    /// values relative to UBIFS. Without a peer, the only requirement is that a mount reads exactly
    /// what it must.
    pub(super) fn side_by_side(&mut self) -> Result<()> {
        for summary in [Summaries::Written, Summaries::LeftOut] {
            self.mount_reads(summary)?;
        }
        println!(
            "\n{:30} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "JFFS2, with UBIFS as 1", "write", "mount", "bytes", "memory", "read", "delete"
        );
        let costs = table()?;
        for pair in costs.chunks_exact(2) {
            let [ubifs, jffs2] = pair else { continue };
            println!("{}", beside(ubifs, jffs2));
        }
        println!(
            "\n{:30} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "", "s", "s", "KiB", "KiB", "s", "s"
        );
        for cost in &costs {
            println!("{}", alone(cost));
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)] // sizes for people
    fn mount_reads(&mut self, summaries: Summaries) -> Result<()> {
        let summary = summaries == Summaries::Written;
        let mount = mount_bytes(MOUNTED, summaries)?;
        ensure!((mount.summaries > 0) == summary, "{} summaries", mount.summaries);
        let with = if summary { "with" } else { "without" };
        println!(
            "a mount of {MOUNTED} MiB {with} summaries: {:.3} s on the chip, {} nodes, {} KiB of memory",
            mount.seconds,
            mount.nodes,
            mount.memory >> 10
        );
        let [ours, peer] = [mount.read, mount.demanded].map(|bytes| bytes as f64 / 1_048_576.0);
        self.add(Row {
            what: format!("read by a mount {with} summaries, of demanded"),
            ours,
            peer,
            unit: "MiB",
            ratio: ours / peer,
            wanted: 1.0,
            met: mount.read == mount.demanded,
        });
        Ok(())
    }
}

fn chip(cost: &Cost) -> String {
    let medium = match cost.medium {
        Medium::Nand => "NAND",
        Medium::AgedNand => "NAND in use",
        Medium::Nor => "NOR",
    };
    format!("{} MiB of {medium}", cost.mebibytes)
}

#[allow(clippy::cast_precision_loss)] // sizes for people
fn figures(cost: &Cost) -> [f64; 6] {
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    [cost.write, cost.mount, kib(cost.mount_bytes), kib(cost.memory), cost.read, cost.delete]
}

fn beside(ubifs: &Cost, jffs2: &Cost) -> String {
    let pairs = figures(ubifs).into_iter().zip(figures(jffs2));
    let ratios: Vec<String> = pairs.map(|(one, other)| format!(" {:>9.2}", other / one)).collect();
    format!("{:30}{}", chip(jffs2), ratios.concat())
}

fn alone(cost: &Cost) -> String {
    let figures = figures(cost).map(|figure| format!(" {figure:>9.3}"));
    format!("{:30}{}", format!("{}, {:?}", chip(cost), cost.side), figures.concat())
}
