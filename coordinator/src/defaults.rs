//! The default of every setting, each written once: for its resolution and for the help of its flag.

use std::fmt::Display;

use node::config::settings::{Layers, SettingError};

/// A setting and its default, as an operator would write it.
#[derive(Clone, Copy, Debug)]
pub struct SettingDefault {
    pub name: &'static str,
    pub value: &'static str,
}

impl SettingDefault {
    /// Resolves the setting from flag, environment, file or this default.
    pub fn resolve<T, E: Display>(
        self,
        layers: &mut Layers,
        flag: Option<String>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, SettingError> {
        layers.with_default(self.name, flag, self.value, parse)
    }
}

macro_rules! defaults {
    ($($constant:ident = $name:literal: $value:literal;)*) => {
        $(pub const $constant: SettingDefault = SettingDefault { name: $name, value: $value };)*

        const ALL: &[SettingDefault] = &[$($constant),*];
    };
}

defaults! {
    LISTEN = "listen": "127.0.0.1:7300";
    METRICS_LISTEN = "metrics_listen": "127.0.0.1:0";
    CHECKPOINT_INTERVAL = "checkpoint_interval": "auto";
    MTBF = "mtbf": "3h";
    MAX_REPLAY = "max_replay": "60s";
    KEEP_CHECKPOINTS = "keep_checkpoints": "2";
    HEARTBEAT = "heartbeat": "200ms";
    LEASE_TTL = "lease_ttl": "2s";
    STRAGGLER_TIMEOUT = "straggler_timeout": "10s";
    TOKEN_TTL = "token_ttl": "1h";
    FETCH_DEADLINE = "fetch_deadline": "30s";
    REPORT_DELTA = "report_delta": "1e-6";
    STORE = "store": "file";
    MAX_JOB_BRANCHES = "max_job_branches": "10000";
    MAX_JOB_ROWS = "max_job_rows": "5000000";
    MAX_JOB_BYTES = "max_job_bytes": "4GiB";
    MAX_CALLER_BYTES = "max_caller_bytes_per_day": "16GiB";
    MAX_BRANCHES = "max_branches_per_minute": "60";
    MAX_CHECKPOINTS = "max_checkpoints_per_minute": "6";
    MAX_PLACEMENTS = "max_placements_per_minute": "60";
    MAX_LOG_LINES = "max_log_lines_per_minute": "600";
    LEADER_LEASE_TTL = "leader_lease_ttl": "5s";
}

/// Adds the default to the help of a flag that has one.
pub fn show_default(arg: clap::Arg) -> clap::Arg {
    let default = ALL.iter().find(|default| arg.get_id() == default.name);
    let (Some(default), Some(help)) = (default, arg.get_help()) else { return arg };
    let help = format!("{help} [default: {}]", default.value);
    arg.help(help)
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;
    use crate::CoordinatorArgs;

    #[test]
    fn every_default_is_in_the_help_of_its_flag() {
        let command = CoordinatorArgs::augment_args(Command::new("coordinator"));
        for SettingDefault { name, value } in ALL {
            let arg = command.get_arguments().find(|arg| arg.get_id() == name);
            let help = arg.and_then(|arg| arg.get_help()).map(ToString::to_string).unwrap_or_default();
            assert_eq!(help.matches(&format!("[default: {value}]")).count(), 1, "{name}: {help:?}");
        }
    }
}
