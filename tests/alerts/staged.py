"""Stages failures of real clusters, and work without one, and sees which alerts fire: staged.py [STAGE…], all by default.

What is real: processes, their failure, and every scrape. What is virtual: the time before and after, for which the first and
the last scrape are repeated, since alerts wait for minutes. The quiet hour is nine scrapes of some seconds of work, after which
counters go on growing as they grew: an extrapolation, and no hour that was seen.
"""

import sys
import tempfile
import time
from pathlib import Path

from cluster import Cluster
from recording import MINUTE, Recording, notation
from stages import STAGES, healthy

QUIET = "quiet-hour"
# Before the failure, so that what looks ten minutes back sees a healthy cluster; and after it, longer than any `for:` of a
# critical alert.
BEFORE = 20
AFTER = 20


def quiet_hour(cluster):
    """Rows are bound between nine scrapes, and their growth is extrapolated; nothing may fire, of any severity."""
    healthy(cluster)
    cluster.wait_until_settled()
    recording = Recording()
    recording.scrape(cluster.targets())
    for first in range(3, 27, 3):
        cluster.release(first, first + 3)
        recording.scrape(cluster.targets())
    recording.went_on(60)
    return recording.alerts(), {}


def failure(cluster, function):
    """Alerts that fired after the failure, and before it."""
    staged = function(cluster)
    next(staged)
    cluster.wait_until_settled()
    recording = Recording()
    recording.scrape(cluster.targets())
    recording.held_before(BEFORE)
    next(staged, None)
    cluster.wait_until_settled()
    for _ in range(3):
        recording.scrape(cluster.targets())
        time.sleep(0.3)
    recording.held(AFTER)
    return recording.alerts(), recording.alerts(BEFORE * MINUTE)


def run(name):
    """Title, alerts that were expected, alerts of severity critical that fired, others that fired."""
    title, expected, function = STAGES.get(name, ("rows are bound, extrapolated to an hour", set(), None))
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        fired, early = failure(cluster, function) if function else quiet_hour(cluster)
    assert not early, f"{name}: before the failure {early} fired"
    critical = {alert for alert, severity in fired.items() if severity == "critical"}
    others = set(fired) - critical
    if not function:
        assert not others, f"{name}: {others} fired"
    return title, expected, critical, others


def check_notation():
    """promtool reads samples as they were scraped: NaN, infinities and gaps too."""
    nan, infinity = float("nan"), float("inf")
    samples = [None, nan, nan, 1.0, 1.0, infinity, -infinity, 0.25, None, None]
    assert notation(samples) == "_x1 NaN NaN 1.0x1 Inf -Inf 0.25 stale _x1"
    recording = Recording()
    recording.series = {'up{job="coordinator"}': [nan, nan, infinity, -infinity, 1.0]}
    recording.scrapes = 5
    assert not recording.alerts()


def main(names):
    check_notation()
    unknown = set(names) - {QUIET, *STAGES}
    if unknown:
        sys.exit(f"no stage {', '.join(sorted(unknown))}: there are {QUIET}, {', '.join(STAGES)}")
    wrong = 0
    for name in names or [QUIET, *STAGES]:
        began = time.monotonic()
        title, expected, critical, others = run(name)
        verdict = "right" if critical == expected else f"WRONG, expected {', '.join(sorted(expected)) or 'none'}"
        wrong += critical != expected
        print(f"{name}: {title} ({time.monotonic() - began:.0f} s)")
        print(f"    critical: {', '.join(sorted(critical)) or 'none'}: {verdict}")
        print(f"    others: {', '.join(sorted(others)) or 'none'}", flush=True)
    sys.exit(f"{wrong} stages fired the wrong alerts" if wrong else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
