"""The programs of docs/howto run as they stand there, and the notebooks of the examples; docs/python.md has every error."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rustle import errors

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page, needs", [("pytorch", "torch"), ("opacus", "opacus"), ("jax", "optax"), ("huggingface", "peft")])
def test_how_to(tmp_path, page, needs):
    pytest.importorskip(needs)
    text = (ROOT / f"docs/howto/{page}.md").read_text()
    program = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Each shows batches that are checked.
    assert "Unchecked" not in done.stderr, done.stderr
    (report,) = tmp_path.glob("*-run/report.md")
    assert "ε" in report.read_text()


@pytest.mark.parametrize("name, needs", [("digits_opacus", "opacus"), ("digits_jax", "optax")])
def test_notebook(tmp_path, name, needs):
    pytest.importorskip(needs)
    pytest.importorskip("sklearn")
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(ROOT / f"python/examples/{name}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    found, report = [output["data"] for output in outputs if "data" in output]
    assert "'gain': 0." in found["text/plain"] and "ε" in report["text/markdown"]


def test_the_guide_says_what_to_do_about_every_error():
    text = (ROOT / "docs/python.md").read_text()
    section = text.partition("\n## Errors\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", section)) | {"RustleError"}
    kinds = {kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert not kinds - named, kinds - named
