"""The tables and pictures of docs/trainings.md, made of the figures that the trainings write.

    python trainings/page.py roles docs/trainings/roles.json [docs/trainings/roles.svg]

Prints the Markdown tables, which a test compares with the page; with a third argument it draws the picture too.
"""

import json
import sys
from pathlib import Path
from typing import Any

NAMES = {
    "identity": "independent",
    "tree": "tree, restarted",
    "blt": "BLT",
    "band-mf": "BandMF",
    "none": "no noise",
    "dp-sgd": "DP-SGD",
    "dp-ftrl": "DP-FTRL (BandMF)",
    "amplified": "amplified BandMF",
    "els": "ELS",
    "uls": "ULS",
    "blt-rows": "BLT, rows alone",
}
COLOURS = {
    "identity": "#555555",
    "dp-sgd": "#555555",
    "tree": "#d55e00",
    "dp-ftrl": "#d55e00",
    "blt": "#009e73",
    "band-mf": "#0072b2",
    "amplified": "#0072b2",
    "none": "#cc79a7",
}

#: Of more and more gradients.
SHADES = ("#d55e00", "#0072b2", "#009e73")


def roles(figures: dict[str, Any]) -> list[str]:
    """Returns the tables of the federated training."""
    rows = []
    for kind, of in figures["mechanisms"].items():
        noise = ["0", "0", "0", "0", "∞", "∞"]
        if "epsilon" in of:
            noise = [f"{of['noise_multiplier']:.3f}", f"{of['rms_of_plan']:.2f}", within(of["rms_measured"], 2)]
            noise += [str(of["state_slots"]), f"{of['epsilon']:.2f}", f"{of['closer']['epsilon']:.2f}"]
        accuracy = within({name: 100 * of["accuracy"][name] for name in ("mean", "deviation")}, 1)
        rows.append([NAMES[kind], *noise, f"{of['learning_rate']:g}", within(of["bits"], 3), f"{accuracy} %"])
    apart = next(iter(figures["mechanisms"].values()))["closer"]["min_sep"]
    header = ["noise", "σ", "rms error, planned", "measured", "state", "ε", f"ε, min-sep {apart}"]
    header += ["rate", "bits a character", "right"]
    users = [[f"{figures['roles'] * one['times']:,}", f"{one['delta']:g}", f"{one['epsilon']:.3g}"] for one in figures["extrapolated"]]
    return [table(header, rows), table(["users", "δ", "ε"], users)]


def digits(figures: dict[str, Any]) -> list[str]:
    """Returns the table of the amplified training."""
    header = ["ε", "method", "bands", "batches", "rms error, measured", "rate", "loss, bits", "accuracy"]
    rows = [
        [
            f"{row['epsilon']:.3f}",
            NAMES[row["method"]],
            str(row["bands"]),
            row["batches"],
            within(row["rms_measured"], 2),
            f"{row['learning_rate']:g}",
            within(row["loss"], 3),
            within(row["accuracy"], 3),
        ]
        for row in figures["rows"]
    ]
    return [table(header, rows)]


def size(figures: dict[str, Any]) -> list[str]:
    """Returns the tables of the training at size: steps, processes, and what is expected on paper."""
    kinds = figures["kinds"]
    header = ["run", "ε", "steps per second", "gradient, s", "noise, s", "of it waiting, s", "longest wait, s", "update, s"]
    steps = [
        [
            NAMES[kind],
            f"{of['epsilon']:.2f}" if "epsilon" in of else "∞",
            f"{of['steps_per_second']['mean']:.3f}",
            *(seconds(of.get(part), "median") for part in ("gradient", "noise", "wait")),
            seconds(of.get("wait"), "most"),
            seconds(of.get("update"), "median"),
        ]
        for kind, of in kinds.items()
    ]
    processes = [
        [NAMES[kind], one["name"], *(megabytes(one[part]) for part in ("peak", "own", "shared")), f"{one['cpu_seconds']:.0f}"]
        for kind in ("identity", "blt")
        for one in kinds[kind]["processes"]
    ]
    paper = [
        [
            f"{one['dimension']:,}",
            str(one["workers"]),
            NAMES[one["mechanism"]],
            str(one["state_slots"]),
            *(gigabytes(one[part]) for part in ("state_bytes", "rows_bytes", "memory_per_worker")),
            f"{one['rows_per_second_possible']:.2f}",
            gigabytes(4 * one["dimension"]),
            gigabytes(one["checkpoint_bytes"]),
        ]
        for one in sorted(figures["paper"], key=lambda one: one["dimension"])
    ]
    expected = ["coordinates", "workers", "noise", "state", "state of a worker, GB", "its rows, GB", "its memory, GB"]
    expected += ["rows per second", "a row, GB", "a checkpoint, GB"]
    memory = ["run", "process", "peak, MB", "own at the end, MB", "shared, MB", "CPU, s"]
    return [table(header, steps), table(memory, processes), table(expected, paper)]


