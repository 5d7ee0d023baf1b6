//! `rustle audit`: what an attack on canaries proves of a training's ε.

use std::path::PathBuf;
use std::process::ExitCode;

use accounting::audit::{Bound, Claim, Guesses, Method, canaries_needed};
use clap::{Args, Subcommand, ValueEnum};

use self::scores_file::read;
use super::errors::from_accounting;
use crate::output::{Answer, Format, bad_use, status_of_check};

mod scores_file;

/// How success is turned into ε
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MethodWord {
    /// Many canaries in one run, each included by a fair coin of its own
    OneRun,
    /// Error rates of independent scores: of separate runs, or of canaries that share no noise
    ClopperPearson,
    /// The same, where the mechanism is known to be Gaussian: no sampling, no amplification
    Gaussian,
}

impl From<MethodWord> for Method {
    fn from(word: MethodWord) -> Self {
        match word {
            MethodWord::OneRun => Self::OneRun,
            MethodWord::ClopperPearson => Self::ClopperPearson,
            MethodWord::Gaussian => Self::Gaussian,
        }
    }
}

#[derive(Clone, Debug, Subcommand)]
pub enum AuditCommand {
    /// Bound ε from below by scores of canaries that were in a training and of others that were not
    Scores(ScoresArgs),
    /// Bound ε from below by counts of guesses about canaries of one run
    Guesses(GuessesArgs),
    /// Compute how many canaries it takes to refute an ε, each of them recognised
    Canaries(CanariesArgs),
}

/// What is asked of an audit.
#[derive(Clone, Copy, Debug, Args)]
pub struct Promise {
    /// δ of the bound and of the claim; 0 too, but for `gaussian`
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: f64,
    /// Probability with which the bound is no higher than the true ε
    #[arg(long, value_name = "P", default_value_t = 0.99, allow_negative_numbers = true)]
    confidence: f64,
}

/// The ε that a training is said to have.
#[derive(Clone, Copy, Debug, Args)]
pub struct Claimed {
    /// ε that is claimed: exit status 1 where the lower bound exceeds it
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon: Option<f64>,
}

#[derive(Clone, Debug, Args)]
pub struct ScoresArgs {
    /// File of scores and labels: lines SCORE,in or SCORE,out, or .npy of float32 with two columns, the second 1 or 0
    #[arg(long = "in", value_name = "FILE")]
    input: PathBuf,
    #[command(flatten)]
    promise: Promise,
    #[command(flatten)]
    claimed: Claimed,
    /// What holds of the scores
    #[arg(long, value_enum, default_value_t = MethodWord::OneRun)]
    method: MethodWord,
    /// Guesses to make in one run, chosen without regard to the scores [default: the best of several, paid for]
    #[arg(long, value_name = "R")]
    guesses: Option<u64>,
}

#[derive(Clone, Debug, Args)]
pub struct GuessesArgs {
    /// Canaries, each included by a fair coin
    #[arg(long, value_name = "M")]
    canaries: u64,
    /// Guesses that were made, a number chosen before scores were seen
    #[arg(long, value_name = "R")]
    guesses: u64,
    /// Guesses that were right
    #[arg(long, value_name = "V")]
    correct: u64,
    #[command(flatten)]
    promise: Promise,
    #[command(flatten)]
    claimed: Claimed,
}

#[derive(Clone, Debug, Args)]
pub struct CanariesArgs {
    /// ε to refute
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon: f64,
    #[command(flatten)]
    promise: Promise,
    /// What will hold of the scores
    #[arg(long, value_enum, default_value_t = MethodWord::OneRun)]
    method: MethodWord,
}

impl AuditCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        match self {
            Self::Scores(args) => {
                let claim = claim(args.promise, args.claimed);
                let scores = read(&args.input)?;
                let bound = scores.bound(claim, args.method.into(), args.guesses).map_err(from_accounting)?;
                answer(&bound, claim, args.claimed, format)
            }
            Self::Guesses(args) => {
                let claim = claim(args.promise, args.claimed);
                let guesses =
                    Guesses { canaries: args.canaries, guesses: args.guesses, correct: args.correct };
                answer(&guesses.bound(claim).map_err(from_accounting)?, claim, args.claimed, format)
            }
            Self::Canaries(args) => {
                let claim = claim(args.promise, Claimed { epsilon: Some(args.epsilon) });
                let method = Method::from(args.method);
                let needed = canaries_needed(claim, method).map_err(bad_use)?;
                Answer::new()
                    .with("canaries", needed)
                    .with("method", method.name())
                    .with("epsilon", claim.epsilon)
                    .with("delta", claim.delta)
                    .with("confidence", claim.confidence)
                    .print(format)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn claim(promise: Promise, claimed: Claimed) -> Claim {
    let Promise { delta, confidence } = promise;
    Claim { epsilon: claimed.epsilon.unwrap_or(0.0), delta, confidence }
}

/// Prints the bound. The exit status is 1 where a claim is refuted.
fn answer(bound: &Bound, claim: Claim, claimed: Claimed, format: Format) -> anyhow::Result<ExitCode> {
    let answer = Answer::new()
        .with("method", bound.method.name())
        .with("epsilon_lower", bound.epsilon_lower)
        .with("delta", claim.delta)
        .with("confidence", claim.confidence)
        .with("canaries", bound.canaries)
        .with("guesses", bound.guesses)
        .with("correct", bound.correct)
        .with("epsilon_claimed", claimed.epsilon)
        .with("p_value", bound.p_value);
    let is_refuted = claimed.epsilon.is_some() && bound.refutes(claim);
    let answer = match claimed.epsilon {
        Some(_) => answer.with("refuted", is_refuted),
        None => answer,
    };
    status_of_check(!is_refuted, answer.print(format))
}
