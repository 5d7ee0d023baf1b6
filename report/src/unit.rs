//! The unit of privacy.

use accounting::Neighbouring;
use serde::Serialize;

use crate::error::{ReportError, Result};

/// The unit of privacy: the holder of the contribution that is clipped to the clip norm in every round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    #[default]
    /// All data of one user.
    User,
    /// One record.
    Example,
    /// All data on one device.
    Device,
    /// All records of one owner, also those that others own too.
    Owner,
}

impl Unit {
    /// Refuses what is not proved for owners who share records.
    pub(crate) fn check(self, is_any_order: bool, relation: Neighbouring) -> Result<()> {
        let refused = |what, value: &str, allowed: &str| {
            Err(ReportError::Invalid { what, value: value.to_owned(), allowed: allowed.to_owned() })
        };
        if self != Self::Owner {
            return Ok(());
        }
        if !is_any_order {
            let allowed = "any-order, within the plan's participation; no amplification is known";
            return refused("sampling of records with several owners", "amplified", allowed);
        }
        if relation == Neighbouring::AddRemove {
            let allowed = "zero-out, replace, as the records that are kept depend on all owners";
            return refused("neighbouring relation of owners", "add-remove", allowed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_have_no_amplification_and_are_not_added() {
        for relation in Neighbouring::ALL {
            assert!(Unit::User.check(false, relation).is_ok());
            assert_eq!(Unit::Owner.check(true, relation).is_ok(), relation != Neighbouring::AddRemove);
            let error = Unit::Owner.check(false, relation).unwrap_err().to_string();
            assert!(error.contains("allowed: any-order"), "{error}");
        }
    }
}
