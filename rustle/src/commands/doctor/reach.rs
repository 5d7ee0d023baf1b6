//! What answers: the coordinator with its version, clock and health, and the workers.

use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use time::OffsetDateTime;

use super::{Check, Verdict};

/// Longest time for a connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// Seconds between two clocks from which certificates and tokens may be judged differently, and from which they will.
const CLOCKS_APART: u64 = 5;
const CLOCKS_FAR_APART: u64 = 60;

/// Judges the coordinator's status.
pub fn of_status(status: &Value) -> Vec<Check> {
    let mut checks = vec![version(status), clock(status, SystemTime::now())];
    let problems = status["problems"].as_array().map(Vec::as_slice).unwrap_or_default();
    if problems.is_empty() {
        checks.push(Check::ok("health", "the coordinator sees no problem"));
    }
    for problem in problems {
        let word = |name: &str| problem[name].as_str().unwrap_or("-").to_owned();
        let verdict = if problem["severity"] == "critical" { Verdict::Bad } else { Verdict::Warn };
        checks.push(Check::new("health", verdict, word("what"), word("next_step")));
    }
    checks.extend(status["workers"].as_array().into_iter().flatten().map(worker));
    checks
}

fn version(status: &Value) -> Check {
    let own = env!("CARGO_PKG_VERSION");
    let theirs = status["version"].as_str().unwrap_or("unknown");
    let protocol = status["protocol_version"].as_u64();
    let what = format!("the coordinator answers; its version is {theirs}, this program's {own}");
    if protocol != Some(u64::from(proto::PROTOCOL_VERSION)) {
        return Check::new("version", Verdict::Bad, what, "use the program of the coordinator's version");
    }
    if theirs != own {
        return Check::new(
            "version",
            Verdict::Warn,
            what,
            "one version for all processes is best (docs/operations.md, Upgrade)",
        );
    }
    Check::ok("version", what)
}

fn clock(status: &Value, now: SystemTime) -> Check {
    let now = OffsetDateTime::from(now).unix_timestamp();
    let Some(theirs) = status["time"].as_str().and_then(seconds_of) else {
        return Check::new(
            "clock",
            Verdict::Warn,
            "the coordinator does not state its time",
            "bring it to this version",
        );
    };
    let apart = theirs.abs_diff(now);
    let what = format!("this clock and the coordinator's are {apart} s apart");
    let next_step = "set both by NTP: certificates and tokens end by each machine's own clock";
    match apart {
        0..CLOCKS_APART => Check::ok("clock", what),
        CLOCKS_APART..CLOCKS_FAR_APART => Check::new("clock", Verdict::Warn, what, next_step),
        _ => Check::new("clock", Verdict::Bad, what, next_step),
    }
}

/// Returns the seconds since 1970 of a moment as [`node::process::timestamp::rfc3339`] writes it.
fn seconds_of(text: &str) -> Option<i64> {
    let part = |range: std::ops::Range<usize>| text.get(range)?.parse::<u8>().ok();
    let month = time::Month::try_from(part(5..7)?).ok()?;
    let date = time::Date::from_calendar_date(text.get(..4)?.parse().ok()?, month, part(8..10)?).ok()?;
    let time = time::Time::from_hms(part(11..13)?, part(14..16)?, part(17..19)?).ok()?;
    Some(OffsetDateTime::new_utc(date, time).unix_timestamp())
}

fn worker(worker: &Value) -> Check {
    let name = worker["worker"].as_str().unwrap_or("-");
    let endpoint = worker["endpoint"].as_str().unwrap_or("-");
    match connect(endpoint) {
        Ok(()) => Check::ok("worker", format!("{name} at {endpoint} accepts connections from here")),
        Err(error) => Check::new(
            "worker",
            Verdict::Bad,
            format!("{name} at {endpoint} can't be reached from here: {error}"),
            "open its port, or give it the address that trainers reach: --advertise",
        ),
    }
}

fn connect(endpoint: &str) -> std::io::Result<()> {
    if let Some(path) = endpoint.strip_prefix("unix:") {
        return UnixStream::connect(path.trim_start_matches("//")).map(drop);
    }
    let mut last = std::io::Error::other("its name has no address");
    for address in authority(endpoint).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn authority(url: &str) -> &str {
    url.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/')
}

/// Judges a coordinator that does not answer: whether one could be started there.
pub fn without_answer(urls: &str, error: &str) -> Vec<Check> {
    let next_step = "start one (rustle up, or rustle coordinator), or name another by --coordinator";
    let mut checks = vec![Check::new("coordinator", Verdict::Bad, error, next_step)];
    checks.extend(urls.split(',').filter_map(|url| port(url.trim())));
    checks
}

/// Looks at whether a port of this machine is free.
fn port(url: &str) -> Option<Check> {
    let address: SocketAddr =
        authority(url).to_socket_addrs().ok()?.find(|address| address.ip().is_loopback())?;
    Some(match TcpListener::bind(address) {
        Ok(_) => Check::ok("port", format!("{address} is free")),
        Err(error) => Check::new(
            "port",
            Verdict::Bad,
            format!("{address} is taken by a process that is no coordinator of these certificates: {error}"),
            "end it, or take another port: --listen",
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clocks_and_versions_are_compared() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000);
        for (time, verdict) in [
            ("2026-09-21T14:13:24Z", Verdict::Ok),
            ("2026-09-21T14:13:15Z", Verdict::Warn),
            ("2026-09-21T14:14:20Z", Verdict::Bad),
            ("soon", Verdict::Warn),
        ] {
            assert_eq!(clock(&json!({ "time": time }), now).verdict, verdict, "{time}");
        }
        let of = |version: &str, protocol: u32| {
            super::version(&json!({ "version": version, "protocol_version": protocol })).verdict
        };
        assert_eq!(of(env!("CARGO_PKG_VERSION"), proto::PROTOCOL_VERSION), Verdict::Ok);
        assert_eq!(of("9.9.9", proto::PROTOCOL_VERSION), Verdict::Warn);
        assert_eq!(of(env!("CARGO_PKG_VERSION"), proto::PROTOCOL_VERSION + 1), Verdict::Bad);
    }

    #[test]
    fn a_port_that_is_taken_is_told_from_a_free_one() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", taken.local_addr().unwrap());
        assert_eq!(port(&url).unwrap().verdict, Verdict::Bad);
        assert!(connect(&url).is_ok());
        drop(taken);
        assert!(connect(&url).is_err());
        assert!(port("http://192.0.2.1:7300").is_none(), "another machine's port can't be tried");
    }
}
