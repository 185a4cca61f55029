//! Counts of activities of a mounted file system that not every sequence of operations causes
//! (layer 1).

/// Counts of activities since the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Activity {
    /// Commits.
    pub commits: u64,
    /// Journal heads that moved to another LEB.
    pub buds: u64,
    /// Rounds of the log back to its first LEB.
    pub log_wraps: u64,
    /// Collected LEBs with leaves.
    pub leaf_lebs_collected: u64,
    /// Collected LEBs of the index.
    pub index_lebs_collected: u64,
    /// LEBs of the LPT that became free because all their nodes were dead.
    pub lpt_lebs_freed: u64,
    /// Index LEBs whose gaps were filled.
    pub gaps_filled: u64,
    /// Orphans written to flash.
    pub orphans_written: u64,
    /// Rounds of the master area back to the start of its LEBs.
    pub master_wraps: u64,
    /// Collections that kept a victim in reserve and then ended with a request for a commit.
    pub retained_before_commit: u64,
    /// Collections that kept a victim in reserve and then found no more space.
    pub retained_before_full: u64,
    /// Commits after the size of a file was journalled and before all content up to it was.
    pub commits_within_write_back: u64,
    /// Activities of a big LPT, if the volume has one.
    pub big_lpt: Option<BigLptActivity>,
}

/// Counts of activities of a big LPT since the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BigLptActivity {
    /// LEBs of the LPT whose last nodes were moved.
    pub lebs_collected: u64,
    /// Save tables written.
    pub save_tables: u64,
    /// Save tables that named a LEB, read at a mount.
    pub save_tables_used: u64,
}

impl Activity {
    /// Returns all counts with their names.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        let mut named = vec![
            ("commits", self.commits),
            ("buds", self.buds),
            ("log wraps", self.log_wraps),
            ("leaf LEBs collected", self.leaf_lebs_collected),
            ("index LEBs collected", self.index_lebs_collected),
            ("LPT LEBs freed", self.lpt_lebs_freed),
            ("gaps filled", self.gaps_filled),
            ("orphans written", self.orphans_written),
            ("master wraps", self.master_wraps),
            ("victims kept before a commit", self.retained_before_commit),
            ("victims kept before a full volume", self.retained_before_full),
            ("commits between size and content", self.commits_within_write_back),
        ];
        if let Some(big) = self.big_lpt {
            named.extend([
                ("LPT LEBs collected", big.lebs_collected),
                ("save tables written", big.save_tables),
                ("save tables used", big.save_tables_used),
            ]);
        }
        named
    }
}
