"""A model of the next character as wide as one likes, in numpy, and the sum of clipped gradients of one example each.

Embeddings of the characters before, two hidden layers, softmax. A gradient of one example is a sum of outer products, so
that its norm is known without it: however large the model, the sum of a batch is one product of matrices a layer.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shape:
    """Sizes: ``symbols`` characters, ``context`` of them seen, numbers of each and of the two hidden layers."""

    symbols: int
    context: int
    embedding: int
    hidden: tuple[int, int]

    @property
    def layers(self) -> list[tuple[int, int]]:
        first, second = self.hidden
        return [(self.context * self.embedding, first), (first, second), (second, self.symbols)]

    @property
    def parameters(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes in the order of the flattened vector."""
        found: list[tuple[str, tuple[int, ...]]] = [("embedding", (self.symbols, self.embedding))]
        for number, (inputs, outputs) in enumerate(self.layers):
            found += [(f"{number}.weight", (inputs, outputs)), (f"{number}.bias", (outputs,))]
        return found

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
        """Returns a first model, float32: the last layer zero, so that every character is as likely as another."""
        drawn, vector = np.random.default_rng(seed), np.zeros(self.dimension, np.float32)
        embedding, *layers = self.split(vector)
        drawn.standard_normal(out=embedding, dtype=np.float32)
        for weight in layers[0:4:2]:
            drawn.standard_normal(out=weight, dtype=np.float32)
            weight *= np.float32((2 / len(weight)) ** 0.5)
        return vector


def clipped_sum(
    shape: Shape, vector: np.ndarray, examples: tuple[np.ndarray, np.ndarray], clip_norm: float, out: np.ndarray
) -> None:
    """Overwrites ``out`` with the sum of each example's gradient of the cross entropy, clipped."""
    contexts, after = examples
    embedding, *layers = shape.split(vector)
    inputs, errors = _forward(shape, vector, contexts)
    errors[np.arange(len(after)), after] -= 1
    backward = [errors]
    for number in (2, 1):
        backward.insert(0, (backward[0] @ layers[2 * number].T) * (inputs[number] > 0))
    positions = (backward[0] @ layers[0].T).reshape(*contexts.shape, shape.embedding)
    chosen = (contexts[:, :, None] == np.arange(shape.symbols)).astype(np.float32)
    tables = chosen.transpose(0, 2, 1) @ positions
    squares = _squares(tables.reshape(len(after), -1))
    for given, back in zip(inputs, backward):
        # Of weight and bias together.
        squares += (_squares(given) + 1) * _squares(back)
    scale = np.minimum(1, clip_norm / np.maximum(np.sqrt(squares), 1e-30)).astype(np.float32)[:, None]
    d_embedding, *d_layers = shape.split(out)
    d_embedding[:] = np.tensordot(scale[:, 0], tables, 1)
    for number, (given, back) in enumerate(zip(inputs, backward)):
        np.matmul(given.T, back * scale, out=d_layers[2 * number])
        d_layers[2 * number + 1][:] = (back * scale).sum(0)


def bits(shape: Shape, vector: np.ndarray, contexts: np.ndarray, after: np.ndarray) -> float:
    """Returns the mean cross entropy in bits a character."""
    _, odds = _forward(shape, vector, contexts)
    return float(-np.log2(np.maximum(odds[np.arange(len(after)), after], 1e-30)).mean())


def _forward(shape: Shape, vector: np.ndarray, contexts: np.ndarray):
    """Returns the input of each layer, and the odds of characters."""
    embedding, *layers = shape.split(vector)
    inputs = [embedding[contexts].reshape(len(contexts), -1)]
    for number in (0, 1):
        inputs.append(np.maximum(inputs[-1] @ layers[2 * number] + layers[2 * number + 1], 0))
    scores = inputs[-1] @ layers[4] + layers[5]
    odds = np.exp(scores - scores.max(1, keepdims=True))
    return inputs, odds / odds.sum(1, keepdims=True)


def _squares(values: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", values, values, dtype=np.float64)
