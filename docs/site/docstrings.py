"""Docstrings as Markdown: they are written for Python's own help, with roles and literals of reStructuredText."""

import re
from typing import Any

import griffe

# With its module's name a role is a link, without it a name of the same page.
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
    """Changes every docstring once it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)