def strategies(figures: dict[str, Any]) -> list[str]:
    """Returns the table of strategies past the published optimum."""
    header = ["strategy", "training", "rms error of prefix sums", "noise in the model", "ε", "rate", "loss, bits", "accuracy"]
    names = {
        "equal": "prefix sums, equal norms",
        "by-epoch": "prefix sums, norms by epoch",
        "momentum": "momentum, norms by epoch",
        "rates": "momentum and rates, norms by epoch",
    }
    rows = []
    for row in figures["rows"]:
        kind, _, cooled = row["kind"].partition(", ")
        line = [names[kind], cooled or "constant", f"{row['rms_of_plan']:.2f}", within(row["noise_in_model"], 2)]
        line += [f"{row['epsilon']:.3f}", f"{row['learning_rate']:g}"]
        rows.append([*line, within(row["loss"], 3), within(row["accuracy"], 3)])
    return [table(header, rows)]


def no_tables(_: dict[str, Any]) -> list[str]:
    """Of what is a picture alone."""
    return []


def seconds(of: dict[str, Any] | None, which: str) -> str:
    return "" if of is None else f"{of[which]:.2f}"


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f}"


def gigabytes(count: int) -> str:
    return f"{count / 1e9:,.2f}" if count < 1e11 else f"{count / 1e9:,.0f}"


def mail(figures: dict[str, Any]) -> list[str]:
    """Returns the tables of the user-level training: heuristics beside the oracle, and every group size."""
    rows = figures["rows"]

    def of(method: str, budget: int) -> list[dict[str, Any]]:
        return [row for row in rows if (row["method"], row["budget"]) == (method, budget)]

    chosen = []
    for budget in sorted({row["budget"] for row in rows}):
        for method in ("els", "uls"):
            guess = figures["heuristics"][str(budget)][method]
            guessed = next(row for row in of(method, budget) if row["group_size"] == guess)
            best = min(of(method, budget), key=lambda row: row["bits"]["mean"])
            line = [str(budget), NAMES[method], f"{guessed['epsilon']:.3f}", str(guess)]
            line += [within(guessed["bits"], 3), str(best["group_size"]), within(best["bits"], 3)]
            chosen.append([*line, within(guessed["accuracy"], 3)])
        for method in ("band-mf", "amplified", "none"):
            row = of(method, budget)[0]
            line = [str(budget), f"ULS, {NAMES[method]}", f"{row['epsilon']:.3f}" if "epsilon" in row else "∞"]
            line += [str(row["group_size"]), within(row["bits"], 3), "", "", within(row["accuracy"], 3)]
            chosen.append(line)
    header = ["gradients a round", "method", "ε", "G, heuristic", "bits a mail", "G, oracle", "bits a mail", "accuracy, heuristic"]
    groups = sorted({row["group_size"] for row in rows})
    sweep = [
        [str(budget), NAMES[method]]
        + [next((within(row["bits"], 3) for row in of(method, budget) if row["group_size"] == group), "") for group in groups]
        for budget in sorted({row["budget"] for row in rows})
        for method in ("els", "uls")
    ]
    return [table(header, chosen), table(["gradients a round", "method", *(f"G = {group}" for group in groups)], sweep)]


