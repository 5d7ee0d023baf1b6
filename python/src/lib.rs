//! `rustle._native`: the engine, the client, the planner and the accountant, as Python calls them.
//!
//! Everything for people lies in the Python files beside this crate; here numbers and bytes are checked once more,
//! the interpreter is let go while anything takes time, and every failure becomes one of `rustle.errors`.

mod account;
mod announced;
mod announcing;
mod connect;
mod digest;
mod engine;
mod error;
mod foreign;
mod held;
mod local;
mod making;
mod plans;
mod remote;
mod sampling;
mod search;
mod session;
mod sink;
mod steps;
mod users;
mod wait;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::account::{event_epsilon, plan_event, statement};
    #[pymodule_export]
    use crate::connect::connect;
    #[pymodule_export]
    use crate::digest::digest;
    #[pymodule_export]
    use crate::foreign::{refusal, session_over};
    #[pymodule_export]
    use crate::plans::{Plan, layout_digest};
    #[pymodule_export]
    use crate::sampling::{Batches, Rounds};
    #[pymodule_export]
    use crate::search::{calibrate, optimise, suggest};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::users::{
        adaptive_noise_multiplier, inflated_clip_norm, user_level_event, user_level_noise_multiplier,
    };
}
