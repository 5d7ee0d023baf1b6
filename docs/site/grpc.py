"""Writes the reference of the services from the .proto files: their comments, calls and messages."""

import re
from pathlib import Path

BLOCK = re.compile(r"((?://[^\n]*\n)*)((service|message|enum) (\w+) \{(?:[^\n]*\}|.*?\n\}))", re.DOTALL)
CALL = re.compile(r"((?:  //[^\n]*\n)*)  rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\)")


def write(protos: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    files = {path.stem: blocks(path.read_text()) for path in sorted(protos.glob("*.proto"))}
    homes = {name: stem for stem, found in files.items() for _, _, _, name in found}
    for stem, found in files.items():
        lines = [f"# `rustle/v1/{stem}.proto`", ""]
        for comment, source, kind, name in sorted(found, key=lambda block: block[2] != "service"):
            lines += [f"## {kind} {name}", "", text_of(comment), ""]
            if kind == "service":
                lines += calls(source, stem, homes)
            lines += ["```proto", source, "```", ""]
        (folder / f"{stem}.md").write_text("\n".join(lines))


def blocks(text: str) -> list[tuple[str, str, str, str]]:
    """Returns comment, source, kind and name of every block at the top level."""
    return BLOCK.findall(text)


def calls(source: str, stem: str, homes: dict[str, str]) -> list[str]:
    """Returns a list of the calls, with links to their requests and answers."""

    def link(name: str) -> str:
        home = homes[name]
        return f"[{name}]({'' if home == stem else home + '.md'}#message-{name.lower()})"

    lines = []
    for comment, name, streams_in, request, streams_out, answer in CALL.findall(source):
        into, out = ("stream of " if streams_in else ""), ("stream of " if streams_out else "")
        lines.append(f"* **{name}**: {into}{link(request)} → {out}{link(answer)}. {text_of(comment)}")
    return [*lines, ""]


def text_of(comment: str) -> str:
    return " ".join(line.strip().removeprefix("//").strip() for line in comment.splitlines())
