//! Blocks of a data set: stretches of days, each with a budget of its own.

use super::PrivacyBudget;
use crate::{BlockId, DataSetId, Day, Result, ServiceError, pb};

/// A request to record a block of a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct AddBlock {
    /// The data set.
    pub data_set: DataSetId,
    /// The block's name.
    pub block: BlockId,
    /// The first day of its records.
    pub from: Day,
    /// The first day after them.
    pub until: Day,
    /// The most that all jobs that read it may cost; `None` for the data set's own.
    pub budget: Option<PrivacyBudget>,
}

impl TryFrom<pb::AddBlockRequest> for AddBlock {
    type Error = ServiceError;
    fn try_from(request: pb::AddBlockRequest) -> Result<Self> {
        let day = |field: &'static str, text: String| {
            Day::new(text.clone()).map_err(|_| {
                ServiceError::invalid(field, format!("{text:?}"), "a day of the calendar, such as 2026-11-01")
            })
        };
        Ok(Self {
            data_set: DataSetId::new(request.data_set)?,
            block: BlockId::new(request.block)?,
            from: day("from", request.from)?,
            until: day("until", request.until)?,
            budget: request.budget.map(|budget| Some(budget).try_into()).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_named_where_they_are_none() {
        let request = pb::AddBlockRequest {
            data_set: "mails".into(),
            block: "a".into(),
            from: "2026-11-01".into(),
            until: "2026-11-31".into(),
            budget: None,
        };
        let refused = AddBlock::try_from(request).unwrap_err();
        assert!(refused.to_string().starts_with("until is \"2026-11-31\""), "{refused}");
    }
}
