//! `rustle certs`: a certificate authority for a cluster that has no other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use node::auth::Role;
use node::process::timestamp::rfc3339;
use node::tls::CertificateFacts;
use proto::JobId;

use super::harden::harden;
use crate::certs::Authority;
use crate::output::{Answer, Format};
use crate::values;

#[derive(Clone, Debug, Subcommand)]
pub enum CertsCommand {
    /// Create an authority, and a certificate for every process and role
    New {
        /// Folder to create the authority in; refused if it holds one already
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Number of workers, which are named worker-0, worker-1, …
        #[arg(long, value_name = "W", default_value_t = 2)]
        workers: u16,
        /// Name of a job to create a certificate for; may be repeated [default: none]
        #[arg(long, value_name = "JOB")]
        job: Vec<JobId>,
        #[command(flatten)]
        terms: Terms,
    },
    /// Create or replace one certificate
    Issue {
        /// Folder of the authority, as `rustle certs new` created it
        #[arg(long, value_name = "DIR")]
        authority: PathBuf,
        /// Role: coordinator, worker/NAME, job/JOB, operator, operator/TENANT, auditor or scraper
        #[arg(long, value_name = "ROLE", value_parser = parse_role)]
        role: Role,
        /// Folder to write ca.pem, cert.pem and key.pem to, for --tls-dir
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        #[command(flatten)]
        terms: Terms,
    },
    /// Show what a certificate says: whom it is for, and when it ends
    Show {
        /// PEM file of a certificate, or a folder with cert.pem
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Args, Clone, Debug)]
pub struct Terms {
    /// Time until certificates expire, such as 12h or 30d
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = values::duration_in_days)]
    life: Duration,
    /// Trust domain of the identities; the same for a whole cluster
    #[arg(long, value_name = "NAME", default_value = "rustle", value_parser = trust_domain)]
    trust_domain: String,
}

impl CertsCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        harden()?;
        let answer = match self {
            Self::Show { file } => show(&file)?,
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

/// Returns the facts of the first certificate of a file.
fn show(file: &Path) -> anyhow::Result<Answer> {
    let file = if file.is_dir() { certificate_in(file)? } else { file.to_owned() };
    let facts = CertificateFacts::of_file(&file)?;
    let now = SystemTime::now();
    Ok(Answer::new()
        .with("file", file.display().to_string())
        .with("subject", facts.subject.clone())
        .with("names", facts.names.clone())
        .with("role", facts.identity.as_ref().map(|identity| identity.role.to_string()))
        .with("trust_domain", facts.identity.as_ref().map(|identity| identity.trust_domain.clone()))
        .with("begins", rfc3339(facts.begins))
        .with("ends", rfc3339(facts.ends))
        .with("days_left", facts.left(now).as_secs() / 86_400)
        .with("expired", facts.ends < now))
}

/// Returns the certificate in a folder. Error: it is in folders beneath, as `rustle certs new` makes them, which are named.
fn certificate_in(folder: &Path) -> anyhow::Result<PathBuf> {
    let file = folder.join("cert.pem");
    if file.exists() {
        return Ok(file);
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("folder {}", folder.display()))?;
    let mut beneath: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    beneath.retain(|path| path.join("cert.pem").exists());
    beneath.sort();
    let names: Vec<_> = beneath.iter().map(|path| path.display().to_string()).collect();
    let shown = folder.display();
    if names.is_empty() {
        bail!("folder {shown} has no cert.pem; allowed: a file, or a folder with cert.pem");
    }
    bail!(
        "folder {shown} has no cert.pem; allowed: one of the folders in it that have one: {}",
        names.join(", ")
    )
}

/// Returns the name of a role's folder in the folder of its authority.
pub fn folder(role: &Role) -> String {
    match role {
        Role::Worker(name) => name.clone(),
        role => role.to_string().replace('/', "-"),
    }
}

fn trust_domain(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    if (1..=255).contains(&text.len()) && text.bytes().all(is_allowed) {
        return Ok(text.to_owned());
    }
    Err("allowed: 1 to 255 lower-case letters, digits, dots, dashes and underscores".to_owned())
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| {
        "allowed: coordinator, worker/NAME, job/JOB, operator, operator/TENANT, auditor, scraper".to_owned()
    })
}
