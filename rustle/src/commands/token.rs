//! `rustle token`: creates, lists and revokes bearer tokens.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand, ValueEnum};
use node::auth::{CallerRole, TokenEntry, Tokens, digest_of};
use node::process::secret::SecretBytes;
use proto::{JobId, PersonId, TenantId};
use zeroize::Zeroizing;

use super::harden::harden;
use crate::out_file;
use crate::output::{Answer, Format, bad_use};
use crate::values::{self, Span};

mod list;
mod revoke;

#[derive(Clone, Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token, and add its digest to a coordinator's tokens file
    New(NewArgs),
    /// List what the tokens of a file grant, and when they end
    List(list::ListArgs),
    /// Remove tokens from a tokens file, for good: a coordinator notices within a second
    Revoke(revoke::RevokeArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  \
    rustle token new --role trainer --job digits --out digits.token --tokens-file tokens")]
pub struct NewArgs {
    /// Role of the caller
    #[arg(long, value_enum)]
    role: TokenRole,
    /// Job for which the token is valid; not with --role worker [default: all]
    #[arg(long, conflicts_with = "worker")]
    job: Option<JobId>,
    /// Worker for which the token is valid; with --role worker only [default: all]
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Tenant that an operator or a trainer acts for: jobs that it creates are charged to the tenant's share of a data set's budget,
    /// and it rewinds no job of others [default: none]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<TenantId>,
    /// Person who holds the token, with --role approver, operator or trainer; name one person alike in all of that person's tokens,
    /// since a change that takes two persons takes two names [default: none]
    #[arg(long, value_name = "PERSON", required_if_eq("role", "approver"))]
    person: Option<PersonId>,
    /// Coordinates that a trainer may fetch through the coordinator [default: all]
    #[arg(long, value_name = "A..B")]
    range: Vec<Span>,
    /// Time until the token expires, such as 12h or 30d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = values::duration_in_days)]
    life: Option<Duration>,
    /// File to create for the token, mode 0400; an existing file is never overwritten
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// File to add the digest to: the coordinator's --tokens-file; created if missing
    #[arg(long, value_name = "FILE")]
    tokens_file: PathBuf,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum TokenRole {
    Trainer,
    Operator,
    Auditor,
    Worker,
    /// Consents to changes of budgets that another person makes
    Approver,
}

impl TokenRole {
    fn of_caller(self) -> CallerRole {
        match self {
            Self::Trainer => CallerRole::Trainer,
            Self::Operator => CallerRole::Operator,
            Self::Auditor => CallerRole::Auditor,
            Self::Worker => CallerRole::Worker,
            Self::Approver => CallerRole::Approver,
        }
    }

    fn is(self, role: CallerRole) -> bool {
        self.of_caller() == role
    }
}

impl TokenCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        let args = match self {
            Self::New(args) => args,
            Self::List(args) => {
                args.run(format)?;
                return Ok(ExitCode::SUCCESS);
            }
            Self::Revoke(args) => {
                harden()?;
                args.run()?.print(format)?;
                return Ok(ExitCode::SUCCESS);
            }
        };
        harden()?;
        let entry = new(&args)?;
        Answer::new()
            .with("token_file", args.out.display().to_string())
            .with("tokens_file", args.tokens_file.display().to_string())
            .with("sha256", entry.sha256)
            .print(format)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn new(args: &NewArgs) -> anyhow::Result<TokenEntry> {
    let is_worker = args.role == TokenRole::Worker;
    let refusals = [
        (!is_worker && args.worker.is_some(), "--worker is given; allowed: with --role worker"),
        (
            is_worker && args.job.is_some(),
            "--job is given; allowed: with --role trainer, operator or auditor",
        ),
        (
            !args.range.is_empty() && args.role != TokenRole::Trainer,
            "--range is given; allowed: with --role trainer",
        ),
        (
            args.tenant.is_some() && !matches!(args.role, TokenRole::Operator | TokenRole::Trainer),
            "--tenant is given; allowed: with --role operator or trainer",
        ),
        (
            args.person.is_some() && matches!(args.role, TokenRole::Auditor | TokenRole::Worker),
            "--person is given; allowed: with --role approver, operator or trainer",
        ),
        (
            args.role == TokenRole::Approver && args.job.is_some(),
            "--job is given; allowed: with --role trainer, operator or auditor",
        ),
        (
            args.life.is_some_and(|life| life.is_zero()),
            "--life is 0; allowed: a longer time, such as 12h or 30d",
        ),
    ];
    if let Some((_, refusal)) = refusals.iter().find(|(is_refused, _)| *is_refused) {
        return Err(bad_use(refusal));
    }
    out_file::refuse_stdout(&args.out, "a token")?;
    let token = draw()?;
    let expires = args.life.map(|life| SystemTime::now() + life);
    let expires = expires.map(|at| at.duration_since(UNIX_EPOCH).map(|since| since.as_secs())).transpose()?;
    let ranges: Vec<_> = args.range.iter().map(|Span(range)| (range.start, range.end)).collect();
    let entry = TokenEntry {
        sha256: digest_of(token.as_bytes()),
        role: args.role.of_caller(),
        name: args.job.as_ref().map(JobId::to_string).or_else(|| args.worker.clone()),
        expires,
        ranges: Some(ranges).filter(|ranges| !ranges.is_empty()),
        tenant: args.tenant.clone(),
        person: args.person.clone(),
    };
    // The token first: if the second write fails, the token is worthless, and no digest lacks its token.
    write(&args.out, &token)?;
    append(&args.tokens_file, &entry)?;
    Ok(entry)
}

fn draw() -> anyhow::Result<Zeroizing<String>> {
    let bytes = SecretBytes::<32>::random()
        .map_err(|error| anyhow::anyhow!("the operating system's randomness: {error}"))?;
    let mut token = Zeroizing::new(String::with_capacity(64));
    token.push_str("rustle_");
    URL_SAFE_NO_PAD.encode_string(bytes.expose_secret(), &mut token);
    Ok(token)
}

fn write(path: &Path, token: &str) -> anyhow::Result<()> {
    let named = || format!("token file {}", path.display());
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o400).open(path).with_context(named)?;
    file.write_all(token.as_bytes()).and_then(|()| file.sync_all()).with_context(named)
}

fn append(path: &Path, entry: &TokenEntry) -> anyhow::Result<()> {
    let named = || format!("tokens file {}", path.display());
    if path.exists() {
        // A file that a coordinator would refuse is not extended.
        Tokens::load(path)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).with_context(named)?;
    let line = format!("{}\n", serde_json::to_string(entry)?);
    file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).with_context(named)
}
