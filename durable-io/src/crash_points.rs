//! Points around every durable step where a test can stop, delay, break or end the process; nothing without the feature
//! `failpoints`. They are armed by the variable FAILPOINTS, as in `FAILPOINTS='ledger::bind::before_commit=1*panic'`,
//! or while the process runs by [`crash_point`].

/// True where points can be armed in this build.
pub const ARE_ARMABLE: bool = cfg!(feature = "failpoints");

/// A point of the given name, where a test can panic, wait, crash or return an error.
///
/// * `fail_point!("name with {inline} arguments", error)` returns `Err(error)` from the calling function where the
///   point is armed with `return`.
/// * `fail_point!("name", |reason| error)` does the same with the text that the point was armed with, an
///   `Option<String>`.
///
/// Expands to nothing without the feature `failpoints`.
#[cfg(feature = "failpoints")]
#[macro_export]
macro_rules! fail_point {
    ($name:literal, |$reason:ident| $error:expr) => {
        let name = format!($name);
        $crate::expansion::arm();
        $crate::crash_point(&name);
        $crate::expansion::fail::fail_point!(&name, |$reason: Option<String>| Err($error));
    };
    ($name:literal, $error:expr) => {
        $crate::fail_point!($name, |_reason| $error);
    };
}

/// A point where a test can stop the process. Expands to nothing without the feature `failpoints`.
#[cfg(not(feature = "failpoints"))]
#[macro_export]
macro_rules! fail_point {
    ($name:literal, |$reason:ident| $error:expr) => {};
    ($name:literal, $error:expr) => {};
}

/// Reads FAILPOINTS once, where it is set: tests arm points by themselves.
#[cfg(feature = "failpoints")]
pub fn arm() {
    static ARMED: std::sync::Once = std::sync::Once::new();
    if std::env::var_os("FAILPOINTS").is_some() {
        // The scenario lasts as long as the process.
        ARMED.call_once(|| std::mem::forget(fail::FailScenario::setup()));
    }
}

/// Ends the process on the spot, as SIGKILL would, where the file that the variable RUSTLE_CRASH_AT names requests this
/// point. RUSTLE_END_AT is an older name of the variable.
///
/// The file holds the point's name, and after a space how many times the process passes the point before it ends. The
/// file is removed first, so that the next process lives. Does nothing without the feature `failpoints`.
#[cfg(feature = "failpoints")]
pub fn crash_point(point: &str) {
    use std::{
        env, fs,
        path::PathBuf,
        sync::OnceLock,
        sync::atomic::{AtomicU64, Ordering},
    };

    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let variable =
        || env::var_os("RUSTLE_CRASH_AT").or_else(|| env::var_os("RUSTLE_END_AT")).map(PathBuf::from);
    let Some(file) = FILE.get_or_init(variable) else { return };
    let Ok(requested) = fs::read_to_string(file) else { return };
    let (name, before) = requested.trim().split_once(' ').unwrap_or((requested.trim(), "0"));
    if name == point && PASSED.fetch_add(1, Ordering::Relaxed) >= before.parse().unwrap_or(0) {
        let _ = fs::remove_file(file);
        std::process::abort();
    }
}

/// A point where a test can end the process. Does nothing without the feature `failpoints`.
#[cfg(not(feature = "failpoints"))]
pub fn crash_point(_: &str) {}
