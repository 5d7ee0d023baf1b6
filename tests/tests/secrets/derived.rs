//! What the key is good for, each as secret as the key: keys of branches and checkpoints, state, rows.

use noise_kernel::JobKey;
use noise_worker::generation_spec::GenerationSpec;
use plan::Plan;
use proto::JobId;
use tests::leaks::Scan;

pub fn add(scan: &mut Scan, key: &[u8; 32], plan: &Plan, job: &JobId, dimension: u64) {
    scan.add("the job's key", key);
    let key = JobKey::from_bytes(key).unwrap();
    for branch in 0..2 {
        let of_branch = key.branch(job.as_str(), branch, &plan.digest()).unwrap();
        scan.add(&format!("the key of branch {branch}"), of_branch.secret_bytes());
    }
    scan.add("the key of checkpoints", &*key.checkpoint_key(job.as_str()));
    // Rows made ahead are as secret as those that were fetched, and nothing that a server writes holds either.
    let mut generator = GenerationSpec::new(plan, &key, job, 0).unwrap().generator(0..dimension).unwrap();
    let mut values = vec![0f32; dimension as usize];
    for row in 0..plan.iterations() {
        generator.generate(&mut [&mut values]).unwrap();
        scan.add_values(&format!("row {row}"), &values);
        scan.add_values(&format!("state before row {}", row + 1), generator.state());
    }
}
