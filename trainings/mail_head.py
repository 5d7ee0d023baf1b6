"""What is trained over frozen sentence vectors: a low-rank adapter on them and a linear head, which tell spam from other mail.

LoRA (Hu et al. 2022) on the last, frozen map, the identity: x + B·A·x, with A of rank four. Numbers lie in one vector: A, B,
the head and its offset.
"""

import numpy as np

RANK = 4


def dimension(width: int) -> int:
    return 2 * RANK * width + width + 1


def initial(width: int, seed: int) -> np.ndarray:
    """Returns a first model: A random, all else zero, so that mail is as likely spam as not."""
    found = np.zeros(dimension(width))
    found[: RANK * width] = np.random.default_rng(seed).normal(0, width**-0.5, RANK * width)
    return found


def gradients(model: np.ndarray, vectors: np.ndarray, spam: np.ndarray) -> np.ndarray:
    """Returns each mail's gradient of the cross entropy, shape (mails, dimension)."""
    down, up, head, _ = _split(model, vectors.shape[1])
    low, inner, odds = _forward(model, vectors)
    errors = (odds - spam)[:, None]
    back = errors * head
    d_down = (back @ up)[:, :, None] * vectors[:, None, :]
    d_up = back[:, :, None] * low[:, None, :]
    matrices = [one.reshape(len(vectors), RANK * vectors.shape[1]) for one in (d_down, d_up)]
    return np.concatenate([*matrices, errors * inner, errors], 1)


def judged(model: np.ndarray, vectors: np.ndarray, spam: np.ndarray, owners: np.ndarray) -> tuple[float, float]:
    """Returns cross entropy in bits a mail, and accuracy: means over senders of the means over their mails."""
    _, _, odds = _forward(model, vectors)
    right = np.maximum(np.where(spam, odds, 1 - odds), 1e-30)
    mails = np.bincount(owners)
    bits = np.bincount(owners, -np.log2(right)) / mails
    return float(bits.mean()), float((np.bincount(owners, right > 0.5) / mails).mean())


def _split(model: np.ndarray, width: int):
    down, up, head = RANK * width, 2 * RANK * width, 2 * RANK * width + width
    return model[:down].reshape(RANK, width), model[down:up].reshape(width, RANK), model[up:head], model[head]


def _forward(model: np.ndarray, vectors: np.ndarray):
    down, up, head, offset = _split(model, vectors.shape[1])
    low = vectors @ down.T
    inner = vectors + low @ up.T
    scores = np.clip(inner @ head + offset, -500, 500)
    return low, inner, 1 / (1 + np.exp(-scores))
