"""Audits: lower bounds of ε from attacks on canaries, and the attacks.

An account bounds ε from above by proof; an audit bounds it from below by experiment, and finds mistakes in code where the
two cross. ``black_box`` asks a training of one's own for scores, ``white_box`` sees the noisy sums that a training releases,
``bound`` is for scores that are there. ``python -m rustle.audit.selftest`` audits this package's adapters.

::

    found = rustle.audit.black_box(train, canaries=1000, delta=1e-5, epsilon=4.0)
    assert not found.refuted, found

where ``train(included, seed)`` trains with the canaries that ``included`` says, and returns a score of each: higher where
the model seems to know it.
"""

from ._bounds import Bound, bound, bound_of_guesses, canaries_needed
from ._harness import black_box, coins, learned_scores, white_box

__all__ = [
    "Bound",
    "black_box",
    "bound",
    "bound_of_guesses",
    "canaries_needed",
    "coins",
    "learned_scores",
    "white_box",
]
