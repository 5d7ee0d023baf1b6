//! Lineages: the branch whose Z each row has. A job that was rewound draws fresh Z from the row of the rewind on,
//! and keeps the rows before.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{Nonce, RowRange, ServiceError, pb};

/// Rows of one branch's key: from `from_row` up to the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Segment {
    /// The first row.
    pub from_row: u64,
    /// The branch whose Z the rows have.
    pub branch: u64,
    /// The branch's nonce, which its key is derived from; of branch 0 the job's own nonce.
    pub nonce: Nonce,
}

/// The segments of one branch, oldest first: the first begins at row 0, rows and branches rise, and the last one's
/// branch is the branch itself. Clones share their segments: all shards of a job have the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Segment>", into = "Vec<Segment>")]
pub struct Lineage(Arc<[Segment]>);

const ALLOWED: &str = "segments from row 0 on whose rows and branches rise, each with its nonce of 64 hex digits: \
                       0..120=0:NONCE,120..=1:NONCE";

impl Lineage {
    /// The most segments that a rewind may leave a job with. Every binding reads them, and every heartbeat of a worker that
    /// serves the job carries them.
    pub const MAX_SEGMENTS: usize = 1024;

    /// Checks the order of the segments.
    pub fn new(segments: Vec<Segment>) -> Result<Self, ServiceError> {
        let rise = |pair: &[Segment]| pair[0].from_row < pair[1].from_row && pair[0].branch < pair[1].branch;
        let is_sound =
            segments.first().is_some_and(|first| first.from_row == 0) && segments.windows(2).all(rise);
        if is_sound {
            Ok(Self(segments.into()))
        } else {
            Err(ServiceError::invalid("lineage", rows_and_branches(&segments), ALLOWED))
        }
    }

    /// Returns the lineage of a job that never rewound: branch 0, whose nonce is the job's.
    pub fn of_job(nonce: Nonce) -> Self {
        Self([Segment { from_row: 0, branch: 0, nonce }].into())
    }

    /// Returns the lineage of `branch`, opened at `from_row` of this one with a nonce of its own. `branch` is above
    /// every branch of the job.
    pub fn rewound(&self, from_row: u64, branch: u64, nonce: Nonce) -> Self {
        let kept = self.0.iter().filter(|segment| segment.from_row < from_row);
        Self(kept.copied().chain([Segment { from_row, branch, nonce }]).collect())
    }

    /// Returns the segments, oldest first.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    fn last(&self) -> Segment {
        self.0[self.0.len() - 1]
    }

    /// Returns the branch itself.
    pub fn branch(&self) -> u64 {
        self.last().branch
    }

    /// Returns the first row whose Z is the branch's own.
    pub fn from_row(&self) -> u64 {
        self.last().from_row
    }

    /// Returns the branch whose Z the row has.
    pub fn branch_of(&self, row: u64) -> u64 {
        let at = self.0.partition_point(|segment| segment.from_row <= row);
        self.0[at.saturating_sub(1)].branch
    }

    /// Cuts `rows` where the branch changes, into pairs of branch and rows.
    pub fn cut(&self, rows: RowRange) -> Vec<(u64, RowRange)> {
        let ends = self.0.iter().skip(1).map(|next| next.from_row).chain([u64::MAX]);
        let pieces = self.0.iter().zip(ends).filter_map(|(segment, end)| {
            let own = RowRange { start: segment.from_row, end };
            Some((segment.branch, rows.intersection(&own)?))
        });
        pieces.collect()
    }

    /// Returns whether this lineage has the same rows before `next_row` as `branch`, so that a state of `branch` at
    /// `next_row` may be restored here. Branches that share a segment share all rows before its end.
    pub fn continues(&self, branch: u64, next_row: u64) -> bool {
        let Some(at) = self.0.iter().position(|segment| segment.branch == branch) else { return false };
        self.0.get(at + 1).is_none_or(|next| next_row <= next.from_row)
    }

    /// Returns pairs (first row, nonce of the branch), as the noise kernel takes them.
    pub fn nonces(&self) -> Vec<(u64, [u8; 32])> {
        self.0.iter().map(|segment| (segment.from_row, *segment.nonce.as_bytes())).collect()
    }

    /// Writes rows and branches alone, for people: `0..120=0,120..=1`.
    pub fn rows_and_branches(&self) -> String {
        rows_and_branches(&self.0)
    }
}

fn rows_and_branches(segments: &[Segment]) -> String {
    let end = |at: usize| segments.get(at + 1).map(|next| next.from_row.to_string()).unwrap_or_default();
    let written =
        |(at, segment): (usize, &Segment)| format!("{}..{}={}", segment.from_row, end(at), segment.branch);
    segments.iter().enumerate().map(written).collect::<Vec<_>>().join(",")
}

impl TryFrom<Vec<Segment>> for Lineage {
    type Error = ServiceError;
    fn try_from(segments: Vec<Segment>) -> Result<Self, ServiceError> {
        Self::new(segments)
    }
}

impl From<Lineage> for Vec<Segment> {
    fn from(lineage: Lineage) -> Self {
        lineage.0.to_vec()
    }
}

impl TryFrom<Vec<pb::LineageSegment>> for Lineage {
    type Error = ServiceError;
    fn try_from(segments: Vec<pb::LineageSegment>) -> Result<Self, ServiceError> {
        let segment = |s: pb::LineageSegment| {
            let nonce = Nonce::from_slice("lineage.nonce", &s.nonce)?;
            Ok(Segment { from_row: s.from_row, branch: s.branch, nonce })
        };
        Self::new(segments.into_iter().map(segment).collect::<Result<_, ServiceError>>()?)
    }
}

