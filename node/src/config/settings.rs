//! Settings from four layers, and the source of each: a flag comes before the environment, the environment before the
//! file, and the file before the default.
//!
//! A program reads each setting by name from [`Layers`], then calls [`Layers::finish`], which refuses a file with
//! unknown keys and returns one row per setting. The name `lease_ttl` is the flag
//! `--lease-ttl`, the variable `RUSTLE_LEASE_TTL`, and `lease_ttl` in the file; a dot in a name is a table there.
//! Settings are printed: keys and passwords do not belong in them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use serde::Serialize;

pub use crate::config::setting_error::{SettingError, Source};
use crate::config::setting_file::SettingFile;

const PREFIX: &str = "RUSTLE_";

/// One resolved setting, as `config show` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The setting's name, such as `lease_ttl`.
    pub name: &'static str,
    /// The value as it was written; `None` where an optional setting was given nowhere.
    pub value: Option<String>,
    /// The source of the value.
    pub source: Source,
}

/// The environment and the file, and the settings resolved so far.
#[derive(Debug)]
pub struct Layers {
    environment: BTreeMap<String, String>,
    file: Option<SettingFile>,
    resolved: Vec<Setting>,
}

impl Layers {
    /// Reads this process's `RUSTLE_…` variables and, where one is named, the file.
    pub fn load(file: Option<&Path>) -> Result<Layers, SettingError> {
        let text = file.map(std::fs::read_to_string).transpose().map_err(|source| {
            SettingError::FileRead { path: file.unwrap_or(Path::new("")).to_owned(), source }
        })?;
        Layers::from_parts(our_environment()?, file.zip(text.as_deref()))
    }

    /// Returns layers of the given parts, for tests and for a file that is not on disk.
    pub fn from_parts(
        environment: impl IntoIterator<Item = (String, String)>,
        file: Option<(&Path, &str)>,
    ) -> Result<Layers, SettingError> {
        let file = file.map(|(path, text)| SettingFile::parse(path, text)).transpose()?;
        Ok(Layers { environment: environment.into_iter().collect(), file, resolved: Vec::new() })
    }

