"""Makes the notebooks of the examples from their programs: notebooks.py [NAME.py …]

A program is cut at lines that begin with `# %%`. Its docstring and cells marked `[markdown]` are text,
`[notebook]` is code that stands in the notebook alone, behind `# `; `[program]` is what the notebook leaves away. A test
holds both in step.
"""

import ast
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NOTEBOOKS = ["digits_opacus.py", "digits_jax.py"]


def cells(program: str) -> list[tuple[str, str]]:
    """("markdown" or "code", text) of each cell of the notebook, in order."""
    first, *rest = program.split("\n# %%")
    found = [("markdown", "# " + ast.get_docstring(ast.parse(program)).strip())]
    body = first.split('"""\n', 2)[-1] if first.startswith('"""') else first
    found.append(("code", body))
    for cell in rest:
        mark, _, text = cell.partition("\n")
        uncommented = "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines())
        match mark.strip():
            case "[markdown]":
                found.append(("markdown", uncommented))
            case "[notebook]":
                found.append(("code", uncommented))
            case "[program]":
                pass
            case "":
                found.append(("code", text))
            case other:
                raise ValueError(f"a cell is marked {other}; allowed: [markdown], [notebook], [program], nothing")
    return [(kind, text.strip("\n")) for kind, text in found if text.strip()]


def notebook(program: str) -> str:
    """A notebook of format 4.5, without outputs."""
    made = []
    for number, (kind, text) in enumerate(cells(program)):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(True)}
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    for name in sys.argv[1:] or NOTEBOOKS:
        program = FOLDER / Path(name).name
        program.with_suffix(".ipynb").write_text(notebook(program.read_text()))


if __name__ == "__main__":
    main()
