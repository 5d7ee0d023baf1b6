//! Release grants and tokens: the coordinator's proof, checked by workers, that rows are durably bound to commitments.
//!
//! A Bind call is answered with one [`ReleaseGrant`]: a signature over the root of the tree of its rows and commitments
//! ([`crate::RowTree`]). A [`ReleaseToken`] is a grant with the commitments of the requested rows, and with the
//! hashes beside them where those are not all.

use std::{fmt, sync::Arc, sync::OnceLock};

use crate::{
    Commitment, CoordinateRange, CoordinatorKey, CoordinatorPublicKey, JobId, Nonce, RowHash, RowRange,
    RowTree, ServiceError, SignedText, coordinator_key::SIGNATURE_BYTES, pb, row_tree,
};

const DOMAIN: &str = "rustle release grant v3";

/// The most rows of one Bind call.
pub const MAX_ROWS: u64 = 65_536;

/// The hashes beside a part of a tree of [`MAX_ROWS`] rows: two of each level.
const MAX_PATH: usize = 32;

/// The limits of a grant: its coordinator, its time, and its coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The epoch of the coordinator that bound the rows.
    pub epoch: u64,
    /// Milliseconds on that coordinator's own clock, which begins with its epoch and never jumps.
    pub until_ms: u64,
    /// The coordinates that may be fetched; `None` for all.
    pub extent: Option<CoordinateRange>,
}

/// Whose rows a grant is for: a job of one ledger, and the branch that they are bound in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedBranch<'a> {
    /// The job's name.
    pub job: &'a JobId,
    /// The nonce that the ledger drew for the job.
    pub nonce: &'a Nonce,
    /// The branch.
    pub branch: u64,
}

/// The coordinator's signature over the rows of one Bind call, their commitments, and the limits of the grant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReleaseGrant {
    /// All rows of the call.
    pub rows: RowRange,
    /// The grant's limits.
    pub validity: Validity,
    signature: [u8; SIGNATURE_BYTES],
}

impl fmt::Debug for ReleaseGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReleaseGrant({}, {:?}, [secret])", self.rows, self.validity)
    }
}

/// Encodes the ends of an extent, or nothing.
fn ends(extent: Option<CoordinateRange>) -> Vec<u8> {
    extent.map(|it| [it.start.to_le_bytes(), it.end.to_le_bytes()].concat()).unwrap_or_default()
}

fn signed_text(of: GrantedBranch<'_>, rows: RowRange, validity: &Validity, root: &RowHash) -> SignedText {
    let numbers = [of.branch, rows.start, rows.end, validity.epoch, validity.until_ms].map(u64::to_le_bytes);
    let job = of.job.as_str().as_bytes();
    SignedText::new(DOMAIN, &[job, of.nonce.as_bytes(), &numbers.concat(), root, &ends(validity.extent)])
}

impl CoordinatorKey {
    /// Signs a grant for `rows`, with one commitment each. Call this only after the binding is durable.
    pub fn release(
        &self,
        of: GrantedBranch<'_>,
        rows: RowRange,
        commitments: Vec<Commitment>,
        validity: Validity,
    ) -> ReleasedRows {
        let root = row_tree::root(rows.start, &commitments);
        let signature = self.sign(&signed_text(of, rows, &validity, &root));
        let grant = ReleaseGrant { rows, validity, signature };
        ReleasedRows(Arc::new(Inner { grant, commitments, tree: OnceLock::new() }))
    }
}

impl ReleaseGrant {
    const BYTES: usize = 4 * 8 + SIGNATURE_BYTES;
    const EXTENT_BYTES: usize = 2 * 8;

    /// Returns the coordinator's signature.
    pub fn signature(&self) -> &[u8; SIGNATURE_BYTES] {
        &self.signature
    }

    /// Encodes the grant.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { rows, validity, signature } = self;
        let numbers = [rows.start, rows.end, validity.epoch, validity.until_ms].map(u64::to_le_bytes);
        [&numbers.concat()[..], signature, &ends(validity.extent)].concat()
    }
}

impl TryFrom<&[u8]> for ReleaseGrant {
    type Error = ServiceError;
    fn try_from(bytes: &[u8]) -> Result<Self, ServiceError> {
        let invalid = || {
            let allowed = format!("{} or {} bytes", Self::BYTES, Self::BYTES + Self::EXTENT_BYTES);
            ServiceError::invalid("grant", format!("{} bytes", bytes.len()), allowed)
        };
        let (numbers, rest) = bytes.split_first_chunk::<32>().ok_or_else(invalid)?;
        let (signature, extent) = rest.split_first_chunk::<SIGNATURE_BYTES>().ok_or_else(invalid)?;
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| numbers[8 * at + byte]));
        let rows = RowRange::new(number(0), number(1))?;
        if rows.len() > MAX_ROWS {
            return Err(ServiceError::invalid("grant.rows", rows, format!("at most {MAX_ROWS} rows")));
        }
        let extent = match extent.as_chunks() {
            ([], []) => None,
            ([start, end], []) => {
                Some(CoordinateRange::new(u64::from_le_bytes(*start), u64::from_le_bytes(*end))?)
            }
            _ => return Err(invalid()),
        };
        let validity = Validity { epoch: number(2), until_ms: number(3), extent };
        Ok(Self { rows, validity, signature: *signature })
    }
}

