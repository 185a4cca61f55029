//! The counts of a step, taken from its log. `None` if a required count is missing.

/// For steps without counts.
#[allow(clippy::unnecessary_wraps)] // the same form as the others
pub(super) fn nothing(_log: &str) -> Option<String> {
    Some(String::new())
}

/// Returns the number of all tests that Rust's test runners report.
pub(super) fn of_cargo(log: &str) -> Option<String> {
    let (mut runners, mut passed, mut failed) = (0, 0, 0);
    for line in log.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        runners += 1;
        passed += before(line, " passed")?;
        failed += before(line, " failed")?;
    }
    (passed > 0).then(|| format!("{passed} passed, {failed} failed, in {runners} runners"))
}

/// Returns the last line that states how many passed, or that everything was left out and why.
pub(super) fn last_line(log: &str) -> Option<String> {
    let is_count = |line: &&str| before(line, " passed, ").is_some_and(|passed| passed > 0);
    let is_left_out = |line: &&str| line.contains("left out: ");
    let lines = || log.lines().rev();
    lines().find(is_count).or_else(|| lines().find(is_left_out)).map(str::to_owned)
}

/// Returns the number before these words.
fn before(line: &str, words: &str) -> Option<u64> {
    let start = &line[..line.find(words)?];
    start.rsplit(|other: char| !other.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_are_added_up() {
        let log = "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored; finished\n\
                   test result: FAILED. 10 passed; 1 failed; 0 ignored; 0 measured\n";
        assert_eq!(of_cargo(log).as_deref(), Some("12 passed, 1 failed, in 2 runners"));
        assert_eq!(of_cargo("test result: ok. 0 passed; 0 failed;\n"), None);
    }

    #[test]
    fn the_last_count_is_found() {
        let log = "pass  1 passed, 0 failed\n104233 states; 22 passed, 1 failed\nunit  remark\n";
        assert_eq!(last_line(log).as_deref(), Some("104233 states; 22 passed, 1 failed"));
        assert_eq!(last_line("0 passed, 0 failed\n"), None);
        let accepted = "9 checks left out: ERASEBLOCK_NO_ORACLE=1\n0 passed, 0 failed\n";
        assert_eq!(last_line(accepted).as_deref(), accepted.lines().next());
    }
}
