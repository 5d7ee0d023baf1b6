//! Batches that match the accounting, formed from a seed, one round at a time.
//!
//! Amplification holds for batches drawn as the account says and kept secret, and for no others. A [`Scheme`]
//! says how records join rounds; [`Batches`] draws them for a population from a [`Seed`]; [`Batches::event`]
//! says, as plain data, what an accountant has to be told.
//!
//! **Bits.** A batch depends on seed, scheme, population and round alone: not on where a run began, on the
//! platform or on its mathematical library. Draws are ChaCha20 words under one key a purpose, and all
//! arithmetic is on integers. Another scheme or population has unrelated draws under the same seed; another
//! number of iterations has the same.
//!
//! **Exactness.** Uniform draws are exact. Poisson sampling goes from record to record by geometric skips
//! whose digits are drawn one by one: off by less than 2⁻¹²⁰/q in total variation a skip, which is what it
//! may add to δ.
//!
//! **Cost.** Poisson and independent cyclic Poisson form a batch in time and memory of its size (p times that
//! for p bands). Where records get slots (balls-in-bins, random allocation, fixed order, equal split) one
//! pass over the population forms as many consecutive batches as fit in [`MAX_BUFFERED_IDS`] ids, so nothing of the
//! population's size is kept. b-min-sep keeps the last b − 1 batches, and a start at round t replays the
//! rounds before it.
//!
//! **Secrets.** The seed gives every batch away. It never reaches `Debug`, and keys, generators and the seed
//! are wiped when dropped. Batches are as secret as the seed: whoever knows them has no amplification to
//! reckon with.

mod assignment;
mod batches;
mod bins;
mod cyclic;
mod draws;
mod encode;
mod error;
mod event;
mod min_sep;
mod neighbouring;
mod poisson;
mod population;
mod scheme;
mod seed;
mod skips;
mod source;
mod users;

pub use assignment::MAX_BUFFERED_IDS;
pub use batches::{Batch, Batches, Rounds};
pub use error::{BatchError, Result};
pub use event::{SamplingEvent, SamplingLaw, Unit};
pub use neighbouring::Neighbouring;
pub use population::{MAX_RECORDS, Population, Users};
pub use scheme::{Partition, Scheme};
pub use seed::Seed;
