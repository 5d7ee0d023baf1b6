//! Points around every durable step where a test can stop, delay or break the process; nothing without the feature
//! `failpoints`. Armed by the variable FAILPOINTS, as in `FAILPOINTS='ledger::bind::before_commit=1*panic'`.

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
        $crate::fail_points::arm();
        fail::fail_point!(&format!($name), |_| Err($error));
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
