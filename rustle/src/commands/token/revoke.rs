//! `rustle token revoke`: takes tokens out of a tokens file.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use node::auth::{TokenEntry, Tokens, digest_of};
use proto::{JobId, PersonId, TenantId};
use rustix::fs::{Gid, Uid, fchown};
use zeroize::Zeroizing;

use super::TokenRole;
use crate::commands::confirm::ConfirmArgs;
use crate::output::{Answer, bad_use};

/// Digits of a digest that name one token.
const LEAST_DIGITS: usize = 12;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  rustle token revoke --tokens-file tokens --job digits")]
pub struct RevokeArgs {
    /// File of token digests: the coordinator's --tokens-file
    #[arg(long, value_name = "FILE")]
    tokens_file: PathBuf,
    /// The token with this digest, of which the first 12 digits or more are given, as `rustle token list` shows them
    #[arg(long, value_name = "DIGITS")]
    sha256: Option<String>,
    /// The token in this file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Tokens of this role
    #[arg(long, value_enum)]
    role: Option<TokenRole>,
    /// Tokens of this job alone
    #[arg(long, conflicts_with = "worker")]
    job: Option<JobId>,
    /// Tokens of this worker alone
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Tokens of this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<TenantId>,
    /// Tokens of this person
    #[arg(long, value_name = "PERSON")]
    person: Option<PersonId>,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl RevokeArgs {
    /// Removes the tokens that all given flags describe. Errors: no flag, no such token, a file that a coordinator would refuse, an
    /// answer that is not yes. Then the file is as it was.
    pub fn run(&self) -> anyhow::Result<Answer> {
        let shown = self.tokens_file.display();
        let digest = self.digest()?;
        if digest.is_none() && self.describes_none() {
            return Err(bad_use(
                "nothing says which tokens: allowed: --sha256, --token-file, --role, --job, --worker, --tenant or --person, where \
                 several describe the tokens that all of them do",
            ));
        }
        Tokens::load(&self.tokens_file)?;
        let named = || format!("tokens file {shown}");
        let text = fs::read_to_string(&self.tokens_file).with_context(named)?;
        let mut kept = String::new();
        let mut revoked = Vec::new();
        for line in text.split_inclusive('\n') {
            let entry = if line.trim().is_empty() {
                None
            } else {
                Some(serde_json::from_str(line).with_context(named)?)
            };
            match entry.filter(|entry| self.describes(entry, digest.as_deref())) {
                Some(entry) => revoked.push(entry),
                None => kept.push_str(line),
            }
        }
        if revoked.is_empty() {
            bail!(
                "{} has no such token; `rustle token list --tokens-file {shown}` shows those that there are",
                named()
            );
        }
        let described: Vec<_> = revoked.iter().map(described).collect();
        self.confirm.ask(&format!(
            "Revoking can't be undone: a token that is revoked is never accepted again. A coordinator notices within a second, once \
             its own --tokens-file changes; calls that are under way end as they would have. Of {shown}:\n  {}.",
            described.join(";\n  ")
        ))?;
        replace(&self.tokens_file, kept.as_bytes()).with_context(named)?;
        let digests: Vec<_> = revoked.iter().map(|entry| entry.sha256.clone()).collect();
        Ok(Answer::new()
            .with("tokens_file", shown.to_string())
            .with("revoked", digests)
            .with("tokens_left", kept.lines().filter(|line| !line.trim().is_empty()).count()))
    }

    fn describes_none(&self) -> bool {
        let Self { role, job, worker, tenant, person, .. } = self;
        role.is_none() && job.is_none() && worker.is_none() && tenant.is_none() && person.is_none()
    }

    /// Returns the beginning of the digest of the one token that is named.
    fn digest(&self) -> anyhow::Result<Option<String>> {
        let given = self.sha256.as_ref().map(|digits| digits.to_lowercase());
        if let Some(digits) = &given {
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_hex || !(LEAST_DIGITS..=64).contains(&digits.len()) {
                return Err(bad_use(format!(
                    "--sha256 is {digits}; allowed: {LEAST_DIGITS} to 64 hexadecimal digits, as `rustle token list` shows them"
                )));
            }
        }
        let Some(path) = &self.token_file else { return Ok(given) };
        let token = Zeroizing::new(fs::read(path).with_context(|| format!("token file {}", path.display()))?);
        let digest = digest_of(token.trim_ascii());
        match given {
            Some(digits) if !digest.starts_with(&digits) => {
                Err(bad_use("--sha256 is not the digest of --token-file; allowed: one of them"))
            }
            _ => Ok(Some(digest)),
        }
    }

    fn describes(&self, entry: &TokenEntry, digest: Option<&str>) -> bool {
        let is_worker = TokenRole::Worker.is(entry.role);
        let job = entry.name.as_deref().filter(|_| !is_worker);
        let worker = entry.name.as_deref().filter(|_| is_worker);
        digest.is_none_or(|digits| entry.sha256.to_lowercase().starts_with(digits))
            && self.role.is_none_or(|role| role.is(entry.role))
            && self.job.as_ref().is_none_or(|name| job == Some(name.as_str()))
            && self.worker.as_ref().is_none_or(|name| worker == Some(name.as_str()))
            && self.tenant.as_ref().is_none_or(|tenant| entry.tenant.as_ref() == Some(tenant))
            && self.person.as_ref().is_none_or(|person| entry.person.as_ref() == Some(person))
    }
}

fn described(entry: &TokenEntry) -> String {
    let digits = entry.sha256.get(..LEAST_DIGITS).unwrap_or(&entry.sha256);
    let name = entry.name.as_deref().unwrap_or("all");
    let person = entry.person.as_ref().map_or(String::new(), |person| format!(" of {person}"));
    format!("{digits}… {} {name}{person}", entry.role.name())
}

/// Replaces the file whole or not at all, with the owner and the mode that it has: the coordinator must still be able to read it.
fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let path = fs::canonicalize(path)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let there = fs::metadata(&path)?;
    let mut draft = tempfile::Builder::new().prefix(".rustle-tokens-").tempfile_in(folder)?;
    draft.write_all(bytes)?;
    let new = draft.as_file().metadata()?;
    if (new.uid(), new.gid()) != (there.uid(), there.gid()) {
        let uid = Uid::from_raw(there.uid());
        let gid = Gid::from_raw(there.gid());
        fchown(draft.as_file(), Some(uid), Some(gid)).context("keep its owner; run this as its owner")?;
    }
    draft.as_file().set_permissions(there.permissions())?;
    draft.as_file().sync_all()?;
    draft.persist(&path).map_err(|refused| refused.error)?;
    Ok(File::open(folder)?.sync_all()?)
}
