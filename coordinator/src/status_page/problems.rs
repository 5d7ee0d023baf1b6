//! What is wrong, at the top of the page.

use std::fmt::Write;

use serde_json::Value;

use super::format::{escape_html, moment};
use super::{Tone, badge};

/// Returns the list of problems, worst first; nothing if there are none.
pub fn section(problems: &[Value]) -> String {
    let mut text = String::new();
    if problems.is_empty() {
        return text;
    }
    text.push_str("<section class=\"problems\"><h2>Problems</h2>\n<ul>\n");
    for problem in problems {
        let word = |name: &str| problem[name].as_str().unwrap_or("–");
        let tone = Tone::of_problem(problem);
        // Writing to a String can't fail.
        let _ = writeln!(
            text,
            "<li class=\"{}\">{} {} <span class=\"quiet\">since {}</span><br><span class=\"next\">{}</span></li>",
            tone.class(),
            badge(word("severity"), tone),
            escape_html(word("what")),
            moment(word("since")),
            escape_html(word("next_step")),
        );
    }
    text.push_str("</ul></section>\n");
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_is_told_with_its_date_and_next_step_and_can_hold_no_markup() {
        assert_eq!(section(&[]), "");
        let problem = json!({ "severity": "critical", "what": "<b>", "since": "2026-11-26T18:40:11Z", "next_step": "start it" });
        let shown = section(&[problem]);
        for part in ["class=\"bad\"", "&lt;b&gt;", "since 2026-11-26 18:40:11 UTC", "start it"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("<b>"));
    }
}
