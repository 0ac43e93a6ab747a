//! How many tests passed and failed, read from the output of each kind of test runner.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// Reads `cargo test`: the lines `test result: ok. 3 passed; 0 failed; …`.
    pub fn of_cargo(output: &str) -> Tally {
        let results = || output.lines().filter(|line| line.starts_with("test result: "));
        Tally {
            passed: results().filter_map(|line| number_before(line, " passed;")).sum(),
            failed: results().filter_map(|line| number_before(line, " failed;")).sum(),
        }
    }

    /// Reads pytest's report in JUnit's form.
    pub fn of_junit(report: &str) -> Tally {
        let suites: Vec<&str> = report
            .split("<testsuite ")
            .skip(1)
            .filter_map(|suite| suite.split('>').next())
            .collect();
        let sum = |name: &str| -> usize { suites.iter().filter_map(|suite| attribute(suite, name)).sum() };
        let failed = sum("failures") + sum("errors");
        Tally {
            passed: sum("tests").saturating_sub(failed + sum("skipped")),
            failed,
        }
    }

    /// Reads Node's runner: the lines `# pass 3`, `# fail 0`, `# cancelled 0`.
    pub fn of_node(output: &str) -> Tally {
        let sum = |name: &str| -> usize { output.lines().filter_map(|line| number_after(line, name)).sum() };
        Tally {
            passed: sum("# pass "),
            failed: sum("# fail ") + sum("# cancelled "),
        }
    }

    /// Reads JUnit's console: the lines `[  3 tests successful ]` and `[  0 tests failed ]`.
    pub fn of_java(output: &str) -> Tally {
        let sum = |end: &str| -> usize {
            let lines = output.lines().filter(|line| line.starts_with('['));
            lines.filter_map(|line| number_before(line, end)).sum()
        };
        Tally {
            passed: sum(" tests successful"),
            failed: sum(" tests failed"),
        }
    }

    /// Reads a last line `3 passed` or `2 passed, 1 failed`.
    pub fn of_plain(output: &str) -> Tally {
        let lines = || {
            output
                .lines()
                .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        };
        Tally {
            passed: lines().filter_map(|line| number_before(line, " passed")).sum(),
            failed: lines().filter_map(|line| number_before(line, " failed")).sum(),
        }
    }

    /// Reads `go test -json`: the last event of each test that has no subtests.
    pub fn of_go(events: &str) -> Tally {
        let mut outcomes = BTreeMap::new();
        let mut parents = BTreeSet::new();
        for event in events
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        {
            let (Some(test), Some(action)) = (event["Test"].as_str(), event["Action"].as_str()) else {
                continue;
            };
            parents.extend(test.match_indices('/').map(|(end, _)| test[..end].to_owned()));
            if matches!(action, "pass" | "fail") {
                outcomes.insert(test.to_owned(), action.to_owned());
            }
        }
        let count = |action: &str| {
            let leaves = outcomes.iter().filter(|(test, _)| !parents.contains(*test));
            leaves.filter(|(_, outcome)| *outcome == action).count()
        };
        Tally {
            passed: count("pass"),
            failed: count("fail"),
        }
    }
}

/// The number that ends where `end` starts.
pub fn number_before(line: &str, end: &str) -> Option<usize> {
    let before = &line[..line.find(end)?];
    let digits = before.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    before[digits..].parse().ok()
}

/// The number that follows `start` at the start of the line.
pub fn number_after(line: &str, start: &str) -> Option<usize> {
    let value = line.strip_prefix(start)?;
    let end = value
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(value.len());
    value[..end].parse().ok()
}

/// The number of `NAME="3"` among attributes.
fn attribute(attributes: &str, name: &str) -> Option<usize> {
    let start = format!(" {name}=\"");
    let attributes = format!(" {attributes}");
    let value = &attributes[attributes.find(&start)? + start.len()..];
    value.split('"').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tally: Tally, passed: usize, failed: usize) {
        assert_eq!(tally, Tally { passed, failed });
    }

    #[test]
    fn results_of_all_programs_are_added() {
        let output = "test a ... ok\ntest result: ok. 12 passed; 0 failed; 1 ignored\n\
                      test result: FAILED. 3 passed; 2 failed; 0 ignored\n";
        check(Tally::of_cargo(output), 15, 2);
        check(Tally::of_node("# tests 4\n# pass 3\n# fail 1\n# cancelled 2\n"), 3, 3);
        check(
            Tally::of_java("[         7 tests successful      ]\n[         1 tests failed          ]\n"),
            7,
            1,
        );
        check(Tally::of_plain("ran\n5 passed, 2 failed\n"), 5, 2);
        check(Tally::of_plain("ran\n5 passed\n"), 5, 0);
    }

    #[test]
    fn errors_are_failures_and_skipped_tests_are_neither() {
        let report =
            r#"<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10"><testcase/>"#;
        check(Tally::of_junit(report), 4, 3);
        check(Tally::of_junit(""), 0, 0);
    }

    #[test]
    fn a_test_of_go_with_subtests_is_not_counted_beside_them() {
        let events = r#"{"Action":"pass","Test":"A/one"}
{"Action":"fail","Test":"A/two"}
{"Action":"fail","Test":"A"}
not an event
{"Action":"pass","Test":"B"}
{"Action":"pass"}"#;
        check(Tally::of_go(events), 2, 1);
    }
}
