//! Batches that match their account, formed from a seed, round by round.
//!
//! Amplification holds for batches that are drawn as the account assumes and kept secret, and for no others. A
//! [`Scheme`] describes how records join rounds, and states its formal guarantee; [`Batches`] draws them for a
//! [`Population`] from a [`Seed`]; [`Batches::event`] returns, as plain data, everything an accountant needs to know.
//!
//! ```
//! use batches::{Batches, Population, Scheme, SamplingLaw};
//!
//! # fn main() -> batches::Result<()> {
//! let scheme = Scheme::Poisson { sampling_probability: 0.1, cap: None };
//! // In earnest the seed comes from the operating system and stays secret.
//! let batches = Batches::new(scheme, Population::Records(1_000), 50, [7; 32])?;
//!
//! let batch = batches.batch(3)?;
//! assert!(batch.ids.iter().all(|id| *id < 1_000));
//! // The same round is the same batch, wherever a run begins.
//! assert_eq!(batches.rounds(3..10)?.next(), Some(batch));
//!
//! let event = batches.event();
//! assert_eq!(event.sampling, SamplingLaw::PoissonSampledGaussian { sampling_probability: 0.1, count: 50 });
//! # Ok(())
//! # }
//! ```
//!
//! **Bits.** A batch depends on seed, scheme, population and round alone: not on where a run began, on the platform or
//! on its mathematical library. Draws are ChaCha20 words under one key for each purpose, and all arithmetic is on
//! integers. Another scheme or population has unrelated draws under the same seed; another number of iterations has the
//! same draws.
//!
//! **Exactness.** Uniform draws are exact. Poisson sampling goes from record to record by geometric skips whose digits
//! are drawn one by one. Each skip is off by less than 2⁻¹²⁰/q in total variation, which is the most it may add to δ.
//!
//! **Cost.** Poisson and independent cyclic Poisson form a batch in time and memory of its size (p times that for p
//! bands). Where records get slots (balls-in-bins, random allocation, fixed order, equal split) one pass over the
//! population forms as many consecutive batches as fit in [`MAX_BUFFERED_IDS`] ids, so nothing of the population's size
//! is kept. A contribution bound keeps the owner graph, and, like b-min-sep, a start at round t replays the rounds before it. b-min-sep keeps the last b − 1 batches, and a start at round t replays the rounds before it.
//!
//! **Secrets.** The seed determines every batch. It never reaches `Debug`, and keys, generators and the seed are wiped
//! when dropped. Batches are as secret as the seed: against an adversary who knows them nothing is amplified.
//!
//! # Layout
//!
//! * [`Scheme`], [`Partition`] (`scheme`), [`Neighbouring`] (`neighbouring`): the sampling vocabulary, which `accounting`
//!   shares.
//! * [`Population`], [`Users`] (`population`): records, and users who own them; [`Owners`] (`owners`, read by
//!   `owner_lines`): records that several own, of which [`OwnerStatistics`] counts what a bound leaves.
//! * [`Batches`], [`Rounds`], [`Batch`] (`batches`): a run's batches, from a `source`.
//! * `poisson`, `cyclic`, `min_sep`, `users`, `contribution_bound`, and `bins` through `assignment`: one source for each kind of scheme.
//! * [`SamplingEvent`], [`SamplingLaw`] (`event`): the description for an accountant.
//! * [`AccountKind`] (`account_kind`): the table of accounts and the relations that they accept.
//! * [`Seed`] (`seed`), `draws`, `skips`, `encode`: keys, exact draws, geometric skips, and the frozen digest of a scheme.
//!
//! Symbols are in `docs/notation.md`.

#![deny(missing_docs)]

mod account_kind;
mod assignment;
mod batches;
mod bins;
mod contribution_bound;
mod cyclic;
mod draws;
mod encode;
mod error;
mod event;
mod min_sep;
mod neighbouring;
mod owner_lines;
mod owner_statistics;
mod owners;
mod poisson;
mod population;
mod scheme;
mod scheme_rules;
mod seed;
mod skips;
mod source;
mod users;

pub use account_kind::AccountKind;
pub use assignment::MAX_BUFFERED_IDS;
pub use batches::{Batch, Batches, Rounds};
pub use error::{BatchError, MAX_RECORDS, Result};
pub use event::{Participation, SamplingEvent, SamplingLaw, Unit};
pub use neighbouring::Neighbouring;
pub use owner_statistics::{DegreeCount, DrawnParticipation, OwnerStatistics};
pub use owners::Owners;
pub use population::{Population, Users};
pub use scheme::{Partition, Scheme};
pub use seed::Seed;
