"""What is done wrong with the batches that a framework's loader hands out, by functions that are called with each of them."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import sys

import pytest
from misuse import OTHER_SEED, RECORDS, SIZE, STEPS, batches

import rustle
from rustle import errors


class Loop:
    """A linear model under `rustle.torch.attach`; frameworks change what `prepare` and the steps are.

    Batch normalisation is in evaluation mode, and so may be there; what is wrong has it in training mode.
    """

    rank, ranks = 0, 1
    #: Rows that this framework refuses in another way.
    otherwise: dict = {}

    def __init__(self, session):
        import torch

        import rustle.torch

        torch.manual_seed(0)
        self.torch, self.session = torch, session
        self.x, self.y = torch.randn(RECORDS, 5), torch.randint(0, 3, (RECORDS,))
        self.data = torch.utils.data.TensorDataset(self.x, self.y)
        middle = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.BatchNorm1d(4, affine=False).eval())
        self.norm = middle[1]
        self.net = self.wrapped(torch.nn.Sequential(torch.nn.Linear(5, 4), middle, torch.nn.Linear(4, 3)))
        self.rounds = rustle.Rounds(batches(), session, rank=self.rank, ranks=self.ranks)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.attachment = rustle.torch.attach(self.optimizer, session, self.net, divide_by=SIZE)
        # Under what wrappers frameworks put around it.
        self.plain = self.optimizer
        self.before = self.values()
        self.undo = lambda: None
        self.prepare()

    def wrapped(self, net):
        return net

    def prepare(self):
        pass

    def run(self, call, loader):
        """Calls it with each batch, by the framework's loop where there is one."""
        for at, (x, y) in enumerate(loader):
            call(self, at, x, y)

    def values(self):
        return [p.detach().clone() for p in self.net.parameters()]

    def loader(self):
        import rustle.torch

        return rustle.torch.DataLoader(self.data, self.rounds)

    def own_loader(self):
        return self.torch.utils.data.DataLoader(self.data, batch_size=SIZE, shuffle=True)

    def mean(self, x, y):
        return self.torch.nn.functional.cross_entropy(self.net(x), y)

    def sums(self, x, y, clip_norm=None, divide_by=SIZE):
        import rustle.torch

        loss = lambda call, x, y: self.torch.nn.functional.cross_entropy(call(x), y)
        clip_norm = clip_norm or self.session.plan.clip_norm
        rustle.torch.clipped_sum(self.net, loss, x, y, clip_norm=clip_norm, divide_by=divide_by)

    def backward(self, loss):
        loss.backward()

    def zero(self):
        self.optimizer.zero_grad()

    def step(self):
        self.before = self.values()
        self.optimizer.step()
        self.before = self.values()

    def right(self, x, y):
        self.zero()
        self.sums(x, y)
        self.step()


def wrong_divisor(t, at, x, y):
    t.zero()
    t.sums(x, y, divide_by=1.0)
    t.step()


def unclipped(t, at, x, y):
    t.zero()
    t.backward(200 * t.mean(x, y))
    t.step()


def other_clip_norm(t, at, x, y):
    t.zero()
    t.sums(x, y, clip_norm=10 * t.session.plan.clip_norm)
    t.step()


def stepped_twice(t, at, x, y):
    t.right(x, y)
    t.step()


def without_zero_grad(t, at, x, y):
    t.backward(0.01 * t.mean(x, y))
    t.step()


def accumulated(t, at, x, y):
    t.backward(0.01 * t.mean(x, y))
    if at % 2:
        t.step()
        t.zero()


def bad_batch_stepped(t, at, x, y):
    t.zero()
    t.backward(math.nan * t.mean(x, y))
    t.step()


def bad_batch_left_out(t, at, x, y):
    if at != 1:
        t.right(x, y)


def right(t, at, x, y):
    t.right(x, y)


def other_batches(t, at, x, y):
    """Called with batches of another loader."""
    t.right(x, y)


def too_large_batch(t, at, x, y):
    t.zero()
    t.sums(x.repeat(20, 1), y.repeat(20))
    t.step()


def copied_optimizer(t, at, x, y):
    copy.deepcopy(t.plain)


def second_optimizer(t, at, x, y):
    t.zero()
    t.sums(x, y)
    t.torch.optim.Adam(t.net.parameters()).step()


def frozen_later(t, at, x, y):
    if at:
        t.net[2].bias.requires_grad_(False)
        t.undo = t.net[2].bias.requires_grad_
    t.right(x, y)


def added_later(t, at, x, y):
    t.right(x, y)
    other = t.torch.nn.Parameter(t.torch.ones(2))
    t.optimizer.add_param_group({"params": [other]})
    other.grad = t.torch.ones(2)
    t.undo = t.optimizer.param_groups.pop
    t.step()


def running_means(t, at, x, y):
    t.norm.train()
    t.undo = t.norm.eval
    t.zero()
    t.backward(0.01 * t.mean(x, y))
    t.step()


