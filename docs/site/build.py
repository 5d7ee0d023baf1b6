"""Builds the documentation as a site: build.py TARGET, with the program `rustle` named by RUSTLE_BIN.

TARGET/pages receives the repository's Markdown in its own folders, so that every link works as it is written. The references
generated from the code lie beside it: `rustle --help`, the .proto files, the package's docstrings. TARGET/site is the
result. Broken links and missing anchors are errors.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import cli
import examples
import grpc
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploy/README.md"]

# The pages by purpose, as the README lists them. Pages in no list come last, under "More".
ORDER = {
    "Learn": [
        "README.md",
        "docs/correlated-noise.md",
        "docs/choosing.md",
        "docs/loaders.md",
        "docs/tutorial.md",
        "docs/plans-in-pictures.md",
        "docs/notation.md",
        "docs/glossary.md",
        "docs/comparison.md",
        "docs/howto/*.md",
        "docs/federated.md",
        "docs/trainings.md",
        "python/examples/*.md",
    ],
    "Use": [
        "docs/cli.md",
        "docs/python.md",
        "docs/misuse.md",
        "docs/planner.md",
        "docs/accounting.md",
        "docs/audit.md",
        "docs/grid.md",
        "docs/batches.md",
        "docs/serving.md",
        "docs/mpi.md",
        "docs/slurm.md",
    ],
    "Operate": [
        "docs/operations.md",
        "docs/troubleshooting.md",
        "deploy/README.md",
        "docs/security.md",
        "SECURITY.md",
        "docs/metrics.md",
        "docs/checkpoints.md",
        "docs/elasticity.md",
        "docs/scaling.md",
    ],
    "Understand": [
        "ARCHITECTURE.md",
        "docs/guarantees.md",
        "docs/budget.md",
        "docs/testing.md",
        "docs/results/*.md",
        "docs/noise-stream.md",
        "docs/grid-stream.md",
        "docs/shared-memory.md",
        "docs/papers.md",
        "docs/benchmarks.md",
        "docs/reproductions/README.md",
        "docs/reproductions/*.md",
    ],
    "Reference": {
        "Python": ["reference/python/rustle.md", "reference/python/*.md"],
        "Command line": ["reference/cli/rustle.md", "reference/cli/*.md"],
        "gRPC": ["reference/grpc/*.md"],
    },
    "More": ["CONTRIBUTING.md", "CHANGELOG.md", "docs/renames.md", "docs/**/*.md"],
}
NAMES = {"README.md": "Rustle", "docs/reproductions/README.md": "Reproductions", "deploy/README.md": "Deployment"}


def main(target: Path) -> None:
    pages, site = target / "pages", target / "site"
    shutil.rmtree(pages, ignore_errors=True)
    own(pages)
    program = Path(os.environ.get("RUSTLE_BIN", ROOT / "target/release/rustle"))
    cli.write(program, pages / "reference/cli")
    grpc.write(ROOT / "proto/proto/rustle/v1", pages / "reference/grpc")
    shutil.copytree(ROOT / "docs/site/python", pages / "reference/python")
    shutil.copy(ROOT / "docs/site/site.css", pages / "site.css")
    examples.write(ROOT / "python/examples", pages / "python/examples")
    python = {
        "paths": [str(ROOT / "python")],
        "options": {"extensions": [str(ROOT / "docs/site/docstrings.py")]},
    }
    config = {
        "INHERIT": str(ROOT / "docs/site/mkdocs.yml"),
        "docs_dir": str(pages),
        "site_dir": str(site),
        "nav": nav(pages),
        "plugins": {"mkdocstrings": {"handlers": {"python": python}}},
    }
    file = target / "mkdocs.yml"
    file.write_text(yaml.safe_dump(config, allow_unicode=True, sort_keys=False))
    # Without `--quiet`, which would stop warnings from being errors.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--config-file", file]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit("\n".join(line for line in done.stdout.splitlines() if not line.startswith("INFO")))


def own(pages: Path) -> None:
    """Copies the repository's pages, without the folder that builds the site."""
    shutil.copytree(ROOT / "docs", pages / "docs", ignore=shutil.ignore_patterns("site"))
    for name in PAGES:
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, pages / name)


def nav(pages: Path) -> list:
    """Returns every page once, in the order of `ORDER`."""
    seen: set[str] = set()

    def entries(patterns: list | dict) -> list:
        if isinstance(patterns, dict):
            return [{section: found} for section, within in patterns.items() if (found := entries(within))]
        found = []
        for path in (path for pattern in patterns for path in sorted(pages.glob(pattern))):
            name = path.relative_to(pages).as_posix()
            if name not in seen:
                seen.add(name)
                found.append({NAMES[name]: name} if name in NAMES else name)
        return found

    return entries(ORDER)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
