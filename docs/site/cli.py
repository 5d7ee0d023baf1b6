"""Writes the command line's reference: the output of `rustle … --help`, a page for each command."""

import re
import subprocess
from pathlib import Path

NAME = re.compile(r"^  ([a-z][a-z-]*)( |$)")


def write(program: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    text, commands = help_of(program)
    index = ["# `rustle`", "", *block(text), ""]
    (folder / "rustle.md").write_text("\n".join(index))
    for command in commands:
        page = pages(program, [command], 1)
        (folder / f"{command}.md").write_text("\n".join(page))


def pages(program: Path, words: list[str], level: int) -> list[str]:
    """Returns the lines of a command's page, with all commands below it."""
    text, commands = help_of(program, *words)
    page = [f"{'#' * min(level, 3)} `rustle {' '.join(words)}`", "", *block(text), ""]
    for command in commands:
        page += pages(program, [*words, command], level + 1)
    return page


def help_of(program: Path, *words: str) -> tuple[str, list[str]]:
    """Returns the help text, and the names of the commands in it."""
    # Help shows the values of variables, so the environment is empty.
    done = subprocess.run([program, *words, "--help"], env={}, capture_output=True, text=True, check=True)
    text = done.stdout.rstrip()
    listed = text.partition("\nCommands:\n")[2].partition("\n\n")[0].splitlines()
    names = [match[1] for match in map(NAME.match, listed) if match]
    return text, [name for name in names if name != "help"]


def block(text: str) -> list[str]:
    return ["```text", *(line.rstrip() for line in text.splitlines()), "```"]
