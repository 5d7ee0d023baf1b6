//! The method of the account, and the assumptions that it rests on.

use accounting::Partition;

use super::{Block, number};
use crate::question::SamplingAssumption;
use crate::statement::Statement;

pub(super) fn blocks(statement: &Statement) -> Vec<Block> {
    let mut blocks = vec![
        Block::point("Method", method(statement)),
        Block::point("Sensitivity", sensitivity(statement)),
        Block::point("Participation", participation(statement)),
        Block::point("Sampling", sampling(statement)),
        Block::point(
            "Noise",
            format!(
                "Normals from ChaCha{} under the job's key, stream version {}. Every figure assumes that this stream \
                 cannot be distinguished from random bits. Coefficients and σζ are accounted for as they run, rounded \
                 to {}.",
                statement.chacha_rounds,
                statement.stream_version,
                if statement.grid.is_some() { "the grid" } else { "single precision" }
            ),
        ),
    ];
    if statement.released.as_ref().is_some_and(|released| !released.abandoned.is_empty()) {
        blocks.push(Block::point(
            "Rewinds",
            "Rows that were released on an abandoned branch count as further releases: their squared sensitivity \
             is added, under the same participation rule along every lineage. The total is a guarantee only if it \
             was bounded in advance. Where decisions to rewind depended on released rows, a total computed \
             afterwards describes the run and is no such bound.",
        ));
    }
    blocks
}

fn method(statement: &Statement) -> String {
    let exactness =
        if statement.exact { "exact for it" } else { "an upper bound, as the sensitivity is one" };
    match statement.accounting {
        "gaussian" => format!(
            "One Gaussian mechanism, C·X + σζ·Z, even where gradients depend on earlier releases: ρ is sens²/(2σ²), μ \
             is sens/σ, and ε at δ is that of the Gaussian mechanism with this μ, {exactness}."
        ),
        "monte-carlo" => "Monte Carlo over the batches of one unit, with importance sampling, in both orders \
                          of neighbours. ε is an estimate, and the bound on its δ comes from separate samples. The \
                          account covers the whole correlated run jointly, not round by round."
            .to_owned(),
        _ => "Privacy-loss distributions of the sampled rounds, rounded so that no figure is below the exact \
              one, in both orders of neighbours."
            .to_owned(),
    }
}

fn sensitivity(statement: &Statement) -> String {
    let kind = if statement.sensitivity_exact { "exact" } else { "an upper bound" };
    let mut text = format!(
        "{} per unit clip norm ({kind}), the larger of the plan's own C and of C as it runs",
        number(statement.sensitivity)
    );
    if statement.sensitivity > statement.sensitivity_planned {
        let planned = number(statement.sensitivity_planned);
        text.push_str(&format!("; {planned} without the abandoned rows"));
    }
    text.push('.');
    text
}

fn participation(statement: &Statement) -> String {
    let b = statement.min_sep;
    let k = statement.max_participations;
    let only = match (statement.sampling, statement.plan_participation) {
        (SamplingAssumption::AnyOrder, _) => "",
        (_, None) => "For the figures without sampling, which the noise was designed for: ",
        (_, Some(_)) => "For the figures without sampling: ",
    };
    let widened = statement.plan_participation.map_or_else(String::new, |own| {
        format!(
            " The plan itself is for j − i ≥ {} and at most {} of them, which batches sampled as below do not keep; \
             the rule here is that of the plan, widened to cover them.",
            own.min_sep, own.max_participations
        )
    });
    format!(
        "{only}Rounds i < j in which one unit takes part satisfy j − i ≥ {b}, and there are at most {k} of them.\
         {widened} Nothing here enforces this rule: the code that forms the batches must, by a timer on devices, a \
         count of rounds or a fixed order."
    )
}

fn sampling(statement: &Statement) -> String {
    match statement.sampling {
        SamplingAssumption::AnyOrder => {
            "None is relied upon: batches may be formed in any way within the participation \
                              rule, even an adversarial one."
                .to_owned()
        }
        SamplingAssumption::CyclicPoisson { sampling_probability, partition, cap } => {
            let bands = statement.bands.unwrap_or(1);
            let groups = match partition {
                Partition::Independent => "each unit put into a random group, independently",
                Partition::EqualSplit => "groups of one size",
            };
            let capped = cap.map_or_else(
                || "No batch has a cap".to_owned(),
                |cap| {
                    format!(
                        "Of a larger batch a random {} are kept, and the account charges for the record that another one \
                         pushes out; {} is the public number of units",
                        cap.batch_cap, cap.dataset_size
                    )
                },
            );
            format!(
                "Cyclic Poisson: {bands} groups that do not depend on the data ({groups}); in round t only \
                 group t mod {bands} is sampled, each unit with probability {}, independently. {capped}. Batches and \
                 their seed must stay secret. `rustle batches --scheme cyclic-poisson` forms them.",
                number(sampling_probability * bands as f64)
            )
        }
        SamplingAssumption::BallsInBins { batches_per_epoch, samples, seed } => format!(
            "Balls in bins: each unit is put into one of {batches_per_epoch} batches, at random and once, and \
             takes part in that batch of every epoch. No batch has a cap, which has no account. Batches must stay secret. The account drew {samples} samples, seed {seed}; \
             it is worthless if the seed was chosen by its result. `rustle batches --scheme balls-in-bins` forms \
             them."
        ),
        SamplingAssumption::RandomAllocation { batches_per_epoch, participations } => format!(
            "Random allocation: in every epoch of {batches_per_epoch} batches each unit joins {participations}, \
             drawn at random, anew in every epoch and independently of all other units. A loader that shuffles the \
             records and cuts them into batches of one size does not draw so, and the account is not for it. \
             Batches and their seed must stay secret. `rustle batches --scheme random-allocation` forms them."
        ),
        SamplingAssumption::BMinSep { min_sep, sampling_probability, warm_start, samples, seed } => {
            let start = if warm_start { ", as if batches had been formed before round 0" } else { "" };
            format!(
                "b-min-sep: in every round each unit that took none of the {} rounds before joins with \
                 probability {}, independently{start}. No batch has a cap, which has no account. Batches and their seed must stay secret. The account drew \
                 {samples} samples, seed {seed}; it is worthless if the seed was chosen by its result. `rustle batches \
                 --scheme b-min-sep` forms them.",
                min_sep.saturating_sub(1),
                number(sampling_probability)
            )
        }
    }
}
