"""A model of the next character in numpy: embeddings of the characters before, one hidden layer, softmax.

Bengio et al. (2003) with characters for words. All parameters lie in one float32 vector, which is what noise is added to.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shape:
    """Sizes of the model: ``symbols`` characters, ``context`` of them seen, ``embedding`` and ``hidden`` numbers."""

    symbols: int
    context: int
    embedding: int
    hidden: int

    @property
    def parameters(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes in the order of the flattened vector."""
        return [
            ("embedding", (self.symbols, self.embedding)),
            ("hidden.weight", (self.context * self.embedding, self.hidden)),
            ("hidden.bias", (self.hidden,)),
            ("output.weight", (self.hidden, self.symbols)),
            ("output.bias", (self.symbols,)),
        ]

    @property
    def dimension(self) -> int:
        return sum(int(np.prod(shape)) for _, shape in self.parameters)

    def split(self, vector: np.ndarray) -> list[np.ndarray]:
        """Returns the parameters as views of a flattened vector."""
        pieces, start = [], 0
        for _, shape in self.parameters:
            end = start + int(np.prod(shape))
            pieces.append(vector[start:end].reshape(shape))
            start = end
        return pieces

    def initial(self, seed: int) -> np.ndarray:
        """Returns a first model: the output layer zero, so that every character is as likely as another."""
        drawn = np.random.default_rng(seed)
        vector = np.zeros(self.dimension, np.float32)
        embedding, hidden, *_ = self.split(vector)
        embedding[:] = drawn.normal(0, 1, embedding.shape)
        hidden[:] = drawn.normal(0, len(hidden) ** -0.5, hidden.shape)
        return vector


def examples(text: np.ndarray, context: int, unknown: int, start: int = 0, count: int | None = None):
    """Returns contexts (examples, context) and the characters after them, of a text from ``start`` on."""
    padded = np.concatenate([np.full(context, unknown, text.dtype), text])
    windows = np.lib.stride_tricks.sliding_window_view(padded, context)[:-1]
    end = len(text) if count is None else min(len(text), start + count)
    return windows[start:end], text[start:end]


def gradient(shape: Shape, vector: np.ndarray, contexts: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Returns the gradient of the mean cross entropy, flattened."""
    embedding, hidden, bias, output, _ = shape.split(vector)
    inputs, active, odds = _forward(shape, vector, contexts)
    found = np.zeros_like(vector)
    d_embedding, d_hidden, d_bias, d_output, d_last = shape.split(found)
    odds[np.arange(len(after)), after] -= 1
    odds /= len(after)
    d_output[:] = active.T @ odds
    d_last[:] = odds.sum(0)
    before = (odds @ output.T) * (1 - active * active)
    d_hidden[:] = inputs.T @ before
    d_bias[:] = before.sum(0)
    d_inputs = (before @ hidden.T).reshape(-1, shape.embedding)
    chosen = np.zeros((contexts.size, shape.symbols), np.float32)
    chosen[np.arange(contexts.size), contexts.reshape(-1)] = 1
    d_embedding[:] = chosen.T @ d_inputs
    return found


def judged(shape: Shape, vector: np.ndarray, contexts: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Returns the mean cross entropy in bits a character, and the share of characters that are the likeliest."""
    bits, right = 0.0, 0
    for start in range(0, len(after), 4096):
        part = slice(start, start + 4096)
        _, _, odds = _forward(shape, vector, contexts[part])
        of = odds[np.arange(len(odds)), after[part]]
        bits -= float(np.log2(np.maximum(of, 1e-30)).sum())
        right += int((odds.argmax(1) == after[part]).sum())
    return bits / len(after), right / len(after)


def _forward(shape: Shape, vector: np.ndarray, contexts: np.ndarray):
    embedding, hidden, bias, output, last = shape.split(vector)
    inputs = embedding[contexts].reshape(len(contexts), -1)
    active = np.tanh(inputs @ hidden + bias)
    scores = active @ output + last
    odds = np.exp(scores - scores.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    return inputs, active, odds