/// The proof that rows are bound: a grant, the commitments of these rows, and the hashes beside them in its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseToken {
    /// The coordinator's grant.
    pub grant: ReleaseGrant,
    /// The commitments that the rows are bound to, one each.
    pub commitments: Vec<Commitment>,
    /// The hashes beside these rows, left to right; none where they are all of the grant's.
    pub path: Vec<RowHash>,
}

impl ReleaseToken {
    /// Returns what the coordinator must have signed for these rows to be bound to these commitments.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`] where rows, commitments and path make no root.
    pub fn signed_text(&self, of: GrantedBranch<'_>, rows: RowRange) -> Result<SignedText, ServiceError> {
        let ReleaseGrant { rows: bound, validity, .. } = &self.grant;
        let root = row_tree::root_by_path(*bound, rows, &self.commitments, &self.path);
        root.map(|root| signed_text(of, *bound, validity, &root)).ok_or_else(|| not_bound(of, rows))
    }

    /// Checks that the owner of the key bound these rows. The validity is part of what was signed; the caller decides
    /// whether the token is still valid.
    ///
    /// # Errors
    /// [`ServiceError::NotBound`].
    pub fn verify(
        &self,
        key: &CoordinatorPublicKey,
        of: GrantedBranch<'_>,
        rows: RowRange,
    ) -> Result<(), ServiceError> {
        let text = self.signed_text(of, rows)?;
        key.has_signed(&text, &self.grant.signature).then_some(()).ok_or_else(|| not_bound(of, rows))
    }
}

/// Returns the error for rows without a valid token.
pub(crate) fn not_bound(of: GrantedBranch<'_>, rows: RowRange) -> ServiceError {
    ServiceError::NotBound { job: of.job.to_string(), branch: of.branch, row: rows.start }
}

impl From<ReleaseToken> for pb::ReleaseToken {
    fn from(token: ReleaseToken) -> Self {
        Self {
            grant: token.grant.to_bytes(),
            commitments: token.commitments.iter().map(|it| it.to_bytes().to_vec()).collect(),
            path: token.path.iter().map(|hash| hash.to_vec()).collect(),
        }
    }
}

impl TryFrom<pb::ReleaseToken> for ReleaseToken {
    type Error = ServiceError;
    fn try_from(token: pb::ReleaseToken) -> Result<Self, ServiceError> {
        if token.path.len() > MAX_PATH {
            let allowed = format!("at most {MAX_PATH}, two of each level");
            return Err(ServiceError::invalid("token.path", format!("{} hashes", token.path.len()), allowed));
        }
        let hash = |hash: &Vec<u8>| {
            let refused =
                || ServiceError::invalid("token.path", format!("{} bytes", hash.len()), "32 bytes each");
            hash.as_slice().try_into().map_err(|_| refused())
        };
        let commitments = token.commitments.iter().map(|it| Commitment::try_from(it.as_slice()));
        Ok(Self {
            grant: token.grant.as_slice().try_into()?,
            commitments: commitments.collect::<Result<_, _>>()?,
            path: token.path.iter().map(hash).collect::<Result<_, _>>()?,
        })
    }
}

/// Rows that may be fetched: a grant and the commitments of all its rows. Cheap to clone.
#[derive(Clone)]
pub struct ReleasedRows(Arc<Inner>);

struct Inner {
    grant: ReleaseGrant,
    commitments: Vec<Commitment>,
    /// Built when a part of the rows is first asked for.
    tree: OnceLock<RowTree>,
}

impl ReleasedRows {
    /// Returns the rows of a grant, with one commitment each.
    ///
    /// # Errors
    /// [`ServiceError::Internal`] where the numbers differ: the grant answers another call.
    pub fn new(grant: ReleaseGrant, commitments: Vec<Commitment>) -> Result<Self, ServiceError> {
        if grant.rows.len() != commitments.len() as u64 {
            let reason = format!("a grant for rows {} answers {} commitments", grant.rows, commitments.len());
            return Err(ServiceError::internal(reason));
        }
        Ok(Self(Arc::new(Inner { grant, commitments, tree: OnceLock::new() })))
    }

    /// Returns the grant.
    pub fn grant(&self) -> &ReleaseGrant {
        &self.0.grant
    }

    /// Returns the token of some of the rows.
    ///
    /// # Errors
    /// [`ServiceError::Internal`] for rows that are not among them.
    pub fn token(&self, rows: RowRange) -> Result<ReleaseToken, ServiceError> {
        let Inner { grant, commitments, tree } = &*self.0;
        if !grant.rows.contains(&rows) {
            let reason = format!("a grant for rows {} does not cover rows {rows}", grant.rows);
            return Err(ServiceError::internal(reason));
        }
        let path = if rows == grant.rows {
            Vec::new()
        } else {
            tree.get_or_init(|| RowTree::new(grant.rows.start, commitments)).path(rows)
        };
        let from = (rows.start - grant.rows.start) as usize;
        let commitments = commitments[from..from + rows.len() as usize].to_vec();
        Ok(ReleaseToken { grant: *grant, commitments, path })
    }
}

impl fmt::Debug for ReleasedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReleasedRows({:?})", self.0.grant)
    }
}

impl PartialEq for ReleasedRows {
    fn eq(&self, other: &Self) -> bool {
        self.0.grant == other.0.grant && self.0.commitments == other.0.commitments
    }
}

impl Eq for ReleasedRows {}

#[cfg(test)]
mod tests;
