//! Certificates, tokens and keys of this machine.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use node::auth::Bearer;
use node::process::timestamp::rfc3339;
use node::tls::{CertificateFacts, Credentials};

use super::{Check, Verdict};
use crate::access::AccessArgs;
use crate::key_file;

const DAY: Duration = Duration::from_secs(86_400);

/// Looks at the TLS files that the flags name.
pub fn certificate(access: &AccessArgs) -> anyhow::Result<Check> {
    const NAME: &str = "certificate";
    let Some(files) = access.tls_files()? else {
        return Ok(Check::ok(NAME, "none: without --tls-dir, connections stay on this machine"));
    };
    let facts = match CertificateFacts::of_file(&files.cert) {
        Ok(facts) => facts,
        Err(error) => {
            return Ok(Check::new(NAME, Verdict::Bad, error.to_string(), "rustle certs issue makes another"));
        }
    };
    if let Err(error) = Credentials::load(files.clone()) {
        let next_step = "take ca.pem, cert.pem and key.pem of one rustle certs issue, key.pem with mode 0400";
        return Ok(Check::new(NAME, Verdict::Bad, error.to_string(), next_step));
    }
    Ok(of_facts(&facts, &files.cert.display().to_string(), SystemTime::now()))
}

fn of_facts(facts: &CertificateFacts, file: &str, now: SystemTime) -> Check {
    const NAME: &str = "certificate";
    let role = facts.identity.as_ref().map_or("no role".to_owned(), |identity| identity.role.to_string());
    let what = format!("{file}: {role}, valid from {} to {}", rfc3339(facts.begins), rfc3339(facts.ends));
    let renew = "rustle certs issue renews it";
    match facts.left(now) {
        _ if now < facts.begins => {
            Check::new(NAME, Verdict::Bad, what, "it is not valid yet: is this machine's clock right?")
        }
        left if left.is_zero() => Check::new(NAME, Verdict::Bad, format!("{what}: it has ended"), renew),
        left if left < 2 * DAY => {
            Check::new(NAME, Verdict::Bad, format!("{what}: it ends within two days"), renew)
        }
        left if left < 14 * DAY => {
            Check::new(NAME, Verdict::Warn, format!("{what}: it ends within 14 days"), renew)
        }
        _ => Check::ok(NAME, what),
    }
}

/// Looks at the file of the bearer token.
pub fn token(access: &AccessArgs) -> Option<Check> {
    let file = access.token_file()?;
    Some(match Bearer::from_file(file) {
        Ok(_) => Check::ok("token", format!("{} can be read by its owner alone", file.display())),
        Err(error) => Check::new(
            "token",
            Verdict::Bad,
            error.to_string(),
            "a file of one token with mode 0400; rustle token new makes one",
        ),
    })
}

/// Looks at the job's key.
pub fn key(file: &Option<PathBuf>) -> Option<Check> {
    let file = file.as_ref()?;
    Some(match key_file::read(file) {
        Ok(key) => {
            let commitment = hex::encode(&key.commitment()[..6]);
            Check::ok(
                "key",
                format!("{} is readable by its owner alone; commitment {commitment}…", file.display()),
            )
        }
        Err(error) => {
            let what = crate::output::without_repeats(&error);
            Check::new(
                "key",
                Verdict::Bad,
                what,
                "32 bytes with mode 0400 or 0600; rustle key new makes one for a new job",
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_judged_by_what_is_left_of_it() {
        let begins = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        let facts = CertificateFacts {
            subject: String::new(),
            names: Vec::new(),
            identity: None,
            begins,
            ends: begins + 30 * DAY,
        };
        for (day, verdict) in
            [(1, Verdict::Ok), (16, Verdict::Ok), (17, Verdict::Warn), (29, Verdict::Bad), (31, Verdict::Bad)]
        {
            let check = of_facts(&facts, "cert.pem", begins + day * DAY);
            assert_eq!(check.verdict, verdict, "day {day}: {check:?}");
            assert_eq!(check.next_step.is_empty(), verdict == Verdict::Ok);
        }
        assert_eq!(of_facts(&facts, "cert.pem", begins - DAY).verdict, Verdict::Bad);
    }
}
