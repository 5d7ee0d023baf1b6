//! Shards of plans on a grid: their state is exact.

use proto::ElementType;

use super::*;

fn on_grid(mechanism: Mechanism) -> Plan {
    let grid = plan::Grid { step: -20, rounding: plan::Rounding::Nearest, summing_error: 0.0 };
    let layout = plan::Layout::dimension_only(1500).ok();
    Plan::new(PlanSpec { mechanism, layout, grid: Some(grid), ..plan(1.0).spec().clone() }).unwrap()
}

fn make(generator: &mut RowGenerator, rows: usize) -> Vec<Vec<u32>> {
    let make_one = |_| {
        let mut row = vec![0f32; (generator.range().end - generator.range().start) as usize];
        generator.generate(&mut [&mut row]).unwrap();
        bits(&row)
    };
    (0..rows).map(make_one).collect()
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|word| word.to_bits()).collect()
}

impl Job {
    /// Stores a piece that stands after the rows `window`.
    async fn store_integers(
        &mut self,
        range: CoordinateRange,
        plan: &Plan,
        window: Range<u64>,
        of: ElementType,
    ) {
        let spec = self.spec(plan);
        let mut generator = spec.generator(range.as_range()).unwrap();
        generator.skip(window.start).unwrap();
        let rows = make(&mut generator, window.clone().count());
        let header = ShardHeader {
            job: "j".into(),
            branch: 0,
            plan_digest: plan.digest(),
            key_commitment: self.key.commitment(),
            stream_version: noise_kernel::STREAM_VERSION,
            range,
            next_row: window.end,
            window_start: window.start,
            block_state_len: generator.block_state_len() as u64,
            element: of,
        };
        let object = piece_object(&self.grant.job, 1, range);
        let store = CheckpointStore::open(&self.grant.store_url).unwrap();
        let rows = rows.iter().map(|row| row.iter().map(|word| f32::from_bits(*word)).collect()).collect();
        let values: (Vec<f32>, Vec<Vec<f32>>) = (generator.state().unwrap().to_vec(), rows);
        let written = store.write_shard(&object, header, &spec.checkpoint_key, values).await.unwrap();
        let next_row = window.end;
        self.grant.pieces.push(CheckpointPiece { object, range, next_row, sha256: written.sha256 });
    }
}

#[tokio::test]
async fn integers_go_on_from_pieces_bit_for_bit() {
    for mechanism in [
        Mechanism::Identity,
        Mechanism::Blt { theta: vec![0.9, 0.3], omega: vec![0.2, 0.3] },
        Mechanism::BandSqrt { bands: 4 },
        Mechanism::LambdaCgd { lambda: 0.6 },
        Mechanism::Tree { restarts: vec![], completion: false },
    ] {
        let plan = on_grid(mechanism);
        let name = plan.mechanism().name();
        let mut job = Job::new();
        job.grant.plan_digest = plan.digest();
        let spec = job.spec(&plan);
        job.store_integers(LEFT, &plan, 3..5, ElementType::I32).await;
        job.store_integers(RIGHT, &plan, 4..9, ElementType::I32).await;
        let (mut generator, window) = restore(&job.grant, &spec, &limits()).await.unwrap();
        assert_eq!((window.start(), window.end(), generator.next_row()), (4, 9, 9), "{name}");
        let mut fresh = spec.generator(RANGE.as_range()).unwrap();
        fresh.skip(4).unwrap();
        let made = make(&mut fresh, 8);
        let kept: Vec<_> = window.rows().map(|row| bits(row.values())).collect();
        assert!(kept == made[..5] && make(&mut generator, 3) == made[5..], "{name}: other integers");
        let oracle = spec.grid_oracle().unwrap().rows(11..12, 1_020..1_030).unwrap().remove(0);
        let last = made[7][508..518].iter().map(|word| word.cast_signed()).collect::<Vec<_>>();
        assert_eq!(last, oracle, "{name}");
    }
}

#[tokio::test]
async fn a_checkpoint_of_floats_is_none_of_integers() {
    let plan = on_grid(Mechanism::BandSqrt { bands: 4 });
    let mut job = Job::new();
    job.grant.plan_digest = plan.digest();
    job.store_integers(RANGE, &plan, 4..9, ElementType::F32).await;
    let restored = restore(&job.grant, &job.spec(&plan), &limits()).await.unwrap();
    assert_eq!(restored.0.next_row(), 0);
}
