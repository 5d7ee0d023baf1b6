//! Points around every durable step where a test can stop, delay, break or end the process; nothing without the feature
//! `failpoints`. Armed by the variable FAILPOINTS, as in `FAILPOINTS='ledger::bind::before_commit=1*panic'`, or while
//! the process runs by [`end_where_asked`].

/// Whether points can be armed in this build.
pub const ARE_ARMABLE: bool = cfg!(feature = "failpoints");

/// Every point of a change's name is `ledger::` CHANGE `::` STEP, where STEP is `begin`, `before_commit` or
/// `after_commit`, and CHANGE is one of these.
pub const FAIL_POINTS: [&str; 10] = [
    "next_epoch",
    "create_job",
    "set_job_state",
    "set_owners",
    "replace_shards",
    "open_branch",
    "bind",
    "add_checkpoint",
    "remove_checkpoint",
    "migrate",
];

/// `fail_point!("name with {inline} arguments", error)`: returns the error where the point is armed with `return`.
#[cfg(feature = "failpoints")]
macro_rules! fail_point {
    ($name:literal, $error:expr) => {
        let name = format!($name);
        $crate::fail_points::arm();
        $crate::fail_points::end_where_asked(&name);
        fail::fail_point!(&name, |_| Err($error));
    };
}

#[cfg(not(feature = "failpoints"))]
macro_rules! fail_point {
    ($name:literal, $error:expr) => {};
}

/// Of a checkpoint's object: fails with [`crate::LedgerError::ObjectStore`] where the point is armed with `return`.
#[cfg(feature = "failpoints")]
macro_rules! object_fail_point {
    ($name:literal, $object:expr) => {
        $crate::fail_points::arm();
        $crate::fail_points::end_where_asked($name);
        fail::fail_point!($name, |reason: Option<String>| Err(crate::LedgerError::ObjectStore {
            object: $object.to_string(),
            reason: reason.unwrap_or_else(|| concat!("injected at ", $name).to_owned()),
        }))
    };
}

#[cfg(not(feature = "failpoints"))]
macro_rules! object_fail_point {
    ($name:literal, $object:expr) => {};
}

pub(crate) use {fail_point, object_fail_point};

/// Reads FAILPOINTS once, where it is set: tests arm points by themselves.
#[cfg(feature = "failpoints")]
pub fn arm() {
    static ARMED: std::sync::Once = std::sync::Once::new();
    if std::env::var_os("FAILPOINTS").is_some() {
        // The scenario lasts as long as the process.
        ARMED.call_once(|| std::mem::forget(fail::FailScenario::setup()));
    }
}

/// Ends the process on the spot, as SIGKILL would, where the file that the variable RUSTLE_END_AT names asks for this
/// point: by its name, and how many times the process goes through before. The file goes first, so that the process
/// that comes next lives.
#[cfg(feature = "failpoints")]
pub fn end_where_asked(point: &str) {
    use std::{
        env, fs,
        path::PathBuf,
        sync::OnceLock,
        sync::atomic::{AtomicU64, Ordering},
    };

    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let Some(file) = FILE.get_or_init(|| env::var_os("RUSTLE_END_AT").map(PathBuf::from)) else { return };
    let Ok(asked) = fs::read_to_string(file) else { return };
    let (name, before) = asked.trim().split_once(' ').unwrap_or((asked.trim(), "0"));
    if name == point && PASSED.fetch_add(1, Ordering::Relaxed) >= before.parse().unwrap_or(0) {
        let _ = fs::remove_file(file);
        std::process::abort();
    }
}

#[cfg(not(feature = "failpoints"))]
pub fn end_where_asked(_: &str) {}
