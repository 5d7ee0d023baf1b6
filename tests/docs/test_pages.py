"""Every command and program of the tutorial and of the pages with plots runs, and says what the page says of it."""

import importlib.util
import os
import re
import shutil

import nbformat
import pytest
from blocks import ROOT, blocks, run

PLOTS = ROOT / "docs/images/plans"


def test_the_tutorial(tmp_path):
    said = run(ROOT / "docs/tutorial.md", tmp_path)
    accuracies = [float(found) for found in re.findall(r"step 240: ([\d.]+)% of held-out", said)]
    run_well, plain, again, served = accuracies
    # Each has noise of its own.
    assert run_well > plain + 5 and min(run_well, again, served) > max(plain, 60), said
    assert "going on at step 100\n" in said and "ledger init" in said, said
    assert not (tmp_path / "lost/ledger.redb").exists()
    assert "ε" in (tmp_path / "run/report.md").read_text()
    assert "<svg" in (tmp_path / "served/report.html").read_text()


def numbers_apart(svg):
    """An SVG's words, and its numbers, which another processor may round otherwise."""
    found = re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", svg)
    return re.sub(r"-?\d+\.?\d*(?:e-?\d+)?", "#", svg), [float(number) for number in found]


def test_plans_in_pictures(tmp_path):
    run(ROOT / "docs/plans-in-pictures.md", tmp_path)
    made = sorted(path.name for path in tmp_path.glob("*.svg"))
    if os.environ.get("RUSTLE_WRITE_DOCS"):
        PLOTS.mkdir(parents=True, exist_ok=True)
        [shutil.copy(tmp_path / name, PLOTS) for name in made]
    assert made == sorted(path.name for path in PLOTS.glob("*.svg"))
    for name in made:
        words, numbers = numbers_apart((tmp_path / name).read_text())
        kept_words, kept = numbers_apart((PLOTS / name).read_text())
        assert words == kept_words, name
        assert numbers == pytest.approx(kept, rel=0.02, abs=1.0), name


def test_the_page_on_correlated_noise_has_the_figures_of_its_command(tmp_path):
    page = ROOT / "docs/correlated-noise.md"
    said = run(page, tmp_path)
    shown = dict(re.findall(r"^\| (identity|tree|blt|band-toeplitz|band-mf)[^|]*\| ([\d.]+) \|", page.read_text(), re.M))
    assert len(shown) == 5, shown
    for mechanism, error in shown.items():
        least = min(float(found) for found in re.findall(rf"{mechanism}[ \d]*┆ min-sep +┆ ([\d.]+)", said))
        assert f"{least:.1f}" == error, (mechanism, least)


@pytest.mark.parametrize("page", ["docs/choosing.md", "docs/loaders.md"])
def test_commands_of_the_pages_on_choices(page, tmp_path):
    assert "recommended" in run(ROOT / page, tmp_path)


def test_how_tos_are_programs():
    """`make test-frameworks` runs them; here it is enough that they compile."""
    pages = sorted((ROOT / "docs/howto").glob("*.md"))
    assert pages
    for page in pages:
        programs = [text for language, _, text in blocks(page) if language == "python"]
        assert programs, page
        [compile(text, str(page), "exec") for text in programs]


def test_notebooks_are_those_of_their_programs():
    folder = ROOT / "python/examples"
    spec = importlib.util.spec_from_file_location("notebooks", folder / "notebooks.py")
    notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebooks)
    for name in notebooks.NOTEBOOKS:
        kept = (folder / name).with_suffix(".ipynb").read_text()
        assert kept == notebooks.notebook((folder / name).read_text()), f"run python/examples/notebooks.py {name}"
        nbformat.validate(nbformat.reads(kept, as_version=4))
