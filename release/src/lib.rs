//! The rules of release: which rows of noise may leave, under which branch, and from which checkpoints they may be
//! made again.
//!
//! The ledger stores what was decided; this crate decides. The coordinator, the root rank under MPI and the engine in
//! a Python process all go through it and keep only transport, locking and metrics to themselves, so that an auditor
//! reads each rule once.
//!
//! # Layout
//!
//! * [`adoption`]: a copy of a ledger that continues as a ledger of its own.
//! * [`job`]: what a job's record and first shards are made of: plan, dimension, key commitment.
//! * [`binding`]: rows bound to commitments, never below what was seen elsewhere.
//! * [`watermarks`]: what workers and ranks remember of earlier releases, compared with the ledger.
//! * [`branches`]: cursors, resuming at one, rewinding.
//! * [`budget`]: the privacy budget of a data set: which jobs and rewinds it still pays for.
//! * [`authority`]: release grants, signed after the rows are bound, and orders to workers.
//! * [`checkpoints`]: numbers of checkpoints, which of them are usable, which may be deleted.
//! * [`grants`]: the lease of a shard, with the checkpoint pieces it may be restored from.
//!
//! # Example
//!
//! ```
//! use ledger::{Ledger, LedgerError};
//! use plan::Plan;
//! use proto::{Commitment, JobId, Nonce, RowRange};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let plan = Plan::from_toml_str(
//! #     "format = 1\nstream_version = 3\nchacha_rounds = 20\niterations = 10\nnoise_multiplier = 1.0\n\
//! #      clip_norm = 1.0\n[participation]\nmin_sep = 1\nmax_participations = 1\n[mechanism]\nname = \"identity\"",
//! # )?;
//! let path = folder.path().join("ledger.redb");
//! // A program draws ids and nonces from the operating system.
//! Ledger::init(&path, Nonce::from_bytes([8; 32]))?;
//! let ledger = Ledger::open(&path)?;
//! let name = JobId::new("digits")?;
//! let nonce = Nonce::from_bytes([9; 32]);
//! let job = release::job::define(name.clone(), &plan, plan.to_toml_string()?, 1_000, [7; 32], 1, nonce)?;
//! ledger.create_job(&job.record, &job.shards)?;
//!
//! let rows = RowRange::new(0, 1)?;
//! let first = [Commitment::of_text("gradient of step 0")];
//! let bound = release::binding::bind(&ledger, &name, 0, rows, &first)?;
//! assert_eq!(bound.newly, 1);
//! // The same commitment again is answered again; another one is refused for ever.
//! assert_eq!(release::binding::bind(&ledger, &name, 0, rows, &first)?.newly, 0);
//! let other = [Commitment::of_text("another gradient")];
//! let refused = release::binding::bind(&ledger, &name, 0, rows, &other);
//! assert!(matches!(refused, Err(LedgerError::AlreadyBound { row: 0, .. })));
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]

pub mod adoption;
pub mod authority;
pub mod binding;
pub mod branches;
pub mod budget;
pub mod checkpoints;
pub mod grants;
pub mod job;
pub mod watermarks;
