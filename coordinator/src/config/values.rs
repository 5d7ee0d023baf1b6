//! Values of settings, read.

use std::convert::Infallible;

pub fn store_url(text: &str) -> Result<Option<String>, Infallible> {
    Ok(Some(text.to_owned()).filter(|url| !url.is_empty() && url != "none"))
}

pub fn probability(text: &str) -> Result<f64, String> {
    let allowed = || "allowed: strictly between 0 and 1".to_owned();
    text.parse().ok().filter(|&delta: &f64| delta > 0.0 && delta < 1.0).ok_or_else(allowed)
}

pub fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&count| count >= 1).ok_or_else(|| "allowed: 1 or more".to_owned())
}
