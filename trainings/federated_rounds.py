"""The rounds of the federated training: what clients do, the server with a session's noise, and the same without noise."""

import argparse
from pathlib import Path

import next_character
import numpy as np
import runs
import shakespeare
from next_character import Shape

import rustle
from rustle import schemes
from rustle.federated import Server, Sgd, clip, local_update

CLIP_NORM = 0.3
MOMENTUM = 0.9
#: Context, embedding and hidden numbers of the models; the tiny one is that of the quick form.
MODELS = {"tiny": (4, 8, 32), "small": (6, 12, 96), "large": (8, 16, 640)}
#: Of a client: characters of a step, learning rate.
CHARACTERS, CLIENT_RATE = 64, 1.0


class Watched(Sgd):
    """The server's optimizer, which also sees the noise on the sum of all rounds so far.

    That is for the figures of a simulation: a server that trains on people's data must not keep it.
    """

    def __init__(self, learning_rate: float, clients_per_round: float, dimension: int):
        super().__init__(learning_rate, MOMENTUM)
        self.clients_per_round = clients_per_round
        self.total = np.zeros(dimension)
        self.noise = np.zeros(dimension)
        self.squares: list[float] = []

    def step(self, parameters: np.ndarray, update: np.ndarray) -> np.ndarray:
        self.noise += update * self.clients_per_round - self.total.astype(np.float32)
        self.squares.append(float(np.mean(self.noise**2)))
        return super().step(parameters, update)

    @property
    def rms(self) -> float:
        """The noise on prefix sums, in clip norms: over coordinates and rounds."""
        return float(np.sqrt(np.mean(self.squares))) / CLIP_NORM


def shape_of(arguments: argparse.Namespace) -> Shape:
    return Shape(shakespeare.SYMBOLS, *MODELS[arguments.model])


def client_update(
    shape: Shape, model: np.ndarray, text: np.ndarray, place: list[int], arguments: argparse.Namespace
):
    """Returns the change that some steps on a role's lines make: the same whenever the round is taken."""
    drawn = np.random.default_rng(place)
    starts = drawn.integers(0, max(1, len(text) - CHARACTERS), arguments.steps)
    batches = [
        next_character.examples(text, shape.context, shakespeare.UNKNOWN, int(start), CHARACTERS)
        for start in starts
    ]
    model = model.astype(np.float32)
    return local_update(
        model, batches, lambda here, batch: next_character.gradient(shape, here.astype(np.float32), *batch), CLIENT_RATE
    )


def cohort_sum(
    shape: Shape, model: np.ndarray, roles: list[np.ndarray], cohort: np.ndarray, place: list[int], arguments
) -> np.ndarray:
    """Returns the sum of the cohort's clipped changes."""
    total = np.zeros(shape.dimension)
    for role in cohort.tolist():
        total += clip(client_update(shape, model, roles[role], [*place, role], arguments), CLIP_NORM)
    return total


def with_noise(session, shape, roles, test, seed, rate, arguments, folder):
    """Returns the server after the last round, and (round, bits) on the way."""
    clients = len(roles) / arguments.min_sep
    optimizer = Watched(rate, clients, shape.dimension)
    server = Server(
        session,
        shape.initial(seed).astype(np.float64),
        clients_per_round=clients,
        optimizer=optimizer,
        commitment="exact",
    )
    scheme = schemes.fixed_order(arguments.min_sep)
    batches = rustle.Batches(scheme, len(roles), arguments.rounds, runs.secret(folder / "batches.key"))
    rounds, curve = rustle.Rounds(batches, session), []
    if (state := runs.load(folder)) is not None:
        server.load_state_dict(
            {
                "layout": str(state["layout"]),
                "model": state["model"],
                "optimizer": {"velocity": state["velocity"]},
                "cursor": state["cursor"].tobytes(),
            }
        )
        optimizer.noise, optimizer.squares = state["noise"], state["squares"].tolist()
        curve = state["curve"].tolist()
    else:
        # Before the first row: a run may be cut off before its first checkpoint too.
        runs.save(folder, checkpoint(server, optimizer, curve))
    for cohort in rounds:
        place = [seed, server.round]
        optimizer.total = cohort_sum(shape, server.parameters, roles, cohort, place, arguments)
        server.apply(optimizer.total)
        if server.round % runs.EVERY == 0:
            bits, _ = next_character.judged(shape, server.parameters.astype(np.float32), *test)
            curve.append([server.round, bits])
            runs.save(folder, checkpoint(server, optimizer, curve))
    return server, curve


def checkpoint(server: Server, optimizer: Watched, curve: list) -> dict[str, np.ndarray]:
    state = server.state_dict()
    velocity = state["optimizer"]["velocity"]
    return {
        "layout": np.array(state["layout"]),
        "model": state["model"],
        "velocity": np.zeros_like(state["model"]) if velocity is None else velocity,
        "cursor": np.frombuffer(state["cursor"], np.uint8),
        "noise": optimizer.noise,
        "squares": np.array(optimizer.squares),
        "curve": np.array(curve).reshape(-1, 2),
    }


def without_noise(shape, roles, test, seed, rate, arguments):
    """The same clipped training without noise, which has no ε: what the others are to be compared with."""
    optimizer, model = Sgd(rate, MOMENTUM), shape.initial(seed).astype(np.float64)
    drawn, curve = np.random.default_rng(seed), []
    cohorts = np.array_split(drawn.permutation(len(roles)), arguments.min_sep)
    for round in range(arguments.rounds):
        cohort = cohorts[round % arguments.min_sep]
        total = cohort_sum(shape, model, roles, cohort, [seed, round], arguments)
        model = optimizer.step(model, total * arguments.min_sep / len(roles))
        if (round + 1) % runs.EVERY == 0:
            bits, _ = next_character.judged(shape, model.astype(np.float32), *test)
            curve.append([round + 1, bits])
    return model, curve


def bank(texts: list[np.ndarray], shape: Shape, count: int):
    """Returns so many examples of these texts, always the same ones."""
    parts = [next_character.examples(text, shape.context, shakespeare.UNKNOWN) for text in texts]
    contexts, after = (np.concatenate(part) for part in zip(*parts))
    chosen = np.random.default_rng(0).choice(len(after), min(count, len(after)), replace=False)
    return contexts[chosen], after[chosen]