    /// Returns a setting, or its default. The default goes through `parse` too, so that it is written, printed and
    /// checked like any other value.
    pub fn with_default<T, E: Display>(
        &mut self,
        name: &'static str,
        flag: Option<String>,
        default: impl Display,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, SettingError> {
        let (value, source) = self.find(name, flag).unwrap_or_else(|| (default.to_string(), Source::Default));
        self.accept(name, value, source, parse)
    }

    /// Returns a setting that must be given.
    pub fn required<T, E: Display>(
        &mut self,
        name: &'static str,
        flag: Option<String>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, SettingError> {
        let Some((value, source)) = self.find(name, flag) else {
            return Err(SettingError::Missing { name, flag: flag_of(name), variable: variable_of(name) });
        };
        self.accept(name, value, source, parse)
    }

    /// Returns a setting that may be left out.
    pub fn optional<T, E: Display>(
        &mut self,
        name: &'static str,
        flag: Option<String>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, SettingError> {
        let Some((value, source)) = self.find(name, flag) else {
            self.resolved.push(Setting { name, value: None, source: Source::Default });
            return Ok(None);
        };
        self.accept(name, value, source, parse).map(Some)
    }

    /// Returns all resolved settings. Call it after the last one was read: any other key of the file is an error.
    pub fn finish(self) -> Result<Vec<Setting>, SettingError> {
        let allowed: Vec<&'static str> = self.resolved.iter().map(|setting| setting.name).collect();
        if let Some(file) = self.file {
            let is_unknown = |key: &String| !allowed.contains(&key.as_str());
            let unknown: Vec<String> = file.values.into_keys().filter(is_unknown).collect();
            if !unknown.is_empty() {
                return Err(SettingError::UnknownKeys { path: file.path, unknown, allowed });
            }
        }
        Ok(self.resolved)
    }

    fn find(&self, name: &str, flag: Option<String>) -> Option<(String, Source)> {
        if let Some(value) = flag {
            return Some((value, Source::Flag(flag_of(name))));
        }
        let variable = variable_of(name);
        if let Some(value) = self.environment.get(&variable) {
            return Some((value.clone(), Source::Environment(variable)));
        }
        let file = self.file.as_ref()?;
        file.values.get(name).map(|value| (value.clone(), Source::File(file.path.clone())))
    }

    fn accept<T, E: Display>(
        &mut self,
        name: &'static str,
        value: String,
        source: Source,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, SettingError> {
        match parse(&value) {
            Ok(parsed) => {
                self.resolved.push(Setting { name, value: Some(value), source });
                Ok(parsed)
            }
            Err(error) => {
                Err(SettingError::Invalid { name, value, origin: source, reason: error.to_string() })
            }
        }
    }
}

fn flag_of(name: &str) -> String {
    format!("--{}", name.replace(['.', '_'], "-"))
}

fn variable_of(name: &str) -> String {
    format!("{PREFIX}{}", name.replace(['.', '-'], "_").to_uppercase())
}

fn our_environment() -> Result<Vec<(String, String)>, SettingError> {
    let mut ours = Vec::new();
    for (variable, value) in std::env::vars_os() {
        // A variable whose name is not UTF-8 cannot be one of ours.
        let Some(variable) = variable.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let not_unicode = |_| SettingError::NotUnicode { variable: variable.to_owned() };
        ours.push((variable.to_owned(), value.into_string().map_err(not_unicode)?));
    }
    Ok(ours)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;
    use std::time::Duration;

    use std::path::PathBuf;

    use super::*;
    use crate::config::units::parse_duration;

    fn layers(environment: &[(&str, &str)], file: &str) -> Layers {
        let environment = environment.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Layers::from_parts(environment, Some((Path::new("rustle.toml"), file))).unwrap()
    }

    #[test]
    fn each_layer_yields_to_the_one_before_it() {
        let file = "[worker]\nwait = \"3s\"";
        let environment = [("RUSTLE_WORKER_WAIT", "2s")];
        let cases: [(Option<&str>, &[_], &str, u64, &str); 4] = [
            (Some("1s"), &environment, file, 1, "flag --worker-wait"),
            (None, &environment, file, 2, "environment RUSTLE_WORKER_WAIT"),
            (None, &[], file, 3, "file rustle.toml"),
            (None, &[], "", 4, "default"),
        ];
        for (flag, environment, file, seconds, origin) in cases {
            let mut layers = layers(environment, file);
            let wait =
                layers.with_default("worker.wait", flag.map(String::from), "4s", parse_duration).unwrap();
            assert_eq!(wait, Duration::from_secs(seconds));
            let rows = layers.finish().unwrap();
            assert_eq!((rows[0].name, rows[0].source.to_string().as_str()), ("worker.wait", origin));
            assert_eq!(rows[0].value, Some(format!("{seconds}s")));
        }
    }

    #[test]
    fn unknown_keys_are_errors() {
        let mut layers = layers(&[], "port = 1\nprot = 2");
        layers.required("port", None, u16::from_str).unwrap();
        let error = layers.finish().unwrap_err().to_string();
        assert!(error.contains("prot;") && error.contains("allowed: port"), "{error}");
    }

    #[test]
    fn a_bad_value_is_named_with_its_source() {
        let error =
            layers(&[("RUSTLE_PORT", "70000")], "").required("port", None, u16::from_str).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("70000") && message.contains("RUSTLE_PORT"), "{message}");
    }

    #[test]
    fn a_missing_setting_says_how_to_give_it() {
        let error = layers(&[], "").required("metrics_port", None, u16::from_str).unwrap_err().to_string();
        assert!(error.contains("--metrics-port") && error.contains("RUSTLE_METRICS_PORT"), "{error}");
    }

    #[test]
    fn an_optional_setting_that_is_absent_still_has_a_row() {
        let mut layers = layers(&[], "");
        assert_eq!(layers.optional("key_file", None, PathBuf::from_str).unwrap(), None);
        assert_eq!(layers.finish().unwrap()[0].value, None);
    }
}
