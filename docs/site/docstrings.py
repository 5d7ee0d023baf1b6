"""Turns docstrings into Markdown: their source has the roles and literals of reStructuredText, for Python's own help."""

import re
from typing import Any

import griffe

# A role with its module's name becomes a link; without it, a name on the same page.
FAR = re.compile(r":(?:mod|func|class|meth|attr):`(rustle[^`]*)`")
NEAR = re.compile(r":(?:mod|func|class|meth|attr):`([^`]+)`")
TERM = re.compile(r"^(\S.*)\n((?: {4}.*\n?)+)", re.MULTILINE)


def markdown(text: str) -> str:
    text = NEAR.sub(r"`\1`", FAR.sub(r"[`\1`][\1]", text))
    blocks = []
    for block in text.split("\n\n"):
        if block == "::":
            continue
        # A term with an indented explanation below.
        if not block.startswith("    "):
            block = TERM.sub(lambda term: f"{term[1]}\n:   {term[2].strip()}\n\n", block).rstrip()
        blocks.append(block)
    return "\n\n".join(blocks)


class Docstrings(griffe.Extension):
    """Converts every docstring as soon as griffe has read it."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)
