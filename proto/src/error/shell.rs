//! The commands that errors name.

use crate::shell_word;

/// Returns how a copied ledger continues where its original can't.
pub fn instead_of_original(ledger: &str) -> String {
    if ledger.starts_with("etcd://") {
        return "One in etcd can't be adopted: bring a newer snapshot back".to_owned();
    }
    let command = format!("rustle ledger adopt --file {}", shell_word(ledger));
    format!(
        "Where this one is to continue, adopt it: `{command}`, with --key-file of a key in another folder, or \
         connect(…, adopt=True), opens a branch with fresh noise in every running job"
    )
}
