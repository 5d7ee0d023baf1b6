"""Wrong arguments of federated servers, audits, metrics and group sizes."""

import numpy as np
import pytest
from inputs import DIMENSION, check, table, world

from rustle import audit, federated, group_sizes, metrics

on = pytest.fixture(scope="module")(world)

MODEL = np.zeros(DIMENSION)


def server(**changes):
    def call(on):
        given = {"session": on.session, "parameters": MODEL, "clients_per_round": 4, **changes}
        return federated.Server(given.pop("session"), given.pop("parameters"), **given)

    return call


def encoding(**changes):
    return lambda on: federated.Encoding(**{"dimension": 40, "clip_norm": 1.0, "scale": 100.0, "clients": 4, **changes})


FEDERATED = [
    ("a session of a URL", server(session="inproc://run"), "session is 'inproc://run'; allowed: .*rustle.connect"),
    ("parameters None", server(parameters=None), "parameters"),
    ("parameters of texts", server(parameters=["a"]), "parameters"),
    ("another model", server(parameters=np.zeros(7)), "7 coordinates.*40"),
    ("clients a string", server(clients_per_round="4"), "clients_per_round is '4'; allowed: "),
    ("clients None", server(clients_per_round=None), "clients_per_round is None; allowed: "),
    ("clients zero", server(clients_per_round=0), "clients_per_round is 0; allowed: "),
    ("commitment", server(commitment="strict"), "commitment is 'strict'; allowed: declared, exact"),
    ("learning rate a string", lambda on: federated.Sgd("0.1"), "learning_rate is '0.1'; allowed: "),
    ("learning rate NaN", lambda on: federated.Sgd(float("nan")), "learning_rate is nan; allowed: "),
    ("momentum one", lambda on: federated.Sgd(1.0, 1.0), "momentum is 1.0; allowed: "),
    ("momentum None", lambda on: federated.Sgd(1.0, None), "momentum is None; allowed: "),
    ("clip: norm a string", lambda on: federated.clip(MODEL, "1"), "norm is '1'; allowed: "),
    ("clip: norm zero", lambda on: federated.clip(MODEL, 0), "norm is 0; allowed: "),
    ("clip: NaN", lambda on: federated.clip(MODEL * np.nan, 1.0), "not finite"),
    ("participation a string", lambda on: federated.Participation("4", 3), "min_sep is '4'; allowed: "),
    ("participation zero", lambda on: federated.Participation(4, 0), "max_participations is 0; allowed: "),
    ("participation of a file", lambda on: federated.Participation.of("plan.toml"), "plan is 'plan.toml'; allowed: a rustle.Plan"),
    ("dimension a string", encoding(dimension="40"), "dimension is '40'; allowed: "),
    ("dimension a float", encoding(dimension=40.5), "dimension is 40.5; allowed: "),
    ("clip norm None", encoding(clip_norm=None), "clip_norm is None; allowed: "),
    ("scale NaN", encoding(scale=float("nan")), "scale is nan; allowed: "),
    ("clients of an encoding", encoding(clients=0), "clients is 0; allowed: "),
    ("modulus small", encoding(modulus=3), "modulus is 3; allowed: "),
    ("bits a string", lambda on: federated.Encoding.within("32", 40, 1.0, 4), "bits is '32'; allowed: "),
    ("signs of a short seed", lambda on: encoding()(on).signs(b"seed"), "4 bytes; allowed: 16"),
    ("signs of a text", lambda on: encoding()(on).signs("a seed of many letters"), "seed is of type str; allowed: 16"),
    ("update of another shape", lambda on: encoding()(on).encode(np.zeros(7), np.ones(64)), r"shape is \(7,\); allowed: \(40,\)"),
]


@table(FEDERATED)
def test_wrong_arguments_of_servers_are_named(on, row):
    check(row, on)


def bound(scores=(0.1, 0.9), included=(False, True), **changes):
    return lambda on: audit.bound(scores, included, **{"delta": 1e-5, **changes})


REST = [
    ("scores of texts", bound(scores=["a", "b"]), "scores"),
    ("scores None", bound(scores=None), "labels is 2; allowed: one for each score"),
    ("two lengths", bound(scores=[0.1]), "1|2"),
    ("scores NaN", bound(scores=[float("nan"), 1.0]), "score"),
    ("delta a string", bound(delta="1e-5"), "delta is '1e-5'; allowed: "),
    ("delta of 2", bound(delta=2.0), "delta is 2"),
    ("epsilon a string", bound(epsilon="4"), "epsilon is '4'; allowed: "),
    ("confidence of 1", bound(confidence=1.0), "confidence is 1"),
    ("method unknown", bound(method="two-run"), "method is .?two-run"),
    ("method None", bound(method=None), "method is None; allowed: "),
    ("guesses a string", bound(guesses="2"), "guesses is '2'; allowed: "),
    ("guesses negative", bound(guesses=-2), "guesses is -2; allowed: "),
    ("counts of strings", lambda on: audit.bound_of_guesses("10", 5, 5, delta=1e-5), "canaries is '10'; allowed: "),
    ("counts negative", lambda on: audit.bound_of_guesses(10, -5, 5, delta=1e-5), "guesses is -5; allowed: "),
    ("more right than guessed", lambda on: audit.bound_of_guesses(10, 5, 6, delta=1e-5), "6"),
    ("canaries a string", lambda on: audit.coins("ten", 0), "canaries is 'ten'; allowed: "),
    ("canaries zero", lambda on: audit.coins(0, 0), "canaries is 0; allowed: "),
    ("a seed that is a text", lambda on: audit.coins(10, "seed"), "seed is 'seed'; allowed: "),
    ("a training that is none", lambda on: audit.black_box(None, 10, delta=1e-5), "train is None; allowed: a function"),
    ("a training without answer", lambda on: audit.black_box(lambda *_: None, 10, delta=1e-5), "what train returned is None; allowed: one number"),
    ("canaries needed: epsilon None", lambda on: audit.canaries_needed(epsilon=None, delta=1e-5), "epsilon is None; allowed: "),
    ("metrics of a URL", lambda on: metrics.Metrics("inproc://run"), "session is 'inproc://run'; allowed: .*rustle.connect"),
    ("metrics: sink a number", lambda on: metrics.Metrics(on.session, 3), "sink is int; allowed: "),
    ("metrics: every zero", lambda on: metrics.Metrics(on.session, every=0), "every is 0; allowed: "),
    ("metrics: every a string", lambda on: metrics.Metrics(on.session, every="10"), "every is '10'; allowed: "),
    ("metrics: delta a string", lambda on: metrics.Metrics(on.session, delta="x"), "delta is 'x'; allowed: "),
    ("group sizes: empty", lambda on: group_sizes.els([]), "sizes are empty; allowed: "),
    ("group sizes: None", lambda on: group_sizes.els(None), "sizes is None; allowed: "),
    ("group sizes: texts", lambda on: group_sizes.els(["a"]), r"sizes\[0\] is 'a'; allowed: "),
]


@table(REST)
def test_wrong_arguments_of_audits_and_metrics_are_named(on, row):
    check(row, on)
