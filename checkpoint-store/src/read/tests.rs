use std::{fs, path::PathBuf};

use proto::{ElementType, JobId, piece_object};

use super::*;

/// Four blocks, the last of which ends early.
const RANGE: CoordinateRange = CoordinateRange { start: 512, end: 2_100 };
const BLOCK_STATE: usize = 3;

struct Stored {
    folder: tempfile::TempDir,
    store: CheckpointStore,
    object: String,
    sha256: [u8; 32],
    header: ShardHeader,
    state: Vec<f32>,
    rows: Vec<Vec<f32>>,
}

impl Stored {
    /// Parts and segments end anywhere in the state and in rows.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::open(&format!("file://{}", folder.path().display())).unwrap();
        let store = store.with_sizes(1_000, 340);
        let header = ShardHeader {
            job: "j".to_owned(),
            branch: 0,
            plan_digest: [1; 32],
            key_commitment: [2; 32],
            stream_version: 1,
            range: RANGE,
            next_row: 9,
            window_start: 6,
            block_state_len: BLOCK_STATE as u64,
            element: ElementType::F32,
        };
        let values = |from: usize, count: usize| (from..from + count).map(|value| value as f32).collect();
        let state: Vec<f32> = values(1, 4 * BLOCK_STATE);
        let len = RANGE.len() as usize;
        let rows: Vec<Vec<f32>> = (1..4).map(|row| values(row * 10_000, len)).collect();
        let object = piece_object(&JobId::new("j").unwrap(), 1, RANGE);
        let all = (state.clone(), rows.clone());
        let written = store.write_shard(&object, header.clone(), &key(), all).await.unwrap();
        Self { folder, store, object, sha256: written.sha256, header, state, rows }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(&self.object)
    }

    async fn part(&self, start: u64, end: u64) -> Result<ShardCheckpoint> {
        let wanted = CoordinateRange { start, end };
        self.store.read_part(&self.object, &self.sha256, &key(), wanted, |_| Ok(())).await
    }
}

fn key() -> CheckpointKey {
    CheckpointKey::new(&[3; 32])
}

#[tokio::test]
async fn a_part_is_the_slice_of_the_whole_and_no_more_memory() {
    let stored = Stored::new().await;
    for (start, end) in [
        (512, 2_100),
        (512, 1_024),
        (1_024, 2_048),
        (1_024, 2_100),
        (2_048, 2_100),
        (2_048, 2_099),
        (512, 700),
        (600, 700),
        (1_500, 1_600),
        (2_099, 2_100),
    ] {
        let part = stored.part(start, end).await.unwrap();
        assert_eq!(part.header, stored.header, "the header is the whole piece's");
        let blocks = (start / 512 - 1) as usize..(end.div_ceil(512) - 1) as usize;
        let state = &stored.state[blocks.start * BLOCK_STATE..blocks.end * BLOCK_STATE];
        assert_eq!(part.state, state, "{start}..{end}");
        assert_eq!(part.state.capacity(), state.len(), "{start}..{end}");
        assert_eq!(part.window.len(), stored.rows.len());
        for (got, row) in part.window.iter().zip(&stored.rows) {
            let row = &row[(start - 512) as usize..(end - 512) as usize];
            assert_eq!((got.as_slice(), got.capacity()), (row, row.len()), "{start}..{end}");
        }
    }
}

#[tokio::test]
async fn what_lies_outside_of_the_piece_is_refused() {
    let stored = Stored::new().await;
    for (start, end) in [(0, 512), (511, 600), (2_048, 2_101), (2_100, 2_101), (700, 700), (800, 700)] {
        let error = stored.part(start, end).await.unwrap_err().to_string();
        assert!(error.contains("it holds 512..2100"), "{start}..{end}: {error}");
    }
}

#[tokio::test]
async fn damage_outside_of_the_part_is_noticed_too() {
    let stored = Stored::new().await;
    let whole = fs::read(stored.file()).unwrap();
    for at in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(stored.file(), flipped).unwrap();
        let read = stored.part(512, 1_024).await;
        assert!(matches!(read, Err(CheckpointError::Unusable { .. })), "byte {at} of {}", whole.len());
    }
    fs::write(stored.file(), &whole).unwrap();
    stored.part(512, 1_024).await.unwrap();
    let of_another = Stored { sha256: [0; 32], ..stored };
    assert!(of_another.part(512, 1_024).await.is_err(), "another object's hash");
}
