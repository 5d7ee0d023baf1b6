//! Names of checkpoint objects. Only names of this one form are read or written, so that no name leads elsewhere.

use proto::{CoordinateRange, JobId};

use crate::{CheckpointRecord, LedgerError};

const FORM: &str = "<job>/<id>/<start>-<end>.shard";

/// Where the piece of checkpoint `id` that covers `range` lies.
pub fn piece_object(job: &JobId, id: u64, range: CoordinateRange) -> String {
    format!("{job}/{id}/{}-{}.shard", range.start, range.end)
}

pub fn manifest_object(job: &JobId, id: u64) -> String {
    format!("{job}/{id}/manifest.json")
}

/// A checked piece's name.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    pub job: JobId,
    pub id: u64,
    pub range: CoordinateRange,
}

impl Piece {
    pub fn parse(object: &str) -> Result<Self, LedgerError> {
        parse(object)
            // Numbers have several spellings ("+1", "01"), an object has one name.
            .filter(|piece| piece_object(&piece.job, piece.id, piece.range) == object)
            .ok_or_else(|| LedgerError::invalid("object", format!("{object:?}"), FORM))
    }
}

fn parse(object: &str) -> Option<Piece> {
    let mut parts = object.split('/');
    let job = JobId::new(parts.next()?).ok()?;
    let id = parts.next()?.parse().ok()?;
    let (start, end) = parts.next()?.strip_suffix(".shard")?.split_once('-')?;
    let range = CoordinateRange::new(start.parse().ok()?, end.parse().ok()?).ok()?;
    parts.next().is_none().then_some(Piece { job, id, range })
}

/// Every piece lies under its own checkpoint, where its range says: deleting one checkpoint never touches another.
pub fn check_pieces(record: &CheckpointRecord) -> Result<(), LedgerError> {
    for piece in &record.pieces {
        let expected = piece_object(&record.job, record.id, piece.range);
        if piece.object != expected {
            return Err(LedgerError::invalid("object", format!("{:?}", piece.object), expected));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_spelling_of_one_form_is_a_name() {
        let range = CoordinateRange { start: 512, end: 1024 };
        let name = piece_object(&JobId::new("a.b").unwrap(), 7, range);
        assert_eq!(name, "a.b/7/512-1024.shard");
        assert_eq!(Piece::parse(&name).unwrap(), Piece { job: JobId::new("a.b").unwrap(), id: 7, range });
        for bad in [
            "../7/0-1.shard",
            "/a/7/0-1.shard",
            "a/../7/0-1.shard",
            "a/7/../0-1.shard",
            "a/7/0-1.shard/..",
            "a/7/0-1.shard#1",
            "a/7/%2e%2e-1.shard",
            "a/07/0-1.shard",
            "a/+7/0-1.shard",
            "a/7/1-1.shard",
            "a/7/0-1",
            "a//0-1.shard",
            "a/7/manifest.json",
            "",
        ] {
            assert!(Piece::parse(bad).is_err(), "{bad:?}");
        }
    }
}
