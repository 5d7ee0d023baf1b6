//! The blocks that a request names.

use std::collections::BTreeSet;

use crate::{BlockId, Result, ServiceError};

/// Reads the names of the blocks that a job reads.
///
/// # Errors
/// [`ServiceError::InvalidArgument`] for what is no name, and for one that is named twice.
pub fn named_blocks(names: Vec<String>) -> Result<BTreeSet<BlockId>> {
    let mut blocks = BTreeSet::new();
    for name in names {
        let block = BlockId::new(name)?;
        if let Some(twice) = blocks.replace(block) {
            return Err(ServiceError::invalid("account.blocks", format!("{twice} twice"), "each block once"));
        }
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_named_once() {
        let names = |names: &[&str]| named_blocks(names.iter().map(ToString::to_string).collect());
        assert_eq!(names(&["b", "a"]).unwrap().iter().map(BlockId::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert!(names(&[]).unwrap().is_empty());
        let twice = names(&["a", "b", "a"]).unwrap_err();
        assert_eq!(twice.to_string(), "account.blocks is a twice; allowed: each block once");
        assert!(names(&["a/b"]).is_err());
    }
}
