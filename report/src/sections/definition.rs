//! The instance of the definition of privacy: setting, data covered, output, unit, neighbours.

use accounting::Neighbouring;

use super::Block;
use crate::question::SamplingAssumption;
use crate::statement::Statement;
use crate::unit::Unit;

pub(super) fn setting(statement: &Statement) -> Vec<Block> {
    let holder = match &statement.job {
        Some(_) => "the job's key",
        None => "a job's key",
    };
    vec![
        Block::point(
            "Trust",
            "Central: the training process sees contributions before noise is added, and is trusted to clip them and \
             to add the noise it fetches. Anyone who sees its output, intermediate models included, is not trusted.",
        ),
        Block::point(
            "The noise service",
            format!(
                "Coordinator and workers see noise, never data; the coordinator cannot make noise. Anyone \
                 who holds {holder} can subtract the noise, so the key must stay secret for as long as the guarantee \
                 is to hold."
            ),
        ),
    ]
}

pub(super) fn protected(statement: &Statement) -> Vec<Block> {
    let name = unit(statement.unit);
    let b = statement.min_sep;
    let k = statement.max_participations;
    let rule = match statement.sampling {
        SamplingAssumption::AnyOrder => {
            format!("the participation rule (at most {k} rounds, at least {b} apart)")
        }
        _ => "the assumption about sampling below".to_owned(),
    };
    vec![
        Block::point(
            "Data covered",
            format!(
                "All contributions of one {name} to this one run, each clipped to norm {} before it is \
                 summed. A {name} that breaks {rule} loses its own guarantee; those of others still hold.",
                statement.clip_norm
            ),
        ),
        Block::point(
            "Not covered",
            "Choosing hyper-parameters, clip norms or checkpoints by runs or evaluations on the same data; \
             statistics that are released beside the sums; other runs on the same data, whose costs add up; \
             data that is treated as public, such as pre-training data.",
        ),
        Block::point(
            "Output",
            format!(
                "The noisy sums of {}, and everything computed from them: every intermediate model and the final \
                 one.",
                output(statement)
            ),
        ),
        Block::point("Unit of privacy", unit_text(statement.unit)),
        Block::point("Neighbouring data sets", neighbours(statement.adjacency, name)),
    ]
}

fn output(statement: &Statement) -> String {
    match &statement.released {
        Some(released) if !released.abandoned.is_empty() => {
            format!("all {} rounds and of the rounds abandoned by rewinds", statement.iterations)
        }
        _ => format!("all {} rounds", statement.iterations),
    }
}

pub fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::User => "user",
        Unit::Example => "example",
        Unit::Device => "device",
        Unit::Owner => "owner",
    }
}

fn unit_text(unit: Unit) -> &'static str {
    match unit {
        Unit::User => {
            "User: all data of one user, however much. It requires that clipping bounds the sum of everything a \
             user contributes to a round."
        }
        Unit::Example => {
            "Example: one record. A user with several records is protected less: the sensitivity grows with their \
             number."
        }
        Unit::Device => {
            "Device: all data on one device. A user with one device is protected as a user; a user of several \
             participating devices is protected less."
        }
        Unit::Owner => {
            "Owner: all records of one owner, also those that others own too. Who owns which record is public. It requires \
             batches in which no owner exceeds the participation, with one record each time, such as those of a \
             contribution bound."
        }
    }
}

fn neighbours(relation: Neighbouring, name: &str) -> String {
    match relation {
        Neighbouring::ZeroOut => format!(
            "Zero-out: in one of them everything that one {name} contributes counts as the zero vector; the number \
             of participants is the same and may be public."
        ),
        Neighbouring::AddRemove => format!(
            "Add or remove: one of them lacks one {name}. Their sizes differ, so the guarantee covers nothing that \
             depends on the number of {name}s. Sums must be divided by constants that are public, not by numbers that \
             were computed from the data, such as its expected batch size. Nor may batches depend on that number, as a \
             fixed order, groups of one size and caps do, unless the sampling below says that the account charges for it."
        ),
        Neighbouring::Replace => format!(
            "Replace: in one of them the data of one {name} is replaced by other data. A sum then moves by up to \
             twice the clip norm, so the sensitivity is doubled."
        ),
    }
}
