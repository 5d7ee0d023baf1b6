//! The parameters, the released rows and the identity of a run.

use super::{Block, number, rows};
use crate::opening::Opening;
use crate::statement::{ReleasedSoFar, Statement};

fn table(head: [&'static str; 2], rows: Vec<(&str, String)>) -> Block {
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    Block::Table { head: head.to_vec(), rows }
}

pub(super) fn parameters(statement: &Statement) -> Vec<Block> {
    let mut rows = vec![
        ("mechanism", statement.mechanism.clone()),
        ("rounds n", statement.iterations.to_string()),
        ("noise multiplier σ", statement.noise_multiplier.to_string()),
        ("clip norm ζ", statement.clip_norm.to_string()),
        ("min_sep b (j − i ≥ b)", statement.min_sep.to_string()),
        ("max_participations k", statement.max_participations.to_string()),
    ];
    if let Some(own) = statement.plan_participation {
        rows.push(("the plan's own min_sep", own.min_sep.to_string()));
        rows.push(("the plan's own max_participations", own.max_participations.to_string()));
    }
    if let Some(bands) = statement.bands {
        rows.push(("bands of C", bands.to_string()));
    }
    if let Some(job) = &statement.job {
        rows.push(("dimension", job.dimension.to_string()));
    }
    vec![table(["parameter", "value"], rows)]
}

pub(super) fn released(statement: &Statement, so_far: &ReleasedSoFar) -> Vec<Block> {
    let mut facts = Vec::new();
    if let Some(job) = &statement.job {
        facts.push(("job", job.job.clone()));
        facts.push(("state", job.state.clone()));
        facts.push(("bindings refused since the coordinator started", job.bindings_refused.to_string()));
    }
    let last = so_far.released.branches.last().map_or(0, |branch| branch.branch);
    facts.push(("rows released", so_far.rows.to_string()));
    facts.push(("reached", format!("{} of {} on branch {last}", so_far.reached, statement.iterations)));
    facts.push(("sensitivity so far", number(so_far.sensitivity)));
    let mut blocks = vec![
        Block::point(
            "Charged",
            "The guarantee above covers all rows of the plan, whichever of them were released: it holds however the \
             run ends. The figures for the rows so far hold only if nothing more is released, and if the decision to \
             stop did not depend on released rows.",
        ),
        table(["fact", "value"], facts),
        branches(so_far),
    ];
    let openings = statement.job.as_ref().map(|job| &job.openings[..]).unwrap_or_default();
    if !openings.is_empty() {
        blocks.push(opened(openings));
    }
    if !so_far.abandoned.is_empty() {
        blocks.push(abandoned(so_far));
    }
    blocks
}

fn branches(so_far: &ReleasedSoFar) -> Block {
    let row = |branch: &accounting::rewind::ReleasedBranch| {
        let own: Vec<String> = branch.released.iter().copied().map(rows).collect();
        vec![
            branch.branch.to_string(),
            branch.parent.map_or_else(|| "–".to_owned(), |parent| parent.to_string()),
            branch.from_row.to_string(),
            if own.is_empty() { "none".to_owned() } else { own.join(", ") },
        ]
    };
    Block::Table {
        head: vec!["branch", "parent", "own rows from", "released"],
        rows: so_far.released.branches.iter().map(row).collect(),
    }
}

fn opened(openings: &[Opening]) -> Block {
    let row = |opening: &Opening| vec![opening.what(), opening.by.clone(), opening.at()];
    Block::Table { head: vec!["done", "by", "at"], rows: openings.iter().map(row).collect() }
}

fn abandoned(so_far: &ReleasedSoFar) -> Block {
    let row = |stretch: &accounting::rewind::AbandonedRows| {
        let kind = if stretch.exact { "exact" } else { "upper bound" };
        vec![
            stretch.branch.to_string(),
            rows(stretch.rows),
            format!("{} ({kind})", number(stretch.sensitivity)),
        ]
    };
    Block::Table {
        head: vec!["abandoned branch", "rows charged", "their sensitivity"],
        rows: so_far.abandoned.iter().map(row).collect(),
    }
}

pub(super) fn identity(statement: &Statement) -> Vec<Block> {
    let none = || "none".to_owned();
    let mut rows = vec![
        ("plan digest", statement.plan_digest.clone()),
        ("layout digest", statement.layout_digest.clone().unwrap_or_else(none)),
        ("stream version", statement.stream_version.to_string()),
        ("made by", format!("rustle {}", statement.rustle_version)),
    ];
    if let Some(date) = &statement.date {
        rows.push(("made at", date.clone()));
    }
    if let Some(job) = &statement.job {
        rows.insert(2, ("key commitment", job.key_commitment.clone()));
    }
    let account = match statement.plan_participation {
        None => "computes ρ and ε of the plan again",
        Some(_) => {
            "computes ρ and ε of the plan under its own participation, which these batches do not keep"
        }
    };
    let check = format!(
        "`rustle account plan --plan plan.toml --delta D` {account}; `rustle verify` recomputes any delivered row \
         from key and plan with the reference implementation and compares it bit for bit. The digests identify plan and \
         layout, the commitment identifies the key."
    );
    vec![table(["what", "value"], rows), Block::point("To check it", check)]
}
