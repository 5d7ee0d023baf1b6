//! What the key is good for, each as secret as the key: keys of branches and checkpoints, state, rows.

use noise_kernel::{JobKey, NoiseContext};
use noise_worker::generation_spec::GenerationSpec;
use plan::Plan;
use proto::NoiseId;
use tests::leaks::Scan;

/// `noise_id`: of the job before it rewinds.
pub fn add(scan: &mut Scan, key: &[u8; 32], plan: &Plan, noise_id: &NoiseId, dimension: u64) {
    scan.add("the job's key", key);
    let key = JobKey::from_bytes(key).unwrap();
    let job_nonce = *noise_id.job_nonce.as_bytes();
    let context = NoiseContext::new(plan, dimension, job_nonce).unwrap();
    for segment in noise_id.lineage.segments() {
        let of_branch = key.branch(&context, segment.nonce.as_bytes());
        scan.add(&format!("the key of branch {}", segment.branch), of_branch.secret_bytes());
    }
    scan.add("the key of checkpoints", &*key.checkpoint_key(&job_nonce));
    // Rows made ahead are as secret as those that were fetched, and nothing that a server writes holds either.
    let spec = GenerationSpec::new(plan, &key, dimension, noise_id).unwrap();
    let mut generator = spec.generator(0..dimension).unwrap();
    let mut values = vec![0f32; dimension as usize];
    for row in 0..plan.iterations() {
        generator.generate(&mut [&mut values]).unwrap();
        scan.add_values(&format!("row {row}"), &values);
        scan.add_values(&format!("state before row {}", row + 1), &generator.state().unwrap());
    }
}
