//! Privacy accounts of correlated-noise mechanisms and of sampled rounds.
//!
//! An [`Event`] describes what ran, an [`Account`] computes what it costs under one [`Neighbouring`] relation:
//! exactly for Gaussian mechanisms, by privacy-loss distributions where records are sampled, as the worst of its ρ
//! where a part is only known to be zCDP. Sampling amplifies only where the event contains it. No figure is below the
//! exact one beyond f64's rounding, except those of [`monte_carlo`], which are estimates with a standard error; there
//! a [`Verdict`](monte_carlo::Verdict) decides what may be promised.
//!
//! # Conventions
//!
//! Without sampling, two data sets are neighbours when one is the other with **all participations of one user zeroed
//! out** (equivalently, for sums of clipped contributions, that user added or removed). A user's contribution to each
//! round has norm at most the clip norm ζ, participations i < j satisfy j − i ≥ min_sep, there are at most
//! max_participations, and the noise is σζ·C⁻¹Z, so that
//!
//! * `sensitivity` is sens(C) per unit clip norm,
//! * `noise_multiplier` is σ, and the mechanism is Gaussian with μ = sens(C)/σ.
//!
//! Replacing one user's data doubles the sensitivity. [`Account`] does that by its [`Neighbouring`] relation;
//! [`Report`] does not. All symbols are in `docs/notation.md`.
//!
//! # Examples
//!
//! The ε of one Gaussian mechanism, exactly, and the noise for a given ε:
//!
//! ```
//! use accounting::{calibrate_gaussian, gaussian};
//!
//! # fn main() -> accounting::Result<()> {
//! let sensitivity = 1.0;
//! let noise_multiplier = 4.0;
//! let delta = 1e-6;
//! let epsilon = gaussian::epsilon(delta, sensitivity / noise_multiplier)?;
//! assert!((epsilon - 1.0607).abs() < 1e-4);
//! assert!(gaussian::delta(epsilon, sensitivity / noise_multiplier)? <= delta);
//!
//! let sigma = calibrate_gaussian(sensitivity, epsilon, delta)?;
//! assert!((sigma / noise_multiplier - 1.0).abs() < 1e-9);
//! # Ok(())
//! # }
//! ```
//!
//! DP-SGD: 1,000 rounds, each record sampled with probability 1 %:
//!
//! ```
//! use accounting::{Account, Event, Neighbouring};
//!
//! # fn main() -> accounting::Result<()> {
//! let round = Event::PoissonSampledGaussian { noise_multiplier: 1.0, sampling_probability: 0.01 };
//! let account = Account::new(&round.times(1000), Neighbouring::AddRemove)?;
//! let epsilon = account.epsilon(1e-6)?;
//! assert!(1.0 < epsilon && epsilon < 3.0);
//! assert!(account.delta(epsilon)? <= 1e-6);
//! # Ok(())
//! # }
//! ```
//!
//! A composition: a run of correlated noise, then one noisy sum of statistics. Two Gaussian mechanisms compose to one,
//! so the account is exact:
//!
//! ```
//! use accounting::{Account, Event, Neighbouring, gaussian};
//!
//! # fn main() -> accounting::Result<()> {
//! let run = Event::Tree {
//!     noise_multiplier: 8.0,
//!     iterations: 100,
//!     min_sep: 50,
//!     max_participations: 2,
//!     restarts: vec![],
//!     completion: false,
//! };
//! let statistics = Event::Gaussian { noise_multiplier: 20.0 };
//! let both = Event::Composed { events: vec![run.clone(), statistics] };
//!
//! let relation = Neighbouring::ZeroOut;
//! let rho = Account::new(&both, relation)?.rho().unwrap();
//! let run_rho = Account::new(&run, relation)?.rho().unwrap();
//! assert!((rho - run_rho - 0.5 / 400.0).abs() < 1e-12);
//! assert_eq!(Account::new(&both, relation)?.epsilon(1e-6)?, gaussian::epsilon(1e-6, (2.0 * rho).sqrt())?);
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! * [`Event`], [`MatrixMechanism`], [`Sampling`] (`event`): what ran, as data. The sampling vocabulary
//!   ([`Partition`], [`Neighbouring`]) is that of the crate `batches`, which draws the batches.
//! * [`Account`] (`account`): the interpreter of events, and the figures; [`RenyiCurve`]: a quick bound of
//!   compositions; [`RunCount`]: the random number of runs of a selection.
//! * [`failure`]: runs that may leave the mechanism that is accounted for.
//! * [`gaussian`], [`zcdp`], [`renyi`], [`normal`]: closed forms and conversions.
//! * [`pld`]: privacy-loss distributions; [`summary`] reads other figures off them.
//! * [`amplification`], [`user_level`], [`clipping`], [`tree`]: mechanisms that have a formula of their own.
//! * [`allocation`]: k of the t batches of an epoch, drawn anew in every epoch.
//! * [`correlated`]: balls-in-bins and random allocation under correlated noise, without samples.
//! * [`calibration`]: the noise, rounds, sampling or participations that meet an (ε, δ).
//! * [`rewind`]: the cost of rows that a job released before it went back.
//! * [`monte_carlo`]: balls-in-bins and b-min-sep batches under correlated noise, by sampling.
//! * [`Report`] (`report`): ε, ρ and sensitivity of one strategy in one struct.

#![deny(missing_docs)]

mod account;
pub mod allocation;
pub mod amplification;
pub mod audit;
pub mod calibration;
pub mod clipping;
pub mod correlated;
mod dominating;
mod error;
mod event;
pub mod failure;
pub mod gaussian;
pub mod monte_carlo;
mod neighbouring;
pub mod normal;
pub mod pld;
pub mod renyi;
mod report;
pub mod rewind;
mod search;
pub mod summary;
pub mod tree;
pub mod user_level;
pub mod zcdp;

pub use account::{Account, RenyiCurve, RunCount};
pub use error::{AccountingError, Result};
pub use event::{BatchCap, Event, MatrixMechanism, Partition, Sampling};
pub use gaussian::calibrate_gaussian;
pub use neighbouring::{AccountKind, Direction, Neighbouring};
pub use report::{Report, account, calibrate};
pub use strategy::Sensitivity;