impl From<&Lineage> for Vec<pb::LineageSegment> {
    fn from(lineage: &Lineage) -> Self {
        let segment = |s: &Segment| pb::LineageSegment {
            from_row: s.from_row,
            branch: s.branch,
            nonce: s.nonce.as_bytes().to_vec(),
        };
        lineage.0.iter().map(segment).collect()
    }
}

/// `0..120=0:NONCE,120..=1:NONCE`: rows 0 to 119 from branch 0, the others from branch 1, each with its nonce in hex.
impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let end = self.0.get(at + 1).map(|next| next.from_row.to_string()).unwrap_or_default();
            write!(f, "{comma}{}..{end}={}:{}", segment.from_row, segment.branch, segment.nonce)?;
        }
        Ok(())
    }
}

impl FromStr for Lineage {
    type Err = ServiceError;
    fn from_str(text: &str) -> Result<Self, ServiceError> {
        let refused = || ServiceError::invalid("lineage", format!("{text:?}"), ALLOWED);
        let segment = |part: &str| {
            let (rows, of_branch) = part.split_once('=')?;
            let (from_row, _end) = rows.split_once("..")?;
            let (branch, nonce) = of_branch.split_once(':')?;
            let nonce = nonce.parse().ok()?;
            Some(Segment { from_row: from_row.parse().ok()?, branch: branch.parse().ok()?, nonce })
        };
        let segments = text.split(',').map(segment).collect::<Option<Vec<_>>>().ok_or_else(refused)?;
        let lineage = Self::new(segments)?;
        // Each end is written twice: both must agree.
        if lineage.to_string() == text { Ok(lineage) } else { Err(refused()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(branch: u64) -> Nonce {
        Nonce::from_bytes([branch as u8; 32])
    }

    /// Reads `0..120=0,120..=1`, with a nonce of its own for each branch.
    fn lineage(text: &str) -> Lineage {
        let with_nonce = |part: &str| match part.rsplit_once('=').and_then(|(_, branch)| branch.parse().ok())
        {
            Some(branch) => format!("{part}:{}", nonce(branch)),
            None => part.to_owned(),
        };
        text.split(',').map(with_nonce).collect::<Vec<_>>().join(",").parse().unwrap()
    }

    #[test]
    fn words_and_values_say_the_same() {
        for text in ["0..=0", "0..=7", "0..120=0,120..=1", "0..1=0,1..5=3,5..=4"] {
            assert_eq!(lineage(text).rows_and_branches(), text);
            assert_eq!(lineage(text).to_string().parse::<Lineage>().unwrap(), lineage(text));
            let json = serde_json::to_string(&lineage(text)).unwrap();
            assert_eq!(serde_json::from_str::<Lineage>(&json).unwrap(), lineage(text));
            let sent = Vec::<pb::LineageSegment>::from(&lineage(text));
            assert_eq!(Lineage::try_from(sent).unwrap(), lineage(text));
        }
        let hex = nonce(3).to_string();
        let good = format!("0..5=0:{hex},5..=1:{hex}");
        assert!(good.parse::<Lineage>().is_ok());
        let bad = ["", "0..", "0..=0", "0..=0:", "0..=0:00", "x..=0:NONCE", "1..=0:NONCE", "0..5=0:NONCE"];
        let more = ["0..5=0:NONCE,6..=1:NONCE", "0..5=1:NONCE,5..=1:NONCE", "0..=0:NONCE,0..=1:NONCE"];
        for text in bad.into_iter().chain(more) {
            assert!(text.replace("NONCE", &hex).parse::<Lineage>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Lineage>("[]").is_err());
    }

    #[test]
    fn a_nonce_of_another_length_is_refused() {
        let mut sent = Vec::<pb::LineageSegment>::from(&lineage("0..=0"));
        sent[0].nonce.pop();
        let error = Lineage::try_from(sent).unwrap_err().to_string();
        assert!(error.contains("lineage.nonce") && error.contains("31 bytes"), "{error}");
    }

    #[test]
    fn a_rewind_drops_what_came_after() {
        let first = Lineage::of_job(nonce(0)).rewound(120, 1, nonce(1));
        assert_eq!(first, lineage("0..120=0,120..=1"));
        let rewound = |from_row| first.rewound(from_row, 2, nonce(2));
        assert_eq!(rewound(200), lineage("0..120=0,120..200=1,200..=2"));
        assert_eq!(rewound(120), lineage("0..120=0,120..=2"));
        assert_eq!(rewound(50), lineage("0..50=0,50..=2"));
        assert_eq!(rewound(0), lineage("0..=2"));
    }

    #[test]
    fn each_row_has_one_branch() {
        let lineage = lineage("0..3=0,3..7=2,7..=5");
        let branches: Vec<u64> = (0..9).map(|row| lineage.branch_of(row)).collect();
        assert_eq!(branches, [0, 0, 0, 2, 2, 2, 2, 5, 5]);
        let rows = |start, end| RowRange { start, end };
        assert_eq!(lineage.cut(rows(1, 9)), [(0, rows(1, 3)), (2, rows(3, 7)), (5, rows(7, 9))]);
        assert_eq!(lineage.cut(rows(4, 5)), [(2, rows(4, 5))]);
    }

    #[test]
    fn a_state_is_good_up_to_where_the_branches_part() {
        let lineage = lineage("0..3=0,3..7=2,7..=5");
        for (branch, next_row, is_good) in
            [(0, 3, true), (0, 4, false), (2, 7, true), (2, 8, false), (5, 100, true), (1, 0, false)]
        {
            assert_eq!(lineage.continues(branch, next_row), is_good, "branch {branch}, row {next_row}");
        }
    }
}
