"""Real scrapes, laid out in virtual time, and what the alerts of deploy/prometheus make of them by promtool."""

import json
import math
import re
import subprocess
import tempfile
from pathlib import Path

from cluster import ROOT, get

RULES = ROOT / "deploy/prometheus"
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
# Seconds between two scrapes, as prometheus.yml has it.
INTERVAL = 15
MINUTE = 60 // INTERVAL


def named_by_rules():
    """Metrics that an alert or a recording rule reads. The others are not laid out."""
    text = "".join((RULES / name).read_text() for name in ("rules.yml", "alerts.yml"))
    return set(re.findall(r"\brustle_\w+", text))


class Recording:
    """Series of samples, one a scrape; None where the series, or its process, was not there."""

    def __init__(self):
        self.series = {}
        self.counters = set()
        self.scrapes = 0
        self.wanted = named_by_rules()

    def scrape(self, targets):
        """One scrape of every target, whether it answers or not."""
        for job, instance in targets:
            page = get(f"http://{instance}/metrics")
            own = f'instance="{instance}", job="{job}"'
            self._add(f"up{{{own}}}", 0.0 if page is None else 1.0)
            for line in (page or "").splitlines():
                if line.startswith("# TYPE"):
                    _, _, name, kind = line.split()
                    if kind in ("counter", "histogram"):
                        self.counters.add(name)
                elif found := SAMPLE.match(line):
                    name, labels, value = found.groups()
                    assert not re.search(r"\b(job|instance)=", labels or ""), line
                    if name in self.wanted:
                        self._add(f"{name}{{{', '.join(filter(None, [labels, own]))}}}", float(value))
        self.scrapes += 1
        for values in self.series.values():
            values += [None] * (self.scrapes - len(values))

    def _add(self, series, value):
        values = self.series.setdefault(series, [])
        values += [None] * (self.scrapes - len(values))
        values.append(value)

    def held_before(self, minutes):
        """The first scrape, as if it had been the same for so long before."""
        for values in self.series.values():
            values[:0] = [values[0]] * (minutes * MINUTE)
        self.scrapes += minutes * MINUTE

    def held(self, minutes):
        """The last scrape, as if it stayed so."""
        for values in self.series.values():
            values += [values[-1]] * (minutes * MINUTE)
        self.scrapes += minutes * MINUTE

    def went_on(self, minutes):
        """As if counters grew on as they grew from the first scrape to the last, and gauges stayed."""
        for series, values in self.series.items():
            name = re.sub(r"_(bucket|count|sum)$", "", series.split("{")[0])
            grows = name in self.counters or series.split("{")[0] in self.counters
            seen = [value for value in values if value is not None]
            step = (seen[-1] - seen[0]) / (len(seen) - 1) if grows and values[-1] is not None and len(seen) > 1 else 0.0
            last = values[-1]
            more = range(1, minutes * MINUTE + 1)
            values += [None if last is None else last + step * number for number in more]
        self.scrapes += minutes * MINUTE

    def alerts(self, until=None):
        """Alerts that fired up to scrape number `until`, each with its severity."""
        until = until or self.scrapes - 1
        minutes = until // MINUTE + 1
        series = [{"series": name, "values": notation(values)} for name, values in self.series.items()]
        question = f'group by (alertname, severity) (max_over_time(ALERTS{{alertstate="firing"}}[{minutes}m]))'
        test = {
            "rule_files": [str(RULES / "rules.yml"), str(RULES / "alerts.yml")],
            "evaluation_interval": f"{INTERVAL}s",
            "tests": [
                {
                    "interval": f"{INTERVAL}s",
                    "input_series": series,
                    # Nothing is expected, so that promtool says what there is.
                    "promql_expr_test": [{"expr": question, "eval_time": f"{until * INTERVAL}s", "exp_samples": []}],
                }
            ],
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "test.yml"
            path.write_text(json.dumps(test))  # JSON is YAML
            done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True)
        said = done.stdout + done.stderr
        if done.returncode == 0:
            return {}
        assert "got:" in said, said
        labels = re.findall(r"\{([^{}]*)\}", said.split("got:")[1])
        return {re.search(r'alertname="(\w+)"', one)[1]: re.search(r'severity="(\w+)"', one)[1] for one in labels}


def notation(values):
    """promtool's notation, where repeated values are written once. A series that ends is marked so, as Prometheus does."""
    words = []
    at = 0
    while at < len(values):
        value = values[at]
        end = at
        # A NaN is unequal to itself, so samples are compared as they are written.
        while end < len(values) and _word(values[end]) == _word(value):
            end += 1
        count = end - at
        if value is None:
            ended = at > 0
            words += ["stale"] * ended + ([f"_x{count - ended}"] if count > ended else [])
        elif count > 1 and math.isfinite(value):
            words.append(f"{value!r}x{count - 1}")
        else:
            # promtool has no repetition of Inf and NaN.
            words += [_word(value)] * count
        at = end
    return " ".join(words)


def _word(value):
    """A sample as promtool reads it."""
    if value is None or math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
