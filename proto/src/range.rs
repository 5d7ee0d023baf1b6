//! Half-open, non-empty ranges of coordinates and rows.

use std::{fmt, ops::Range};

use serde::{Deserialize, Serialize};

use crate::{ServiceError, pb};

macro_rules! range {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name {
            /// The first element.
            pub start: u64,
            /// One more than the last element.
            pub end: u64,
        }

        impl $name {
            /// Creates a range. Error: it is empty or backward.
            pub fn new(start: u64, end: u64) -> Result<Self, ServiceError> {
                if start < end {
                    Ok(Self { start, end })
                } else {
                    Err(ServiceError::invalid($field, format!("{start}..{end}"), "start < end"))
                }
            }

            /// Returns the number of elements.
            pub fn len(&self) -> u64 {
                self.end - self.start
            }

            /// Returns false: a range is checked on entry to have at least one element.
            pub fn is_empty(&self) -> bool {
                false
            }

            /// Returns whether the other range lies within this one.
            pub fn contains(&self, other: &Self) -> bool {
                self.start <= other.start && other.end <= self.end
            }

            /// Returns the common elements; `None` where there are none.
            pub fn intersection(&self, other: &Self) -> Option<Self> {
                Self::new(self.start.max(other.start), self.end.min(other.end)).ok()
            }

            /// Returns the same range as std's type.
            pub fn as_range(&self) -> Range<u64> {
                self.start..self.end
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}..{}", self.start, self.end)
            }
        }

        impl From<Range<u64>> for $name {
            /// Converts without a check, for ranges that were checked before or are only printed.
            fn from(range: Range<u64>) -> Self {
                Self { start: range.start, end: range.end }
            }
        }

        impl From<$name> for pb::$name {
            fn from(range: $name) -> Self {
                Self { start: range.start, end: range.end }
            }
        }

        impl TryFrom<Option<pb::$name>> for $name {
            type Error = ServiceError;
            fn try_from(range: Option<pb::$name>) -> Result<Self, ServiceError> {
                let range = range.ok_or_else(|| ServiceError::missing($field))?;
                Self::new(range.start, range.end)
            }
        }
    };
}

range!(
    /// Global coordinates `start..end` of the flattened parameter vector.
    ///
    /// ```
    /// use proto::CoordinateRange;
    ///
    /// let shard = CoordinateRange::new(512, 1024).unwrap();
    /// let wanted = CoordinateRange::new(1000, 3000).unwrap();
    /// assert_eq!(shard.intersection(&wanted), Some(CoordinateRange { start: 1000, end: 1024 }));
    /// assert!(CoordinateRange::new(7, 7).is_err(), "a range is never empty");
    /// ```
    CoordinateRange, "range"
);

impl CoordinateRange {
    /// Merges ranges that touch or overlap, and sorts them: the same coordinates in as few ranges as possible.
    pub fn joined(mut ranges: Vec<Self>) -> Vec<Self> {
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let touch = next.start <= before.end;
            if touch {
                before.end = before.end.max(next.end);
            }
            touch
        });
        ranges
    }
}

range!(
    /// Rows `start..end`, counted from 0.
    RowRange, "rows"
);
