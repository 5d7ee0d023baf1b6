//! Parsers and checks of settings.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::ensure;

pub(super) fn store_url(text: &str) -> Result<Option<String>, Infallible> {
    Ok(Some(text.to_owned()).filter(|url| !url.is_empty() && url != "none"))
}

pub(super) fn probability(text: &str) -> Result<f64, String> {
    let allowed = || "allowed: strictly between 0 and 1".to_owned();
    text.parse().ok().filter(|&delta: &f64| delta > 0.0 && delta < 1.0).ok_or_else(allowed)
}

pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&count| count >= 1).ok_or_else(|| "allowed: 1 or more".to_owned())
}

pub(super) fn check_times(
    heartbeat: Duration,
    lease_ttl: Duration,
    token_ttl: Duration,
) -> anyhow::Result<()> {
    ensure!(heartbeat >= Duration::from_millis(10), "heartbeat is {heartbeat:?}; allowed: 10ms or longer");
    ensure!(
        lease_ttl >= heartbeat * 3,
        "lease_ttl is {lease_ttl:?}; allowed: at least three heartbeats of {heartbeat:?}"
    );
    ensure!(token_ttl >= Duration::from_millis(100), "token_ttl is {token_ttl:?}; allowed: 100ms or longer");
    Ok(())
}
