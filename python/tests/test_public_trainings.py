"""Trainings in the form that frameworks' own guides have, made private by a few lines: the programs in public_trainings.

Each names the guide, and its licence, whose form it has; data, sizes and words are our own. What makes each private is the
difference of its two files. Both run, on data that needs no download.
"""

import difflib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rustle

FOLDER = Path(__file__).parent / "public_trainings"
MOST_LINES = 12
# What each needs, and the step at which its run is over.
TRAININGS = {
    "char_lstm": (("opacus",), 6),
    "digits": (("opacus", "sklearn"), 16),
    "flower_digits": (("flwr", "ray", "sklearn"), 3),
    "gpt2_lora": (("transformers", "peft", "accelerate"), 6),
    "jax_logistic": (("jax_privacy",), 16),
    "keras_digits": (("keras", "sklearn"), 8),
    "lightning_digits": (("lightning", "sklearn"), 16),
    "nvflare_digits": (("nvflare", "sklearn"), 3),
    "ray_train_digits": (("ray", "sklearn"), 16),
    "vit": (("transformers", "accelerate", "sklearn"), 8),
}
# Words of a command line: NVFlare starts its clients' script by its name.
WORDS = {"nvflare_digits": ("--train_script", str(FOLDER / "clients" / "digits_client.py"))}
QUIET = {"HF_HUB_OFFLINE": "1", "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1"}


def ran(program, folder):
    folder.mkdir()
    environment = {**os.environ, **QUIET, "KERAS_BACKEND": "torch"}
    command = [sys.executable, program, *WORDS.get(program.stem, ())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Unchecked" not in done.stderr, done.stderr


def test_every_training_is_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == TRAININGS.keys()
    assert {path.stem for path in FOLDER.glob("private/*.py")} == TRAININGS.keys()


@pytest.mark.parametrize("name", TRAININGS)
def test_a_few_lines_make_it_private(name):
    plain, private = [(FOLDER / path).read_text().splitlines() for path in (f"{name}.py", f"private/{name}.py")]
    changed = [line for line in difflib.unified_diff(plain, private, n=0, lineterm="") if line[:2] not in ("--", "++", "@@")]
    assert 0 < len(changed) <= MOST_LINES, "\n".join(changed)


@pytest.mark.parametrize("name", TRAININGS)
def test_its_form_and_licence_are_named(name):
    first = (FOLDER / f"{name}.py").read_text().splitlines()[0]
    assert "in the form of" in first and re.search(r"(Apache-2.0|BSD-3-Clause)\)", first)


@pytest.mark.parametrize("name", TRAININGS)
def test_it_trains(tmp_path, name):
    needs, steps = TRAININGS[name]
    for package in ("torch", *needs):
        if not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    ran(FOLDER / f"{name}.py", tmp_path / "plain")
    ran(FOLDER / f"private/{name}.py", tmp_path / "private")
    with rustle.connect(f"inproc://{tmp_path / 'private' / 'run'}") as session:
        report = json.loads(session.report(delta=1e-5, format="json"))
    assert report["released"]["rows"] == steps
    assert report["released"]["guarantees"][0]["epsilon"] == pytest.approx(8.0, rel=1e-6)
