"""Spam or not, senders the unit of privacy: example-level against user-level sampling, and the sizes of their groups.

    python trainings/mail_by_sender.py

The comparison of Charles et al. (2024) on SpamAssassin's mails (mail.py): ELS clips each mail's gradient, ULS the mean of each
sender's. Both take the same expected number of gradients a round and keep the same ε for a sender with all their mails. The
group size, mails of a sender, goes over powers of two: the best of them is the oracle, which sees what models are judged by;
the heuristics of `rustle.group_sizes` see the tuning senders alone. ULS also has correlated noise, its senders taking turns.
A run that was cut off begins anew; those that are over are kept.

Noise is floating-point, by float=True: measured before `rustle.user_level` had a grid. The learning rate was chosen by --tune, on the mails of senders
that no run trains on or is judged by. --quick asserts what it claims, on hashed words in place of MiniLM's vectors.
"""

import argparse
import json
import math
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import mail
import mail_head
import numpy as np
import runs

import rustle
from rustle import group_sizes, schemes, user_level

DELTA, CLIP_NORM = 1e-4, 0.5
GROUPS = (1, 2, 4, 16)
BUDGETS = (16, 64)
METHODS = ("els", "uls")
CORRELATED = ("band-mf", "amplified")
#: The learning rate that --tune found best for every method and budget, at the group sizes of the heuristics.
RATE = 1.0
GRID = (0.5, 1.0, 2.0, 4.0)
QUICK_RATE = 2.0


class Setting(NamedTuple):
    """One kind of run. ``method``: els, uls, none, or a mechanism of correlated noise over ULS."""

    method: str
    budget: int
    group_size: int
    seed: int
    learning_rate: float

    @property
    def name(self) -> str:
        return "-".join(map(str, self))


