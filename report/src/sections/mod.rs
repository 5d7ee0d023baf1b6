//! A statement in words: sections of points and tables, which Markdown and HTML render.

mod accounting;
mod arithmetic;
mod definition;
mod facts;

pub use definition::unit;

use crate::figures::Figures;
use crate::statement::Statement;

/// One part of the page.
pub struct Section {
    pub title: &'static str,
    pub blocks: Vec<Block>,
}

/// One item of a section.
pub enum Block {
    Point { label: &'static str, text: String },
    Table { head: Vec<&'static str>, rows: Vec<Vec<String>> },
}

impl Block {
    fn point(label: &'static str, text: impl Into<String>) -> Self {
        Self::Point { label, text: text.into() }
    }
}

/// Returns the sections of the page, in the order of the reporting checklist; the released rows and the identity follow.
pub fn sections(statement: &Statement) -> Vec<Section> {
    let mut sections = vec![
        Section { title: "Guarantee", blocks: guarantee(statement) },
        Section { title: "Setting", blocks: definition::setting(statement) },
        Section { title: "What is protected", blocks: definition::protected(statement) },
        Section { title: "Accounting", blocks: accounting::blocks(statement) },
        Section { title: "Arithmetic", blocks: arithmetic::blocks(statement) },
        Section { title: "Parameters", blocks: facts::parameters(statement) },
    ];
    if let Some(released) = &statement.released {
        sections.push(Section { title: "What was released", blocks: facts::released(statement, released) });
    }
    sections.push(Section { title: "Identity and checks", blocks: facts::identity(statement) });
    sections
}

fn guarantee(statement: &Statement) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(doubt) = statement.job.as_ref().and_then(|job| job.ledger_doubt.as_deref()) {
        let text = format!(
            "The figures below may be too low: rows may have been released that this ledger lacks. {doubt}"
        );
        blocks.push(Block::point("Not to be relied on", text));
    }
    if let Some(sweep) = statement.job.as_ref().and_then(|job| job.sweep.as_ref()) {
        blocks.push(Block::point(
            "Not the ε of what is selected",
            format!(
                "This job is a run of sweep {}. The figures below are of this run alone. What is selected among the runs \
                 costs more, the ε of the sweep's event, which the report on the data set states: `{}`.",
                sweep.sweep, sweep.charge
            ),
        ));
    }
    blocks.push(figures("With all rows of the plan", statement, &statement.figures));
    if let Some(other) = &statement.without_sampling {
        blocks.push(figures("The same without relying on sampling", statement, other));
    }
    if let Some(reason) = &statement.without_sampling_unknown {
        blocks.push(Block::point("The same without relying on sampling", format!("no figure: {reason}.")));
    }
    if let Some(released) =
        statement.released.as_ref().filter(|released| released.reached < statement.iterations)
    {
        blocks.push(figures("If nothing more is released", statement, &released.figures));
    }
    blocks.push(table(statement));
    blocks
}

fn figures(label: &'static str, statement: &Statement, figures: &Figures) -> Block {
    let unit = definition::unit(statement.unit);
    let mut text = String::new();
    if let Some(first) = figures.guarantees.first() {
        let epsilon = number(first.epsilon);
        let delta = power(first.delta);
        text = format!("({epsilon}, {delta})-differentially private for one {unit}");
        if let Some(upper) = first.delta_upper_bound {
            text.push_str(&format!(
                " by Monte Carlo (δ at this ε is below {} on other samples)",
                power(upper)
            ));
        }
    }
    let mu = number(figures.mu);
    let estimated = figures.guarantees.iter().any(|at| at.delta_upper_bound.is_some());
    text.push_str(&match figures.rho {
        Some(rho) => format!("; ρ = {} of zero-concentrated DP, μ = {mu} of Gaussian DP", number(rho)),
        None if estimated => {
            format!("; these ε are estimates, and those of a Gaussian mechanism with μ = {mu}")
        }
        None => format!("; at these δ no worse than a Gaussian mechanism with μ = {mu}"),
    });
    if let Some(power) = figures.true_positive_rate {
        let fpr = 100.0 * figures.false_positive_rate;
        let tpr = 100.0 * power;
        text.push_str(&format!(
            ". A test that wrongly accuses at most {} % of those who did not take part recognises at most {} % of \
             those who did",
            number(fpr),
            number(tpr)
        ));
    }
    text.push('.');
    Block::Point { label, text }
}

/// Returns the table of ε at every δ of the question.
fn table(statement: &Statement) -> Block {
    let mut head = vec!["δ", "ε"];
    let mut columns = vec![&statement.figures];
    if let Some(other) = &statement.without_sampling {
        head.push("ε without sampling");
        columns.push(other);
    }
    if let Some(released) = &statement.released {
        head.push("ε so far");
        columns.push(&released.figures);
    }
    let row = |index: usize, delta: f64| {
        let cells = columns.iter().filter_map(|column| column.guarantees.get(index));
        std::iter::once(power(delta)).chain(cells.map(|at| number(at.epsilon))).collect()
    };
    let rows = statement.figures.guarantees.iter().enumerate().map(|(i, at)| row(i, at.delta)).collect();
    Block::Table { head, rows }
}

/// Prints six digits, the last one rounded up so that printing never improves a guarantee; JSON has all digits.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let step = 10f64.powi(value.abs().log10().floor() as i32 - 5);
    let rounded = (value / step - 1e-6).ceil() * step;
    let digits = usize::try_from(5 - value.abs().log10().floor() as i32).unwrap_or(0);
    if !(1e-4..1e9).contains(&value.abs()) {
        return format!("{rounded:.5e}");
    }
    let text = format!("{rounded:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Prints a δ as in 1e-6.
pub(crate) fn power(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:e}") }
}

/// Prints a stretch of rows.
pub(crate) fn rows((start, end): (u64, u64)) -> String {
    format!("{start}..{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_numbers_never_promise_more() {
        for (value, shown) in [
            (0.0, "0"),
            (1.0, "1"),
            (8.0, "8"),
            (1.2345678, "1.23457"),
            (1.2345611, "1.23457"),
            (0.0123456789, "0.0123457"),
            (123456.7, "123457"),
            (2000000.0, "2000000"),
            (3.2e-7, "3.20000e-7"),
        ] {
            assert_eq!(number(value), shown);
        }
        assert_eq!((power(1e-6), power(0.0)), ("1e-6".to_owned(), "0".to_owned()));
    }
}
