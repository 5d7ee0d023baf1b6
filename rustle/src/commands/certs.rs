//! `rustle certs`: certificates for a cluster that has no other authority.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use node::auth::Role;
use proto::JobId;

use super::harden::harden;
use crate::certs::Authority;
use crate::output::{Answer, Format};

#[derive(Clone, Debug, Subcommand)]
pub enum CertsCommand {
    /// Make an authority, and a folder for --tls-dir of each process and person
    New {
        /// Where to; a folder that holds an authority already is left alone
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Workers worker-0, worker-1, …
        #[arg(long, default_value_t = 2)]
        workers: u16,
        /// Jobs, each with a certificate that binds and fetches its rows alone
        #[arg(long, value_name = "JOB")]
        job: Vec<JobId>,
        #[command(flatten)]
        terms: Terms,
    },
    /// Make one certificate more, or a new one in place of an old
    Issue {
        /// Folder of the authority, as `certs new` made it
        #[arg(long, value_name = "DIR")]
        authority: PathBuf,
        /// coordinator, worker/NAME, job/JOB, operator, auditor or scraper
        #[arg(long, value_parser = parse_role)]
        role: Role,
        /// Folder for --tls-dir
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        #[command(flatten)]
        terms: Terms,
    },
}

#[derive(Args, Clone, Debug)]
pub struct Terms {
    /// How long certificates are good for: short lives do what revocation would
    #[arg(long, default_value = "30d", value_parser = parse_life)]
    life: Duration,
    /// Whose identities these are; all of a cluster's share one
    #[arg(long, default_value = "rustle")]
    trust_domain: String,
}

impl CertsCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        harden()?;
        let answer = match self {
            Self::New { out, workers, job, terms } => new(&out, workers, &job, &terms)?,
            Self::Issue { authority, role, out, terms } => {
                Authority::open(&authority, &terms.trust_domain)?.issue(&out, &role, terms.life)?;
                Answer::new().with("role", role.to_string()).with("tls_dir", out.display().to_string())
            }
        };
        answer.print(format)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn new(out: &Path, workers: u16, jobs: &[JobId], terms: &Terms) -> anyhow::Result<Answer> {
    let authority = Authority::create(out, &terms.trust_domain)?;
    let mut roles = vec![Role::Coordinator, Role::Operator, Role::Auditor];
    roles.extend((0..workers).map(|index| Role::Worker(format!("worker-{index}"))));
    roles.extend(jobs.iter().map(|job| Role::Job(job.to_string())));
    let mut dirs = Vec::new();
    for role in &roles {
        let dir = out.join(folder(role));
        authority.issue(&dir, role, terms.life)?;
        dirs.push(dir.display().to_string());
    }
    Ok(Answer::new().with("authority", out.display().to_string()).with("tls_dirs", dirs))
}

/// Of a role's files in the folder of its authority.
pub fn folder(role: &Role) -> String {
    match role {
        Role::Worker(name) => name.clone(),
        role => role.to_string().replace('/', "-"),
    }
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::parse(text)
        .ok_or_else(|| "allowed: coordinator, worker/NAME, job/JOB, operator, auditor, scraper".to_owned())
}

/// Days too, which other durations don't need.
fn parse_life(text: &str) -> Result<Duration, String> {
    match text.strip_suffix('d').map(str::parse::<u32>) {
        Some(Ok(days)) if days > 0 => Ok(Duration::from_secs(u64::from(days) * 86_400)),
        _ => node::config::units::parse_duration(text).map_err(|error| error.to_string()),
    }
}
