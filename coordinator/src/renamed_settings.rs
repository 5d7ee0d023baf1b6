//! Settings that were renamed: their old names are still accepted in the environment and in the file, as their old
//! flags are by hidden aliases.

use std::fmt::Display;

use node::config::settings::{Layers, Setting, SettingError, Source};

use crate::defaults::{self, SettingDefault};

/// Every renamed setting, with its old name.
const RENAMED: &[(&str, &str)] = &[
    (defaults::MTBF.name, "between_failures"),
    (defaults::MAX_REPLAY.name, "longest_replay"),
    (defaults::STRAGGLER_TIMEOUT.name, "relieve_after"),
    (defaults::LEADER_LEASE_TTL.name, "store_lease"),
];

/// Resolves a renamed setting: by its name from the flag, the environment and the file, then by its old name from the
/// environment and the file, then its default. Call [`restore_names`] on the result of [`Layers::finish`].
pub fn resolve<T, E: Display>(
    layers: &mut Layers,
    setting: SettingDefault,
    flag: Option<String>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, SettingError> {
    let old = RENAMED.iter().find(|(name, _)| *name == setting.name).map(|(_, old)| *old);
    let Some(old) = old else { return layers.with_default(setting.name, flag, setting.value, parse) };
    match layers.optional(setting.name, flag, &parse)? {
        Some(value) => Ok(value),
        None => layers.with_default(old, None, setting.value, parse),
    }
}

/// Returns one row for each setting, under its current name and with the source that decided it.
pub fn restore_names(settings: Vec<Setting>) -> Vec<Setting> {
    let is_resolved_by_old_name = |name: &str| {
        let old = RENAMED.iter().find(|(new, _)| *new == name).map(|(_, old)| *old);
        old.is_some_and(|old| settings.iter().any(|setting| setting.name == old))
    };
    let is_placeholder = |setting: &Setting| {
        setting.value.is_none() && setting.source == Source::Default && is_resolved_by_old_name(setting.name)
    };
    let kept: Vec<Setting> = settings.iter().filter(|setting| !is_placeholder(setting)).cloned().collect();
    let rename = |setting: Setting| {
        let new = RENAMED.iter().find(|(_, old)| *old == setting.name).map(|(new, _)| *new);
        Setting { name: new.unwrap_or(setting.name), ..setting }
    };
    kept.into_iter().map(rename).collect()
}
