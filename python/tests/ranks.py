"""A script on several ranks of one process group."""

import os
import socket
import subprocess
import sys
import time

RANKS = 2

# Threads of gloo may still hold tensors when the interpreter ends, and then abort the process, well after all that is
# tested here (https://github.com/pytorch/pytorch/pull/179291).
LEAVES = "\nimport os\nos._exit(0)\n"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def run(script, *words):
    """A script with these words, on all ranks; each has to end well."""
    port, ranks = free_port(), []
    for rank in range(RANKS):
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        environment |= {"RANK": str(rank), "WORLD_SIZE": str(RANKS)}
        command = [sys.executable, "-c", script + LEAVES, *map(str, words)]
        ranks.append(subprocess.Popen(command, env=environment))
    ends = time.monotonic() + 240
    try:
        # One that failed has others wait for it.
        while not any(rank.poll() for rank in ranks) and any(rank.poll() is None for rank in ranks):
            assert time.monotonic() < ends, "the ranks do not end"
            time.sleep(0.05)
        codes = [rank.poll() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert codes == [0] * RANKS