def within(spread: dict[str, float], digits: int) -> str:
    """Returns mean and standard deviation over seeds."""
    return f"{spread['mean']:.{digits}f} ± {spread['deviation']:.{digits}f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(line)} |" for line in [header, *rows]]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def draw_roles(axes: Any, figures: dict[str, Any]) -> None:
    for kind, of in figures["mechanisms"].items():
        rounds, bits = zip(*of["curve"])
        axes.plot(rounds, bits, label=NAMES[kind], color=COLOURS[kind])
        spread = of["bits"]
        axes.errorbar([rounds[-1]], [spread["mean"]], [spread["deviation"]], color=COLOURS[kind], capsize=3)
    axes.set_xlabel("round")
    axes.set_ylabel("bits a character of plays held out")
    epsilon = figures["mechanisms"]["blt"]["epsilon"]
    axes.set_title(f"{figures['roles']} roles, {figures['parameters']:,} parameters, ε = {epsilon:.3g}")


def draw_memory(axes: Any, figures: dict[str, Any]) -> None:
    for kind in ("identity", "tree", "blt", "band-mf"):
        of = figures["mechanisms"][kind]
        place = [of["state_slots"]], [of["bits"]["mean"]]
        axes.errorbar(*place, [of["bits"]["deviation"]], fmt="o", label=NAMES[kind], color=COLOURS[kind], capsize=3)
    axes.set_xlabel("state, in rows of the model's size")
    axes.set_xticks(range(0, 21, 5))
    axes.set_ylabel("bits a character of plays held out")
    axes.set_title(f"ε = {figures['mechanisms']['blt']['epsilon']:.3g}, mean and deviation of {figures['seeds']} seeds")


def draw_digits(axes: Any, figures: dict[str, Any]) -> None:
    for method in ("dp-sgd", "dp-ftrl", "amplified"):
        of = [row for row in figures["rows"] if row["method"] == method]
        epsilons = [row["target"] for row in of]
        means = [row["accuracy"]["mean"] for row in of]
        spread = [row["accuracy"]["deviation"] for row in of]
        axes.errorbar(epsilons, means, spread, label=NAMES[method], color=COLOURS[method], capsize=3)
    axes.set_xscale("log", base=2)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_xlabel(f"ε at δ = {figures['delta']:g}")
    axes.set_ylabel("accuracy on digits held out")
    axes.set_title(f"{figures['digits']} digits, {figures['steps']} steps, mean and deviation of {figures['seeds']} seeds")


def draw_mail(axes: Any, figures: dict[str, Any]) -> None:
    budgets = sorted({row["budget"] for row in figures["rows"]})
    for place, budget in enumerate(budgets):
        for method, style in (("els", "--"), ("uls", "-")):
            of = [row for row in figures["rows"] if (row["method"], row["budget"]) == (method, budget)]
            of.sort(key=lambda row: row["group_size"])
            groups = [row["group_size"] for row in of]
            means, spread = [[row["bits"][one] for row in of] for one in ("mean", "deviation")]
            label = f"{NAMES[method]}, {budget} gradients a round"
            axes.errorbar(groups, means, spread, label=label, linestyle=style, color=SHADES[place], capsize=3)
    axes.set_xscale("log", base=2)
    axes.set_xticks(groups, [str(group) for group in groups])
    axes.set_yscale("log", base=2)
    ticks = [0.5, 1, 2, 4, 8, 16, 32]
    axes.set_yticks(ticks, [f"{one:g}" for one in ticks])
    axes.set_xlabel("G: mails of a sender, at most")
    axes.set_ylabel("bits a mail of senders held out")
    axes.set_title(f"{figures['senders']:,} senders, ε = {figures['epsilon']:g}, mean and deviation of {figures['seeds']} seeds")


def draw(name: str, figures: dict[str, Any], path: Path) -> None:
    """Writes the picture; the same figures give the same bytes."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "rustle", "font.size": 10})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    {"roles": draw_roles, "digits": draw_digits, "mail": draw_mail, "memory": draw_memory}[name](axes, figures)
    axes.grid(color="#dddddd")
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main(name: str, figures: Path, picture: Path | None = None) -> None:
    found = json.loads(figures.read_text())
    tables = {"roles": roles, "digits": digits, "size": size, "mail": mail, "strategies": strategies}.get(name, no_tables)(found)
    print("\n\n".join(tables))
    if picture is not None:
        draw(name, found, picture)


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
