//! Arguments of native methods, judged as those of functions written in Python are: by `rustle._arguments`.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::error::Result;

/// Calls a check of `rustle._arguments` on an argument.
fn checked<'py>(check: &str, name: &str, value: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    let module = value.py().import("rustle._arguments")?;
    Ok(module.getattr(check)?.call1((name, value))?)
}

/// Returns a real number.
pub fn number(name: &str, value: &Bound<'_, PyAny>) -> Result<f64> {
    Ok(checked("number", name, value)?.extract()?)
}

/// Returns a whole number, 1 or more.
pub fn count(name: &str, value: &Bound<'_, PyAny>) -> Result<u64> {
    let module = value.py().import("rustle._arguments")?;
    Ok(module.getattr("whole")?.call1((name, value, 1))?.extract()?)
}

/// Returns whole numbers, each 0 or more.
pub fn wholes(name: &str, value: &Bound<'_, PyAny>) -> Result<Vec<u64>> {
    Ok(checked("wholes", name, value)?.extract()?)
}

/// Returns a bool.
pub fn flag(name: &str, value: &Bound<'_, PyAny>) -> Result<bool> {
    Ok(checked("flag", name, value)?.extract()?)
}

/// Returns a text.
pub fn text(name: &str, value: &Bound<'_, PyAny>) -> Result<String> {
    Ok(checked("text", name, value)?.extract()?)
}

/// Returns a path.
pub fn path(name: &str, value: &Bound<'_, PyAny>) -> Result<PathBuf> {
    Ok(checked("path", name, value)?.extract()?)
}

/// Returns names and shapes of parameters.
pub fn parameters(value: &Bound<'_, PyAny>) -> Result<Vec<(String, Vec<u64>)>> {
    let module = value.py().import("rustle._arguments")?;
    Ok(module.getattr("parameters")?.call1((value,))?.extract()?)
}
