//! A TOML file as flat text values: the key `port` of the table `[worker]` is `worker.port`.
//!
//! Values become text so that a setting has one parser, whichever layer it comes from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::config::setting_error::SettingError;

#[derive(Debug)]
pub(crate) struct SettingFile {
    pub(crate) path: PathBuf,
    pub(crate) values: BTreeMap<String, String>,
}

impl SettingFile {
    pub(crate) fn parse(path: &Path, text: &str) -> Result<SettingFile, SettingError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| SettingError::FileSyntax {
            path: path.to_owned(),
            reason: error.to_string().trim_end().to_owned(),
        })?;
        let mut file = SettingFile { path: path.to_owned(), values: BTreeMap::new() };
        file.flatten("", table)?;
        Ok(file)
    }

    fn flatten(&mut self, prefix: &str, table: Table) -> Result<(), SettingError> {
        for (key, value) in table {
            let name = format!("{prefix}{key}");
            match value {
                Value::Table(inner) => self.flatten(&format!("{name}."), inner)?,
                other => {
                    let text = as_text(other).ok_or_else(|| SettingError::FileValue {
                        path: self.path.clone(),
                        name: name.clone(),
                    })?;
                    if self.values.insert(name.clone(), text).is_some() {
                        return Err(SettingError::GivenTwice { path: self.path.clone(), name });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Converts an array to its items joined by commas, as a flag is written, so no item may hold a comma.
fn as_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.into_iter().map(scalar_as_text).collect();
            items.filter(|items| !items.iter().any(|item| item.contains(','))).map(|items| items.join(","))
        }
        scalar => scalar_as_text(scalar),
    }
}

fn scalar_as_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(truth) => Some(truth.to_string()),
        Value::Datetime(time) => Some(time.to_string()),
        Value::Array(_) | Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SettingFile, SettingError> {
        SettingFile::parse(Path::new("rustle.toml"), text)
    }

    #[test]
    fn tables_and_arrays_become_flat_text() {
        let file =
            parse("port = 7\npeers = [\"a:1\", \"b:2\"]\n[worker]\nratio = 0.5\npublic = true").unwrap();
        let values: Vec<_> =
            file.values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected =
            [("peers", "a:1,b:2"), ("port", "7"), ("worker.public", "true"), ("worker.ratio", "0.5")];
        assert_eq!(values, expected);
    }

    #[test]
    fn what_cannot_be_text_is_refused_by_name() {
        for text in ["peers = [\"a,b\"]", "peers = [[1]]", "peers = [{a = 1}]"] {
            let error = parse(text).unwrap_err();
            assert!(
                matches!(error, SettingError::FileValue { .. }) && error.to_string().contains("peers"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_quoted_key_cannot_shadow_a_table() {
        let error = parse("\"worker.port\" = 1\n[worker]\nport = 2").unwrap_err();
        assert!(
            matches!(error, SettingError::GivenTwice { .. }) && error.to_string().contains("worker.port")
        );
    }

    #[test]
    fn a_syntax_error_names_the_file() {
        let error = parse("port 7").unwrap_err();
        assert!(error.to_string().contains("rustle.toml"), "{error}");
    }
}