# With the kind and text of the error, and the rows that were used before it.
ROWS = {
    wrong_divisor: (errors.SumTooLarge, "divide_by", 0),
    unclipped: (errors.SumTooLarge, "clipped to", 0),
    other_clip_norm: (errors.SumTooLarge, "clip_norm", 0),
    stepped_twice: (errors.StepError, "had its step already|batch that had its step", 1),
    without_zero_grad: (errors.StaleGradients, "zero_grad", 1),
    accumulated: (errors.StepError, "met no noise", 0),
    bad_batch_stepped: (errors.InvalidArgument, "not finite", 0),
    bad_batch_left_out: (errors.StepError, "met no noise.*skip", 1),
    other_batches: (errors.StepError, "another loader", 0),
    too_large_batch: ((errors.StepError, errors.SumTooLarge), "300 records|clipped to", 0),
    copied_optimizer: (errors.InvalidArgument, "copied or pickled", 0),
    second_optimizer: (errors.LayoutMismatch, "another optimizer", 0),
    frozen_later: (errors.LayoutMismatch, "frozen", 1),
    added_later: (errors.LayoutMismatch, "has a gradient and no noise", 1),
    running_means: (errors.MixesExamples, "BatchNorm1d", 0),
}


class Left(Exception):
    """What ends a loop in the middle of an epoch."""


def left_early(t, at, x, y):
    if at:
        raise Left
    t.right(x, y)


def is_same(a, b):
    return all((one == other).all() for one, other in zip(a, b, strict=True))


def refused(t, misuse):
    """Runs the loop until the error that its row names, which leaves the model as it was."""
    kind, match, used = t.otherwise.get(misuse.__name__, ROWS[misuse])
    if t.ranks > 1:
        # Of the rank whose part of a sum is as it should be.
        kinds = kind if isinstance(kind, tuple) else (kind,)
        kind, match = (*kinds, errors.InvalidArgument), f"{match}|another rank refused"
    first = t.session.next_step
    t.zero()
    print(misuse.__name__, file=sys.stderr, flush=True)
    with pytest.raises(kind, match=match):
        t.run(misuse, t.own_loader() if misuse is other_batches else t.loader())
    assert t.session.next_step == first + used, (misuse.__name__, t.session.next_step)
    assert is_same(t.values(), t.before), misuse.__name__
    t.undo()
    t.undo = lambda: None
    t.zero()


def finished(t):
    t.zero()
    t.run(right, t.loader())
    assert t.session.next_step == STEPS


def epsilon(session):
    return json.loads(session.report(delta=1e-5, format="json"))["guarantees"][0]["epsilon"]


def older_checkpoint(t, state):
    spent = epsilon(t.session)
    with contextlib.nullcontext() if t.rank else pytest.warns(errors.BranchOpened, match="branch 1"):
        t.optimizer.load_state_dict(state)
    finished(t)
    assert t.session.branch == 1 and epsilon(t.session) > spent


def sequence(kind, connect, foreign, left_out=()):
    """All that can be done wrong in one job, one after the other, and the job's right end. Returns the names of it.

    Args:
        kind: The class of the loop.
        connect: Returns a new session of the job.
        foreign: A cursor of another run, in hexadecimal digits.
        left_out: Names of rows that this framework has no way to.
    """
    import rustle.torch

    t = kind(connect())
    done = [misuse for misuse in ROWS if misuse.__name__ not in left_out]
    for misuse in done:
        refused(t, misuse)
    with pytest.raises(Left):
        t.run(left_early, t.loader())
    t.zero()
    with pytest.raises(errors.SessionBusy):
        rustle.torch.attach(t.torch.optim.SGD(t.net.parameters(), lr=0.1), t.session, t.net)
    state = copy.deepcopy(t.optimizer.state_dict())
    strange = copy.deepcopy(state)
    strange["rustle"]["cursor"] = foreign
    with pytest.raises(errors.CursorMismatch):
        t.optimizer.load_state_dict(strange)
    first = t.session.next_step
    t.session.close()
    t = kind(connect())
    with pytest.raises(errors.NotResumed):
        t.run(right, t.loader())
    assert is_same(t.values(), t.before)
    t.session.close()
    t = kind(connect())
    t.optimizer.load_state_dict(state)
    assert 0 < t.session.next_step == first < STEPS
    finished(t)
    assert list(t.loader()) == [] and t.session.branch == 0
    with pytest.raises(errors.StepError):
        Loop.right(t, t.x[:SIZE], t.y[:SIZE])
    assert is_same(t.values(), t.before)
    older_checkpoint(t, state)
    with pytest.raises(errors.BatchesChanged, match="seed"):
        rustle.Rounds(batches(OTHER_SEED), t.session, rank=t.rank, ranks=t.ranks)
    t.session.close()
    runs = ["left_early", "two_trainers", "another_run", "begun_again", "beyond_the_plan", "older_checkpoint", "other_seed"]
    return [*(misuse.__name__ for misuse in done), *runs]
