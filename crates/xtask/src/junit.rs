//! Counts from the report that nextest writes: tests, failures, and what tests say that they could not do here.

/// What a run came to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Each with its reason, in the words of the test.
    pub(crate) skipped: Vec<String>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
    }
}

/// The mark of a test that could not do its work here, at the start of a line of its output.
const SKIP: &str = "skipped: ";

/// Reads the report.
pub(crate) fn counts(report: &str) -> Counts {
    let mut counts = Counts::default();
    for case in report.split("<testcase ").skip(1) {
        let skipped = skip_line(case);
        let failed = case.contains("<failure") || case.contains("<error");
        match (failed, skipped) {
            (true, _) => counts.failed += 1,
            (false, Some(reason)) => counts.skipped.push(format!("{}: {reason}", attribute(case, "name"))),
            (false, None) => counts.passed += 1,
        }
    }
    counts
}

/// Reads what `cargo test` prints with `--show-output`.
pub(crate) fn counts_of_cargo_test(output: &str) -> Counts {
    let mut counts = Counts::default();
    for line in output.lines().filter_map(|line| line.trim().strip_prefix("test result: ")) {
        counts.passed += number_before(line, " passed");
        counts.failed += number_before(line, " failed");
    }
    counts.skipped = output.lines().filter_map(skip_line).map(str::to_owned).collect();
    counts.passed = counts.passed.saturating_sub(counts.skipped.len());
    counts
}

/// The test harness may have begun the line with the name of the test.
fn skip_line(case: &str) -> Option<&str> {
    case.lines().find_map(|line| {
        let (before, reason) = line.split_once(SKIP)?;
        let begins = ["...", "<system-out>", "<system-err>"].iter().any(|end| before.trim_end().ends_with(end));
        (begins || before.trim().is_empty()).then(|| reason.split("</system").next().unwrap_or(reason))
    })
}

fn attribute<'a>(case: &'a str, name: &str) -> &'a str {
    let after = case.split_once(&format!("{name}=\"")).map_or("", |(_, rest)| rest);
    after.split('"').next().unwrap_or_default()
}

fn number_before(line: &str, word: &str) -> usize {
    let before = line.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_counted_with_the_reasons_of_what_was_skipped() {
        let report = "<testsuites>\n<testcase name=\"a\" time=\"1\"></testcase>\n<testcase name=\"b\"><failure/></testcase>\n\
            <testcase name=\"c\">\n<system-out>running\nskipped: no strace here\n</system-out></testcase>\
            <testcase name=\"d\"><system-out>test d ... skipped: no npm</system-out></testcase>\
            <testcase name=\"e\"><system-out>nothing was skipped: all ran</system-out></testcase>";
        let counts = counts(report);
        assert_eq!((counts.passed, counts.failed), (2, 1));
        assert_eq!(counts.skipped, ["c: no strace here", "d: no npm"]);
    }

    #[test]
    fn lines_of_cargo_test_are_summed() {
        let output =
            "test result: ok. 3 passed; 0 failed; 1 ignored\nskipped: no npm\ntest result: FAILED. 1 passed; 2 failed;";
        let counts = counts_of_cargo_test(output);
        assert_eq!((counts.passed, counts.failed, counts.skipped.len()), (3, 2, 1));
    }
}
