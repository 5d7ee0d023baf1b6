//! Names of checkpoint objects. Only names of this one form are read or written, so that no name leads elsewhere.

use crate::{CoordinateRange, InvalidValue, JobId};

const FORM: &str = "<job>/<id>/<start>-<end>.shard";

/// Returns the name of the object that holds the piece of checkpoint `id` that covers `range`.
pub fn piece_object(job: &JobId, id: u64, range: CoordinateRange) -> String {
    format!("{job}/{id}/{}-{}.shard", range.start, range.end)
}

/// Returns the name of the object that lists all pieces of checkpoint `id`.
pub fn manifest_object(job: &JobId, id: u64) -> String {
    format!("{job}/{id}/manifest.json")
}

/// The name of a piece's object, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct PieceName {
    /// The job whose state the piece holds.
    pub job: JobId,
    /// The checkpoint that the piece belongs to.
    pub id: u64,
    /// The coordinates that the piece covers.
    pub range: CoordinateRange,
}

impl PieceName {
    /// Reads a name. Error: the text is not exactly what [`piece_object`] would write.
    pub fn parse(object: &str) -> Result<Self, InvalidValue> {
        parse(object)
            // Numbers have several spellings ("+1", "01"), an object has one name.
            .filter(|piece| piece_object(&piece.job, piece.id, piece.range) == object)
            .ok_or_else(|| InvalidValue::new("object", format!("{object:?}"), FORM))
    }
}

fn parse(object: &str) -> Option<PieceName> {
    let mut parts = object.split('/');
    let job = JobId::new(parts.next()?).ok()?;
    let id = parts.next()?.parse().ok()?;
    let (start, end) = parts.next()?.strip_suffix(".shard")?.split_once('-')?;
    let range = CoordinateRange::new(start.parse().ok()?, end.parse().ok()?).ok()?;
    parts.next().is_none().then_some(PieceName { job, id, range })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_spelling_of_one_form_is_a_name() {
        let range = CoordinateRange { start: 512, end: 1024 };
        let name = piece_object(&JobId::new("a.b").unwrap(), 7, range);
        assert_eq!(name, "a.b/7/512-1024.shard");
        assert_eq!(
            PieceName::parse(&name).unwrap(),
            PieceName { job: JobId::new("a.b").unwrap(), id: 7, range }
        );
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
            assert!(PieceName::parse(bad).is_err(), "{bad:?}");
        }
    }
}
