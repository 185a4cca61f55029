//! The counts of a step, taken from its log; an error says why the step has failed all the same.

/// The counts, or what is wrong with the log.
pub(super) type Counts = Result<String, &'static str>;

/// The error of a step that should count and does not.
const NO_COUNT: &str = "reported no count";

/// For steps without counts.
#[allow(clippy::unnecessary_wraps)] // the same form as the others
pub(super) fn nothing(_log: &str) -> Counts {
    Ok(String::new())
}

/// For the build, in which clippy takes part: it may not warn of anything.
pub(super) fn warnings(log: &str) -> Counts {
    let warns = |line: &str| line.starts_with("warning: ");
    if log.lines().any(warns) { Err("has warnings") } else { Ok("no warnings".to_owned()) }
}

/// Returns the number of all tests that Rust's test runners report.
pub(super) fn of_cargo(log: &str) -> Counts {
    let (mut runners, mut passed, mut failed) = (0, 0, 0);
    for line in log.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        runners += 1;
        passed += before(line, " passed").ok_or(NO_COUNT)?;
        failed += before(line, " failed").ok_or(NO_COUNT)?;
    }
    let text = || format!("{passed} passed, {failed} failed, in {runners} runners");
    (passed > 0).then(text).ok_or(NO_COUNT)
}

/// Returns the last line that states how many passed, or that everything was left out and why.
pub(super) fn last_line(log: &str) -> Counts {
    let is_count = |line: &&str| before(line, " passed, ").is_some_and(|passed| passed > 0);
    let is_left_out = |line: &&str| line.contains("left out: ");
    let lines = || log.lines().rev();
    let found = lines().find(is_count).or_else(|| lines().find(is_left_out));
    found.map(str::to_owned).ok_or(NO_COUNT)
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
        assert_eq!(of_cargo(log).as_deref(), Ok("12 passed, 1 failed, in 2 runners"));
        assert_eq!(of_cargo("test result: ok. 0 passed; 0 failed;\n"), Err(NO_COUNT));
    }

    #[test]
    fn a_warning_is_no_count() {
        assert_eq!(warnings("").as_deref(), Ok("no warnings"));
        let log = "warning: unused variable: `a`\n --> src/lib.rs:1:1\n";
        assert_eq!(warnings(log), Err("has warnings"));
    }

    #[test]
    fn the_last_count_is_found() {
        let log = "pass  1 passed, 0 failed\n104233 states; 22 passed, 1 failed\nunit  remark\n";
        assert_eq!(last_line(log).as_deref(), Ok("104233 states; 22 passed, 1 failed"));
        assert_eq!(last_line("0 passed, 0 failed\n"), Err(NO_COUNT));
        let accepted = "9 checks left out: ERASEBLOCK_NO_ORACLE=1\n0 passed, 0 failed\n";
        assert_eq!(last_line(accepted).as_deref().ok(), accepted.lines().next());
    }
}
