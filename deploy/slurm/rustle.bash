# shellcheck shell=bash
# What the batch scripts beside this share: clear words for what is missing, and steps that end with a checkpoint ahead of
# the time limit. Sourced by them; docs/slurm.md says how they are used.

fail() {
    echo "rustle: $*" >&2
    exit 1
}

# need NAME WHAT: the variable that a user sets.
need() {
    [[ -n ${!1:-} ]] || fail "$1 is not set: $2; sbatch --export=ALL,$1=…"
}

# of_slurm NAME...: variables that Slurm sets.
of_slurm() {
    local name
    for name in "$@"; do
        [[ -n ${!name:-} ]] || fail "$name is not set: this script is for sbatch to run (docs/slurm.md)"
    done
}

# The folder of the run, made absolute, with a plan, a ledger and a way to the key. No job begins a ledger: where one is lost, an
# empty one would know nothing of what was released.
open_run() {
    need RUSTLE_RUN "the folder of the run, which all nodes see"
    RUSTLE_RUN=$(realpath -e "$RUSTLE_RUN") || fail "RUSTLE_RUN is no folder"
    export RUSTLE_RUN
    plan=$RUSTLE_RUN/plan.toml
    [[ -r $plan ]] || fail "$plan is missing"
    ledger=$RUSTLE_RUN/ledger.redb
    [[ -e $ledger ]] || fail "$ledger is missing. Of a new run: rustle ledger init --file $ledger. If there was one, restore it from" \
        "a copy that is not older than the last released row, and adopt that: rustle ledger adopt --file $ledger"
    if [[ -z ${RUSTLE_KEY_FILE:-}${RUSTLE_KEY_COMMAND:-} ]]; then
        export RUSTLE_KEY_FILE=$RUSTLE_RUN/job.key
    fi
    definition=(--job "${RUSTLE_JOB:-default}" --plan "$plan" ${RUSTLE_DIMENSION:+--dimension "$RUSTLE_DIMENSION"})
}

# program NAME COMMAND HOW: the path of a program that has this command; how it is built.
program() {
    local path
    path=$(command -v "$1") || fail "$1 is not on the PATH of $(hostname)"
    "$path" "$2" --help >/dev/null 2>&1 || fail "$path has no command $2: $3"
    echo "$path"
}

# tasks_of JOB: as Slurm has them now. SLURM_NTASKS is what sbatch was told, whatever a job was changed to since.
tasks_of() {
    scontrol show job "$1" | sed -n '0,/NumTasks=/s/.*NumTasks=\([0-9]*\).*/\1/p'
}

# All components of this job, for squeue.
jobs=${SLURM_JOB_ID_HET_GROUP_0:-${SLURM_JOB_ID:-}}${SLURM_JOB_ID_HET_GROUP_1:+,$SLURM_JOB_ID_HET_GROUP_1}

# Ranks that find each other by PMIx, all of which end when one fails.
srun_mpi=(srun "--mpi=${RUSTLE_SRUN_MPI:-pmix}" --kill-on-bad-exit=1)

# Why this job is to end: "limit" where its time is nearly up, "slurm" where Slurm ends it by itself.
stopping=
tasks=
on_limit() {
    stopping=limit
    [[ -z $tasks ]] || kill -USR1 "$tasks" 2>/dev/null || true
}
trap on_limit USR1
trap 'stopping=${stopping:-slurm}' TERM

# Whether an srun that has made its steps outlives them all. Its own child waits beside it from then on.
outlives_its_steps() {
    local steps
    pgrep --parent "$1" >/dev/null || return 1
    steps=$(squeue --noheader --steps --jobs="$jobs" --format=%i) || return 1
    ! grep --quiet '\.[0-9]' <<<"$steps"
}

# end_if_idle SRUN: srun of two components hangs at times after one of them has failed (Slurm 22.05):
# all tasks are gone, and the nodes would be held to the end of the time limit.
end_if_idle() {
    local seen=0
    while sleep "${RUSTLE_SLURM_POLL:-15}" && kill -0 "$1" 2>/dev/null; do
        if outlives_its_steps "$1"; then seen=$((seen + 1)); else seen=0; fi
        if ((seen == 2)); then
            echo "rustle: srun goes on though none of its tasks is left; it is ended" >&2
            kill -KILL "$1"
        fi
    done
}

# step SRUN...: to its end. SIGUSR1, which Slurm sends to this script ahead of the time limit (--signal=B:USR1@SECONDS), goes
# on to all tasks, which end after what is under way. SIGTERM comes to tasks by Slurm itself, so that here it is waited out.
step() {
    local status=0 watcher
    "$@" &
    tasks=$!
    end_if_idle "$tasks" &
    watcher=$!
    [[ $stopping != limit ]] || kill -USR1 "$tasks" || true
    while kill -0 "$tasks" 2>/dev/null; do
        wait "$tasks" || true
    done
    wait "$tasks" || status=$?
    tasks=
    kill "$watcher" 2>/dev/null || true
    return "$status"
}

# starts GROUP NODE: whether that node, of that component of a heterogeneous job, still starts what it is told to.
starts() {
    timeout 60 srun ${SLURM_HET_SIZE:+--het-group="$1"} --overlap --mpi=none --nodes=1 --ntasks=1 --nodelist="$2" \
        true >/dev/null 2>&1
}

# After a step that failed: whether a node of this job, `lost`, is gone. Slurm itself may take minutes until it knows, and
# ranks that wait for those of a lost node give up before.
lost=
is_lost() {
    local group nodes node
    for ((group = 0; group < ${SLURM_HET_SIZE:-1}; group++)); do
        nodes=SLURM_JOB_NODELIST${SLURM_HET_SIZE:+_HET_GROUP_$group}
        for node in $(scontrol show hostnames "${!nodes}"); do
            [[ $node != "$SLURMD_NODENAME" ]] || continue
            starts "$group" "$node" && continue
            # Where nothing can be started here either, it is not that node.
            starts 0 "$SLURMD_NODENAME" || return 1
            lost=$node
            return 0
        done
    done
    return 1
}

# queue_again WHY: Slurm ends this run of the job, and starts it again when there is room.
queue_again() {
    echo "rustle: $1; queued again after ${SLURM_RESTART_COUNT:-0} restarts"
    scontrol requeue "$SLURM_JOB_ID" || fail "Slurm does not requeue this job; submit it again: it goes on from here"
    # Until Slurm ends this script.
    sleep 600 &
    wait $! || true
    exit 0
}

# This node's address, as Slurm reaches it.
address() {
    local node
    node=$(scontrol show node "$SLURMD_NODENAME" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
    getent ahosts "$node" | sed -n '1s/ .*//p'
}
