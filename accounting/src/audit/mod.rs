//! Lower bounds of ε from an attack: what an adversary's success on canaries proves of a mechanism.
//!
//! A canary is a record that was in the training or was not, by a coin's toss or by plan, and a score is what the attack says
//! of it: higher where it takes the canary for included. No (ε, δ)-private mechanism lets an attack be right
//! too often, so success above that refutes the claim at the confidence asked for. An account bounds ε from above by
//! proof, an audit from below by experiment: a mistake in the code shows where the two cross.
//!
//! | [`Method`] | what has to hold of the scores |
//! |---|---|
//! | [`Method::OneRun`] | each canary was included by a fair coin of its own, unknown to the attack |
//! | [`Method::ClopperPearson`] | scores are independent: of separate runs, or of canaries that share no noise |
//! | [`Method::Gaussian`] | as Clopper–Pearson, and the mechanism is Gaussian, of any μ |
//!
//! Each bound is below the true ε with the confidence given or more, whatever the attack was: a poor one proves little.
//! Rounding is to that side as well.
//!
//! # Examples
//!
//! ```
//! use accounting::audit::{Claim, Guesses};
//!
//! # fn main() -> accounting::Result<()> {
//! let claim = Claim { epsilon: 0.0, delta: 1e-5, confidence: 0.95 };
//! let bound = Guesses { canaries: 1000, guesses: 600, correct: 600 }.bound(claim)?;
//! // Every one of 600 guesses right: no mechanism of ε below 5 does that one time in twenty.
//! assert!(bound.epsilon_lower > 5.0);
//! # Ok(())
//! # }
//! ```

mod binomial;
mod claim;
mod needed;
mod one_run;
mod populations;
mod scores;

pub use claim::{Bound, Claim, Method};
pub use needed::canaries_needed;
pub use one_run::Guesses;
pub use scores::Scores;
