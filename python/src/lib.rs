//! `rustle._native`: the engine, the client, the planner and the accountant, as Python calls them.
//!
//! The public interface is in the Python files beside this crate. This module checks numbers and bytes once more,
//! releases the interpreter during anything that takes time, and turns every failure into one of `rustle.errors`.
//!
//! # Layout
//!
//! * `engine`: the trait of a source of bound rows; `in_process`, `remote`, `py_engine`: its three implementations.
//! * `session`: the class that training code uses; `turn`: one call at a time; `steps`: which steps it may request; `sums`: the sums that noise is for;
//!   `secret`: what their digests are keyed by; `reservation`,
//!   `reserved_rows`, `row_buffer`: rows bound before their steps; `sink`: where a row's values go; `sum_grid`: sums on a
//!   plan's grid; `on_grid`: calls for integers.
//! * `run_folder`: the ledger and the key of an engine in this process; `opening`, `ending`: what opening one takes, and the end of its job; `producer`: rows that it produces ahead.
//! * `connect`: URLs; `wait`: waits that Ctrl-C ends; `error`: exceptions; `arguments`: checks of arguments; `digest`: digests of sums.
//! * `budgets`: data sets and sweeps in the ledger of a folder.
//! * `plans`, `plan_file`, `search`, `account`, `audit`, `sampling`, `users`: plans, the planner, the accountant, batches, user-level privacy.

mod account;
mod arguments;
mod audit;
mod budgets;
mod connect;
mod digest;
mod ending;
mod engine;
mod error;
mod in_process;
mod on_grid;
mod opening;
mod plan_file;
mod plans;
mod producer;
mod py_engine;
mod remote;
mod reservation;
mod reserved_rows;
mod row_buffer;
mod run_folder;
mod sampling;
mod search;
mod secret;
mod session;
mod sink;
mod steps;
mod sum_grid;
mod sums;
mod turn;
mod users;
mod wait;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::account::{event_epsilon, plan_event, statement};
    #[pymodule_export]
    use crate::audit::{audit_canaries, audit_guesses, audit_scores};
    #[pymodule_export]
    use crate::budgets::{
        add_block, create_data_set, create_sweep, data_set_report, grant_budget, sweep_state,
    };
    #[pymodule_export]
    use crate::connect::connect;
    #[pymodule_export]
    use crate::digest::digest;
    #[pymodule_export]
    use crate::ending::finish;
    #[pymodule_export]
    use crate::on_grid::{fetch_integers, is_on_grid, release_integers};
    #[pymodule_export]
    use crate::plans::{Plan, layout_digest};
    #[pymodule_export]
    use crate::py_engine::{refusal, session_over};
    #[pymodule_export]
    use crate::sampling::{Batches, Owners, Rounds};
    #[pymodule_export]
    use crate::search::{calibrate, delta_on_grid, keep_on_grid, optimise, suggest};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::users::{
        adaptive_noise_multiplier, inflated_clip_norm, user_level_event, user_level_noise_multiplier,
    };
}
