"""Writes the pages of the examples that are notebooks too."""

import importlib.util
import shutil
from pathlib import Path


def write(source: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    spec = importlib.util.spec_from_file_location("notebooks", source / "notebooks.py")
    notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebooks)
    for name in notebooks.NOTEBOOKS:
        program = source / name
        for file in (program, program.with_suffix(".ipynb")):
            shutil.copy(file, folder)
        page = []
        for kind, text in notebooks.cells(program.read_text()):
            page.append(text if kind == "markdown" else f"```python\n{text}\n```")
        page.append(f"The [program]({name}) and the [notebook]({program.stem}.ipynb).")
        (folder / f"{program.stem}.md").write_text("\n\n".join(page) + "\n")