def planned(setting: Setting, users: mail.Mails, arguments: argparse.Namespace) -> tuple[rustle.Plan, dict[str, Any]]:
    """Returns plan and batches whose rounds have the budget's number of gradients, in expectation at most."""
    width, count = users.vectors.shape[1], len(users.sizes)
    common = dict(iterations=arguments.rounds, epsilon=arguments.epsilon, delta=DELTA, clip_norm=CLIP_NORM)
    common |= {"dimension": mail_head.dimension(width), "float": True}
    if setting.method == "els":
        probability = min(1.0, setting.budget / sum(min(size, setting.group_size) for size in users.sizes))
        plan = user_level.plan(**common, sampling_probability=probability, group_size=setting.group_size)
        return plan, schemes.els(setting.group_size, probability)
    cohort = min(count, max(1, setting.budget // setting.group_size))
    if setting.method in CORRELATED:
        return correlated(setting, cohort / count, common)
    plan = user_level.plan(**common, sampling_probability=cohort / count)
    return plan, schemes.uls(setting.group_size, schemes.poisson(cohort / count))


def correlated(setting: Setting, share: float, common: dict[str, Any]) -> tuple[rustle.Plan, dict[str, Any]]:
    """Returns BandMF with senders in turn, or the planner's best bands of cyclic Poisson batches, which are amplified."""
    apart = math.ceil(1 / share)
    min_sep, often = min(apart, common["iterations"]), -(-common["iterations"] // apart)
    if setting.method == "band-mf":
        plan = rustle.plan(**common, min_sep=min_sep, max_participations=often, mechanism="band-mf", size=min_sep)
        return plan, schemes.uls(setting.group_size, schemes.fixed_order(apart))
    entries = rustle.suggest(**common, min_sep=min_sep, epochs=often, sampling_probability=share)
    best = min((one for one in entries if one["sampling"] == "cyclic-poisson"), key=lambda one: one["error"])
    return best["plan"], schemes.uls(setting.group_size, schemes.cyclic_poisson(best["size"], share))


def train(setting: Setting, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run, in a folder of its own."""
    if (found := runs.result(folder)) is not None:
        return found
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    users, test = parts(arguments)
    noisy = setting.method != "none"
    plan, scheme = planned(setting if noisy else setting._replace(method="uls"), users, arguments)
    plan.save(folder / "plan.toml")
    batches = rustle.Batches(scheme, users.sizes, arguments.rounds, runs.secret(folder / "batches.key"))
    model = mail_head.initial(users.vectors.shape[1], setting.seed)
    found = setting._asdict()
    with rustle.connect(f"inproc://{folder}") as session:
        training = user_level.Training(session, batches)
        for round, ids in training:
            gradients = mail_head.gradients(model, users.vectors[ids], users.spam[ids])
            if noisy:
                # All rounds follow: that rows are bound ahead costs nothing, and spares waits for the disk.
                session.reserve(steps=16)
                mean = training.noisy_mean(round, gradients)
            else:
                mean = training.clipped_sum(round, gradients) / training.divisor
            model = model - setting.learning_rate * mean
        if noisy:
            found["epsilon"] = training.epsilon(DELTA)
            training.report(folder / "report.md", delta=DELTA)
    found["noise"] = plan.errors()["rms"] / training.divisor if noisy else 0.0
    bits, accuracy = mail_head.judged(model, test.vectors, test.spam, test.owners)
    return runs.finish(folder, found | {"bits": bits, "accuracy": accuracy})


def parts(arguments: argparse.Namespace) -> tuple[mail.Mails, mail.Mails]:
    """Returns the mails to train on and to be judged by; of --tune both are of tuning senders."""
    if not arguments.tune:
        return mail.load(arguments.vectors, "training"), mail.load(arguments.vectors, "test")
    tuning = mail.load(arguments.vectors, "tuning")
    count = len(mail.load(arguments.vectors, "training").sizes)
    senders = np.arange(len(tuning.sizes))
    # Half of them teach, so often that there are as many as train otherwise; the others judge.
    taught, judging = senders[::2], senders[1::2]
    return chosen(tuning, np.resize(taught, count)), chosen(tuning, judging)


def chosen(mails: mail.Mails, senders: np.ndarray) -> mail.Mails:
    ends = np.cumsum(mails.sizes)
    places = np.concatenate([np.arange(ends[one] - mails.sizes[one], ends[one]) for one in senders])
    return mail.Mails(mails.vectors[places], mails.spam[places], [mails.sizes[one] for one in senders])


def heuristics(budget: int, arguments: argparse.Namespace) -> dict[str, int]:
    """Returns the group sizes that `rustle.group_sizes` chooses, looking at tuning senders and the first model alone."""
    tuning = mail.load(arguments.vectors, "tuning")
    model, ends = mail_head.initial(tuning.vectors.shape[1], 0), np.cumsum(tuning.sizes)
    each = mail_head.gradients(model, tuning.vectors, tuning.spam)
    of_users, drawn = np.split(each, ends[:-1]), np.random.default_rng(0)
    count = len(mail.load(arguments.vectors, "training").sizes)
    group, _ = group_sizes.uls(
        budget,
        count,
        lambda size: group_sizes.typical_norm(of_users, size, drawn),
        iterations=arguments.rounds,
        epsilon=arguments.epsilon,
        delta=DELTA,
    )
    return {"els": group_sizes.els(tuning.sizes), "uls": group}


def settings_of(arguments: argparse.Namespace, guessed: dict[int, dict[str, int]]) -> list[Setting]:
    """Returns the sweep over group sizes, and at the heuristics' sizes what has other noise, or none."""
    found, rate = [], QUICK_RATE if arguments.quick else RATE
    for seed in range(arguments.seeds):
        for budget in arguments.budgets:
            for method in METHODS:
                groups = sorted({*arguments.groups, guessed[budget][method]})
                found += [Setting(method, budget, group, seed, rate) for group in groups]
            for method in (*CORRELATED, "none"):
                found.append(Setting(method, budget, guessed[budget]["uls"], seed, rate))
    return found


def tune(arguments: argparse.Namespace) -> None:
    """Prints the loss by method, budget and learning rate on the tuning senders, at the heuristics' group sizes."""
    guessed = {budget: heuristics(budget, arguments) for budget in arguments.budgets}
    places = [(method, budget) for method in (*METHODS, "none") for budget in arguments.budgets]
    settings = [
        Setting(method, budget, guessed[budget]["els" if method == "els" else "uls"], seed, rate)
        for method, budget in places
        for seed in range(arguments.seeds)
        for rate in GRID
    ]
    found = trained(settings, arguments)
    for place in places:
        here = [one for one in found if (one["method"], one["budget"]) == place]
        bits = {one: float(np.mean([run["bits"] for run in here if run["learning_rate"] == one])) for one in GRID}
        print(json.dumps({"method": place[0], "budget": place[1], "bits": bits, "best": min(bits, key=bits.get)}))


def trained(settings: list[Setting], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    calls = [(one, arguments, arguments.folder / one.name) for one in settings]
    return runs.each(train, calls, arguments.processes)


def options() -> argparse.Namespace:
    parser = runs.parser(__doc__, "target/trainings/mail", 5)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--budgets", type=int, nargs="+", default=list(BUDGETS), help="gradients of a round, expected")
    parser.add_argument("--groups", type=int, nargs="+", default=list(GROUPS), help="mails of a sender, at most")
    parser.add_argument("--vectors", choices=("minilm", "words"), default="minilm")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.vectors, arguments.budgets, arguments.groups, arguments.seeds = "words", [64], [1, 16], 2
        arguments.rounds = 60
    return arguments


def main() -> None:
    arguments = options()
    runs.begin(arguments)
    if arguments.tune:
        return tune(arguments)
    guessed = {budget: heuristics(budget, arguments) for budget in arguments.budgets}
    settings = settings_of(arguments, guessed)
    found = trained(settings, arguments)
    users = mail.load(arguments.vectors, "training")
    kinds = dict.fromkeys((one.method, one.budget, one.group_size) for one in settings)
    figures = {
        "command": runs.command(),
        "senders": len(users.sizes),
        "mails": sum(users.sizes),
        "parameters": mail_head.dimension(users.vectors.shape[1]),
        "epsilon": arguments.epsilon,
        "delta": DELTA,
        "rounds": arguments.rounds,
        "seeds": arguments.seeds,
        "heuristics": guessed,
        "rows": [
            summary([one for one in found if (one["method"], one["budget"], one["group_size"]) == kind])
            for kind in kinds
        ],
    }
    runs.write(arguments.folder / "figures.json", figures)
    print(json.dumps(figures))
    if arguments.quick:
        claims(figures["rows"])


def summary(these: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures of one kind of run over its seeds."""
    found = {name: these[0][name] for name in ("method", "budget", "group_size", "learning_rate", "noise")}
    if "epsilon" in these[0]:
        found["epsilon"] = max(one["epsilon"] for one in these)
    return found | {name: runs.spread(one[name] for one in these) for name in ("bits", "accuracy")}


def claims(rows: list[dict[str, Any]]) -> None:
    """Each run keeps its ε; at the same compute larger groups have more noise, and worse models, in ELS and in ULS."""
    of = {(row["method"], row["group_size"]): row for row in rows}
    for row in rows:
        if "epsilon" in row:
            assert 0.98 * 2 < row["epsilon"] <= 2 * (1 + 1e-6), row
    free = next(row for row in rows if row["method"] == "none")
    for method in METHODS:
        assert of[method, 1]["noise"] < of[method, 16]["noise"], of
        assert of[method, 16]["bits"]["mean"] > 1.1 * free["bits"]["mean"], of
    assert of["amplified", 1]["noise"] < of["uls", 1]["noise"] < of["band-mf", 1]["noise"], of


if __name__ == "__main__":
    main()
