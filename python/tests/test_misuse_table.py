"""The table of misuses in `docs/misuse.md` says what tests show: each cell names one that is there."""

import ast
import os
import re
from pathlib import Path

import pytest
from conftest import ROOT
from misuse_table import ADAPTERS, CELLS, EVERYWHERE, WORDS, tables

PAGE = ROOT / "docs" / "misuse.md"
BEGIN, END = "<!-- of python/tests/misuse_table.py -->\n\n", "\n\n<!-- end -->"
# What tests of refusals call, or what they call does.
REFUSE = ("pytest.raises(", "refused(", "cells(", ".beyond()", "assert_copied(")
NAMED = [cell for row in CELLS.values() for cell in row.values()] + [f"{outcome} {test}" for _, outcome, test in EVERYWHERE]


def names(node):
    """What a statement of a module defines."""
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []


def test_every_cell_is_filled():
    assert CELLS.keys() == ADAPTERS.keys()
    for adapter, row in CELLS.items():
        assert row.keys() == WORDS.keys(), (adapter, row.keys() ^ WORDS.keys())


def test_the_page_has_the_table():
    before, rest = PAGE.read_text().split(BEGIN)
    table, after = rest.split(END)
    if os.environ.get("RUSTLE_WRITE_DOCS"):
        PAGE.write_text(before + BEGIN + tables() + END + after)
    assert table == tables(), "RUSTLE_WRITE_DOCS=1 writes it"


@pytest.mark.parametrize("cell", sorted(set(NAMED)))
def test_a_cell_has_its_test(cell):
    outcome, said = cell.split(" ", 1)
    assert outcome in ("refused", "charged", "kept", "warned", "none"), outcome
    if outcome == "none":
        assert len(said.split()) > 5
        return
    file, name, _, kind = re.fullmatch(r"(test_\w+\.py)::(\w+)(\[(\w+)\])?", said).groups()
    tree = ast.parse((Path(__file__).parent / file).read_text())
    found = next(node for node in tree.body if name in names(node))
    # The rows and adapters of the file's tables.
    listed = [node.value for node in tree.body if isinstance(node, ast.Assign) and node is not found]
    listed += [one for node in tree.body for one in getattr(node, "decorator_list", [])]
    rows = {node.id for one in listed for node in ast.walk(one) if isinstance(node, ast.Name)}
    assert kind is None or kind in rows, f"{kind} is in no table of {file}"
    if not name.startswith("test_"):
        assert name in rows or isinstance(found, ast.Assign), f"{name} is in no table of {file}"
    elif outcome == "refused":
        text = ast.unparse(found)
        assert any(word in text for word in REFUSE), f"{name} refuses nothing"
