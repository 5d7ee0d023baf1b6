//! Detects a launch that fell apart into single ranks: its launcher started more processes than MPI knows of.

/// The number of tasks of this process's step, as Slurm sets it.
const SLURM_STEP: &str = "SLURM_STEP_NUM_TASKS";
/// Set by `mpirun`, whose daemons may be tasks of such a step themselves.
const MPIRUN: &str = "OMPI_COMM_WORLD_SIZE";

/// Returns why a process that is alone in MPI may not continue, by its environment: each task of a step would take itself
/// for the whole launch.
pub fn apart(world: usize, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let tasks: usize = variable(SLURM_STEP)?.parse().ok()?;
    let is_apart = world == 1 && tasks > 1 && variable(MPIRUN).is_none();
    is_apart.then(|| {
        format!(
            "Slurm started {tasks} tasks, and MPI knows of this one alone; srun needs --mpi=pmix, or another that \
             this MPI library was built with (srun --mpi=list)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_do_not_find_each_other_are_distinguished_from_a_launch_of_one() {
        let step = |tasks: &'static str| move |name: &str| (name == SLURM_STEP).then(|| tasks.to_owned());
        assert!(apart(1, step("4")).is_some_and(|why| why.contains("4 tasks") && why.contains("--mpi=pmix")));
        for (world, tasks) in [(4, "4"), (1, "1"), (2, "4"), (1, "many")] {
            assert_eq!(apart(world, step(tasks)), None, "{world} of {tasks}");
        }
        assert_eq!(apart(1, |_| None), None);
        assert_eq!(apart(1, |name| Some(if name == MPIRUN { "1" } else { "4" }.to_owned())), None);
    }
}
