//! What was found, a rule a line.

use serde::Serialize;

/// How a rule came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// What was seen is what the rule says.
    Holds,
    /// What was seen is not.
    Broken,
    /// It could not be asked: the node or the receiver was in trouble.
    NoAnswer,
    /// This way of looking can't tell.
    NotObserved,
}

/// A verdict with what was seen, or why nothing was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn holds(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Holds, text: text.into() }
    }

    pub(crate) fn broken(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Broken, text: text.into() }
    }

    pub(crate) fn no_answer(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::NoAnswer, text: text.into() }
    }

    pub(crate) fn not_observed(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotObserved, text: text.into() }
    }
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    pub(crate) rule: &'static str,
    pub(crate) title: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
}

impl Line {
    pub(crate) fn new((rule, title): (&'static str, &'static str), Finding { verdict, text }: Finding) -> Self {
        Self { rule, title, verdict, text }
    }
}

/// The report as text, and whether everything that was judged holds (and something was).
pub(crate) fn show(lines: &[Line]) -> (String, bool) {
    let count = |verdict| lines.iter().filter(|line| line.verdict == verdict).count();
    let mut text = String::new();
    for line in lines {
        let word = match line.verdict {
            Verdict::Holds => "holds",
            Verdict::Broken => "BROKEN",
            Verdict::NoAnswer => "no answer",
            Verdict::NotObserved => "not observed",
        };
        text.push_str(&format!("{word:<12}  {:<3}  {}: {}\n", line.rule, line.title, line.text));
    }
    let (holds, broken, silent) = (count(Verdict::Holds), count(Verdict::Broken), count(Verdict::NoAnswer));
    text.push_str(&format!("{holds} of {} rules hold", holds + broken));
    if silent > 0 {
        text.push_str(&format!("; {silent} could not be asked"));
    }
    match count(Verdict::NotObserved) {
        0 => {}
        unseen => text.push_str(&format!("; {unseen} not observed")),
    }
    (text, holds > 0 && broken == 0 && silent == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(finding: Finding) -> Line {
        Line::new(("S1", "Identity"), finding)
    }

    #[test]
    fn what_was_not_observed_counts_neither_way_and_nothing_observed_is_no_success() {
        let (text, good) = show(&[line(Finding::holds("x")), line(Finding::not_observed("y"))]);
        assert!(good && text.ends_with("1 of 1 rules hold; 1 not observed"), "{text}");
        let (text, good) = show(&[line(Finding::holds("x")), line(Finding::broken("y"))]);
        assert!(!good && text.ends_with("1 of 2 rules hold") && text.contains("BROKEN        S1   Identity: y"), "{text}");
        assert!(!show(&[line(Finding::holds("x")), line(Finding::no_answer("y"))]).1);
        assert!(!show(&[line(Finding::not_observed("y"))]).1);
    }
}
