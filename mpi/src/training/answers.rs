//! What noise ranks answer to the parts of one request.

use proto::{Result, ServiceError};

use crate::wire::{Message, Reply};

/// Returns the answer that the bytes hold. Fails where they hold a refusal.
pub fn check(reply: &[u8]) -> Result<Reply> {
    let reply = reply.try_into().map_err(|_| ServiceError::internal("a reply of another length"))?;
    match Message::decode(reply)? {
        Message::Ready(ready) => Ok(ready),
        Message::Refused(refused) => Err(refused.error()),
        other => Err(ServiceError::internal(format!("a reply of kind {:?}", other.kind()))),
    }
}

/// Fails where one noise rank served another branch when it answered, and another did not yet. Each part is bound, but
/// together they are the row of no branch.
pub fn of_one_branch(answers: &[Reply]) -> Result<()> {
    let branch = |answer: &&Reply| answer.branch;
    match (answers.iter().min_by_key(branch), answers.iter().max_by_key(branch)) {
        (Some(old), Some(new)) if old.branch < new.branch => Err(ServiceError::BranchSuperseded {
            job: String::from_utf8_lossy(&new.text).into_owned(),
            branch: old.branch,
            current: new.branch,
            from_row: new.row,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ANY_BRANCH, Get};

    #[test]
    fn a_row_is_of_one_branch() {
        let get = Get::first(7, ANY_BRANCH, [0; _]);
        let ready = |branch| get.reply(branch, 3, b"j".to_vec());
        assert_eq!(of_one_branch(&[ready(1), ready(1)]), Ok(()));
        let superseded =
            ServiceError::BranchSuperseded { job: "j".into(), branch: 1, current: 2, from_row: 3 };
        assert_eq!(of_one_branch(&[ready(2), ready(1), ready(2)]), Err(superseded));
    }
}
