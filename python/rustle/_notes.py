"""What a new folder of a run says of itself: to git, that it is not to be committed; to people, what is secret in it."""

from __future__ import annotations

import os

# For a folder that holds nothing but the run, and for one that held other files before.
_WHOLE = "# The folder of a run of Rustle: its key and its checkpoints are secret.\n*\n"
_SECRETS = (
    "# Files of a run of Rustle that are secret.\n/job.key*\n/batches.key\n/ledger.redb*\n"
    # Sweeps: all runs with their scores, and one plan for each run.
    "/*.sweep.json\n/*.????????.plan.toml\n"
)

_OF_A_RUN = {"plan.toml", "batches.key", "job.key", "ledger.redb"}
_ANCHORS = ("job.key.anchor-", "ledger.redb.anchor-")

_README = """\
# The folder of a run of Rustle

| file | |
|---|---|
| `job.key` | secret: with the ledger it gives all noise of the run, which can then be subtracted |
| `batches.key` | secret: it says which records were in which batch |
| `ledger.redb` | what was released, and numbers that the noise depends on; without it the run cannot continue |
| `*.sweep.json`, `*.????????.plan.toml` | secret: they show how many runs a sweep has, and their scores |
| checkpoints | hold the cursor, which has a secret, and are as private as the model before its release |
| `plan.toml`, `report.md` | may be published |

Never copy this folder to train twice: both trainings would add the same noise, and their difference would have none.
When the training is over, `session.finish(destroy_key=True)` deletes `job.key`; its copies are yours to delete.
"""


def write(folder: str) -> None:
    """Writes ``.gitignore`` and, where the folder holds nothing but the run, ``README.md``. Files that are there stay."""
    is_alone = all(name in _OF_A_RUN or name.startswith(_ANCHORS) for name in os.listdir(folder))
    if is_alone:
        _write_new(os.path.join(folder, "README.md"), _README)
    _write_new(os.path.join(folder, ".gitignore"), _WHOLE if is_alone else _SECRETS)


def _write_new(path: str, text: str) -> None:
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        pass
