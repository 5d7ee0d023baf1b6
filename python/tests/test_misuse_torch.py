"""Training loops in PyTorch that would break a plan's promise: each is refused, and what is right beside it works."""

import copy
import pickle

import numpy as np
import pytest
from misuse import OTHER_SEED, PER_EPOCH, RECORDS, SIZE, STEPS, Training, batches, planned, weights

torch = pytest.importorskip("torch")

import rustle
import rustle.torch
from rustle import errors


def wrong_divisor(t):
    t.step(next(iter(t.rounds)), divide_by=1.0)


def stepped_twice(t):
    t.step(next(iter(t.rounds)))
    t.optimizer.step()


def clip_norm_of_another_plan(t):
    t.step(next(iter(t.rounds)), clip_norm=10 * t.session.plan.clip_norm)


def scaled_loss(t):
    t.gradients(next(iter(t.rounds)))
    for p in t.net.parameters():
        p.grad.mul_(100)
    t.optimizer.step()


def unclipped(t):
    t.optimizer.zero_grad()
    ids = next(iter(t.rounds))
    (50 * t.loss(t.net, t.x[ids], t.y[ids])).backward()
    t.optimizer.step()


def without_zero_grad(t):
    for ids in t.rounds:
        (0.01 * t.loss(t.net, t.x[ids], t.y[ids])).backward()
        t.optimizer.step()


def accumulated_batches(t):
    for at, ids in enumerate(t.rounds):
        (0.01 * t.loss(t.net, t.x[ids], t.y[ids])).backward()
        if at % 2:
            t.optimizer.step()
            t.optimizer.zero_grad()


def bad_batch_left_by_continue(t):
    for at, ids in enumerate(t.rounds):
        if at == 3:
            continue
        t.step(ids)


def bad_batch_stepped(t):
    t.gradients(next(iter(t.rounds)))
    next(t.net.parameters()).grad[0, 0] = float("nan")
    t.optimizer.step()


def foreign_loader(t):
    for x, y in t.loader(shuffle=True):
        t.optimizer.zero_grad()
        (0.01 * t.loss(t.net, x, y)).backward()
        t.optimizer.step()


def shuffled_loader(t):
    rustle.torch.in_order(t.loader(shuffle=True), t.session)


def round_drawn_twice(t):
    ids = next(iter(t.rounds))
    t.step(ids)
    t.step(ids)


def other_loader_later(t):
    t.step(next(iter(t.rounds)))
    foreign_loader(t)


def gradients_of_a_loop_left_early(t):
    ids = next(iter(t.rounds))
    (0.01 * t.loss(t.net, t.x[ids], t.y[ids])).backward()
    ids = next(iter(t.rounds))
    (0.01 * t.loss(t.net, t.x[ids], t.y[ids])).backward()
    t.optimizer.step()


def batch_too_large(t):
    next(iter(t.rounds))
    t.step(np.repeat(np.arange(RECORDS), 10))


def deep_copy(t):
    copy.deepcopy((t.net, t.optimizer))


def shallow_copy(t):
    copy.copy(t.optimizer)


def pickled(t):
    pickle.dumps(t.optimizer)


def copied_wrapper(t):
    t.attachment.detach()
    optimizer = rustle.torch.Optimizer(t.optimizer, t.session, t.net, divide_by=SIZE)
    copy.deepcopy(optimizer)


def second_optimizer(t):
    other = torch.optim.Adam(t.net[2].parameters())
    t.gradients(next(iter(t.rounds)))
    other.step()


def new_optimizer(t):
    t.step(next(iter(t.rounds)))
    t.optimizer = torch.optim.Adam(t.net.parameters())
    t.gradients(next(iter(t.rounds)))
    t.optimizer.step()


def optimizer_of_a_part(t):
    t.attachment.detach()
    rustle.torch.attach(torch.optim.SGD(t.net[0].parameters(), lr=1.0), t.session, t.net)


def frozen_later(t):
    t.step(next(iter(t.rounds)))
    t.net[2].weight.requires_grad_(False)
    t.step(next(iter(t.rounds)))


def quasi_newton(t):
    t.attachment.detach()
    t.optimizer = torch.optim.LBFGS(t.net.parameters())
    rustle.torch.attach(t.optimizer, t.session, t.net)
    t.optimizer.step(lambda: 0.0)


def batch_norm(t):
    clip_norm = t.session.plan.clip_norm
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3))
    rustle.torch.clipped_sum(net, t.loss, t.x[:4], t.y[:4], clip_norm=clip_norm)


def more_steps_than_planned(t):
    for ids in t.rounds:
        t.step(ids)
    t.step(ids)


def data_of_another_length(t):
    data = torch.utils.data.TensorDataset(t.x[:-1], t.y[:-1])
    rustle.torch.DataLoader(data, t.rounds)


def loader_with_an_order_of_its_own(t):
    rustle.torch.DataLoader(t.data, t.rounds, shuffle=True)


MISUSES = [
    (wrong_divisor, errors.SumTooLarge, "divide_by", 0),
    (stepped_twice, errors.StepError, "had its step already|batch that had its step", 1),
    (clip_norm_of_another_plan, errors.SumTooLarge, "clip_norm 10", 0),
    (scaled_loss, errors.SumTooLarge, "clipped to", 0),
    (unclipped, errors.SumTooLarge, "clipped to", 0),
    (without_zero_grad, errors.StaleGradients, "zero_grad", 1),
    (accumulated_batches, errors.StepError, "met no noise", 0),
    (bad_batch_left_by_continue, errors.StepError, "met no noise.*skip", 3),
    (bad_batch_stepped, errors.InvalidArgument, "not finite", 0),
    (foreign_loader, errors.StepError, "another loader", 0),
    (shuffled_loader, errors.InvalidArgument, "shuffles", 0),
    (round_drawn_twice, errors.StepError, "another loader", 1),
    (other_loader_later, errors.StepError, "another loader", 1),
    (gradients_of_a_loop_left_early, errors.StaleGradients, "handed out again", 0),
    (batch_too_large, errors.StepError, "records", 0),
    (deep_copy, errors.InvalidArgument, "copied", 0),
    (shallow_copy, errors.InvalidArgument, "copied", 0),
    (pickled, errors.InvalidArgument, "pickled", 0),
    (copied_wrapper, errors.InvalidArgument, "copied", 0),
    (second_optimizer, errors.LayoutMismatch, "another optimizer", 0),
    (new_optimizer, errors.LayoutMismatch, "another optimizer", 1),
    (optimizer_of_a_part, errors.LayoutMismatch, "does not hold", 0),
    (frozen_later, errors.LayoutMismatch, "frozen", 1),
    (quasi_newton, errors.InvalidArgument, "LBFGS", 0),
    (batch_norm, errors.MixesExamples, "BatchNorm1d", 0),
    (more_steps_than_planned, errors.StepError, "step", STEPS),
    (data_of_another_length, errors.InvalidArgument, "population", 0),
    (loader_with_an_order_of_its_own, errors.InvalidArgument, "shuffle", 0),
]


@pytest.mark.parametrize("misuse, kind, match, rows", MISUSES, ids=[row[0].__name__ for row in MISUSES])
def test_misuse_is_refused_before_a_row_is_used(tmp_path, misuse, kind, match, rows):
    t = Training(tmp_path / "run")
    with pytest.raises(kind, match=match):
        misuse(t)
    assert t.session._native.next_step == rows
    t.session.close()


def test_nothing_moves_in_a_step_that_is_refused(tmp_path):
    t = Training(tmp_path / "run")
    before = weights(t.net)
    with pytest.raises(errors.SumTooLarge):
        wrong_divisor(t)
    assert np.array_equal(weights(t.net), before)
    t.session.close()


def as_planned(t):
    for ids in t.rounds:
        t.step(ids)


def by_a_loader(t):
    for workers in (0, 2):
        loader = rustle.torch.DataLoader(t.data, t.rounds, num_workers=workers)
        for at, (x, y) in enumerate(loader):
            assert torch.equal(x, t.x[batches()[t.session.next_step]])
            t.optimizer.zero_grad()
            (0.01 * t.loss(t.net, x, y)).backward()
            t.optimizer.step()
            if workers == 0 and at == 4:
                break


def in_fixed_order_by_epochs(t):
    loader = rustle.torch.in_order(t.loader(), t.session)
    for epoch in range(4):
        for at, (x, y) in enumerate(loader):
            place = t.session.next_step % PER_EPOCH
            assert torch.equal(x, t.x[SIZE * place : SIZE * (place + 1)])
            t.step(range(SIZE * place, SIZE * (place + 1)))
            if (epoch, at) == (0, 1):
                break


def zeroed_in_place(t):
    for ids in t.rounds:
        t.optimizer.zero_grad(set_to_none=False)
        (0.01 * t.loss(t.net, t.x[ids], t.y[ids])).backward()
        (0.01 * t.loss(t.net, t.x[ids], t.y[ids])).backward()
        t.optimizer.step()


def copied_into_gradients(t):
    t.step(next(iter(t.rounds)))
    for ids in t.rounds:
        for p in t.net.parameters():
            p.grad.copy_(torch.full_like(p, 1e-3))
        t.optimizer.step()


def in_microbatches(t):
    for ids in t.rounds:
        t.step(ids, microbatch=4)


def a_batch_left_out(t):
    for at, ids in enumerate(t.rounds):
        if at == 3:
            t.attachment.skip()
            continue
        t.step(ids)


def a_batch_left_out_of_a_loader(t):
    for at, (x, y) in enumerate(rustle.torch.DataLoader(t.data, t.rounds, num_workers=2)):
        if at == 3:
            t.attachment.skip()
            continue
        t.optimizer.zero_grad()
        (0.01 * t.loss(t.net, x, y)).backward()
        t.optimizer.step()


def a_loop_left_early(t):
    for at, ids in enumerate(t.rounds):
        if at == 3:
            break
        t.step(ids)
    as_planned(t)


def with_a_closure(t):
    for ids in t.rounds:
        def closure():
            t.optimizer.zero_grad()
            loss = 0.01 * t.loss(t.net, t.x[ids], t.y[ids])
            loss.backward()
            return loss

        assert t.optimizer.step(closure) > 0


def with_weight_decay_and_a_scheduler(t):
    t.attachment.detach()
    inner = torch.optim.AdamW(t.net.parameters(), lr=0.1, weight_decay=0.1)
    t.optimizer = rustle.torch.Optimizer(inner, t.session, t.net, divide_by=SIZE)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(t.optimizer, 0.5)
    for ids in t.rounds:
        t.step(ids)
        scheduler.step()
    assert inner.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**STEPS)
    assert "rustle" in t.optimizer.state_dict()


def with_another_model_beside_it(t):
    average = torch.optim.swa_utils.AveragedModel(t.net)
    head = torch.nn.Linear(3, 1)
    other = torch.optim.SGD(head.parameters(), lr=1.0)
    for ids in t.rounds:
        t.step(ids)
        average.update_parameters(t.net)
        other.zero_grad()
        head(t.net(t.x[ids]).detach()).sum().backward()
        other.step()


def clipped_once_more(t):
    for ids in t.rounds:
        t.optimizer.zero_grad()
        t.gradients(ids)
        torch.nn.utils.clip_grad_norm_(t.net.parameters(), 0.1)
        t.optimizer.step()


def frozen_batch_norm(t):
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3).eval())
    clip_norm = t.session.plan.clip_norm
    rustle.torch.clipped_sum(net, t.loss, t.x[:4], t.y[:4], clip_norm=clip_norm)
    as_planned(t)


RIGHT = [
    as_planned,
    by_a_loader,
    in_fixed_order_by_epochs,
    zeroed_in_place,
    copied_into_gradients,
    in_microbatches,
    a_batch_left_out,
    a_batch_left_out_of_a_loader,
    a_loop_left_early,
    with_a_closure,
    with_weight_decay_and_a_scheduler,
    with_another_model_beside_it,
    clipped_once_more,
    frozen_batch_norm,
]


@pytest.mark.parametrize("use", RIGHT, ids=[use.__name__ for use in RIGHT])
def test_right_use_works_to_the_end(tmp_path, use, recwarn):
    t = Training(tmp_path / "run", rounds=use is not in_fixed_order_by_epochs)
    use(t)
    assert t.session.next_step == STEPS and t.session.branch == 0
    assert not [warning for warning in recwarn if issubclass(warning.category, errors.Unchecked)]
    t.session.close()


def test_resuming_with_another_seed_is_refused(tmp_path):
    t = Training(tmp_path / "run")
    for _, ids in zip(range(5), t.rounds):
        t.step(ids)
    state = t.optimizer.state_dict()
    t.session.close()
    again = Training(tmp_path / "run", seed=OTHER_SEED)
    with pytest.raises(errors.BatchesChanged, match="seed"):
        again.optimizer.load_state_dict(state)
    again.session.close()
    # Before the rounds are there, too.
    again = Training(tmp_path / "run", rounds=False)
    again.optimizer.load_state_dict(state)
    with pytest.raises(errors.BatchesChanged, match="seed"):
        rustle.Rounds(batches(OTHER_SEED), again.session)
    rounds = rustle.Rounds(batches(), again.session)
    assert again.session.branch == 0 and np.array_equal(next(iter(rounds)), batches()[5])
    again.session.close()


def test_a_shuffled_epoch_that_broke_off_is_refused(tmp_path):
    dimension = sum(p.numel() for p in torch.nn.Linear(5, 3).parameters())
    planned(tmp_path / "run", mechanism="identity", min_sep=1, dimension=dimension)
    with rustle.connect(f"inproc://{tmp_path / 'run'}") as session:
        data = torch.utils.data.TensorDataset(torch.arange(RECORDS))
        given = torch.utils.data.DataLoader(data, batch_size=SIZE, shuffle=True)
        loader = rustle.torch.in_order(given, session)
        values = np.zeros(dimension, np.float32)
        seen = []
        for (part,) in loader:
            seen += part.tolist()
            session.privatize_(values, session.next_step)
        assert sorted(seen) == list(range(RECORDS))
        for _ in loader:
            session.privatize_(values, session.next_step)
            break
        with pytest.raises(errors.StepError, match="broke off after 1 of 4"):
            next(iter(loader))


def test_running_again_without_a_cursor_is_refused(tmp_path):
    t = Training(tmp_path / "run")
    t.step(next(iter(t.rounds)))
    t.session.close()
    again = Training(tmp_path / "run")
    with pytest.raises(errors.NotResumed):
        again.step(next(iter(again.rounds)))
    again.session.close()


def test_a_copy_after_detaching_and_another_optimizer(tmp_path):
    t = Training(tmp_path / "run")
    t.step(next(iter(t.rounds)))
    t.attachment.detach()
    copy.deepcopy(t.optimizer), pickle.dumps(t.optimizer)
    t.optimizer = torch.optim.Adam(t.net.parameters())
    rustle.torch.attach(t.optimizer, t.session, t.net, divide_by=SIZE)
    as_planned(t)
    assert t.session.next_step == STEPS
    t.session.close()


@pytest.mark.filterwarnings("ignore:nothing checks")
def test_a_gradient_has_one_step_without_rounds_too(tmp_path):
    t = Training(tmp_path / "run", rounds=False)
    t.step(range(SIZE))
    before = weights(t.net)
    for left in (False, True):
        if left:
            # Some of them new, one left.
            for p in list(t.net.parameters())[1:]:
                p.grad = torch.zeros_like(p)
        with pytest.raises(errors.StaleGradients, match="had its step already"):
            t.optimizer.step()
    assert np.array_equal(weights(t.net), before) and t.session.next_step == 1
    t.step(range(SIZE))
    t.session.close()


def test_what_nothing_checks_is_said(tmp_path):
    t = Training(tmp_path / "run", rounds=False)
    t.gradients(range(SIZE))
    with pytest.warns(errors.Unchecked, match="participation"):
        t.optimizer.step()
    t.session.close()


def test_a_sum_is_bounded_without_rounds_too(tmp_path):
    t = Training(tmp_path / "run", rounds=False)
    t.gradients(range(SIZE), divide_by=1.0)
    with pytest.raises(errors.SumTooLarge, match="divide_by of the attachment"), pytest.warns(errors.Unchecked):
        t.optimizer.step()
    t.session.close()


@pytest.mark.filterwarnings("ignore:nothing checks")
def test_means_without_a_divisor_are_said(tmp_path):
    t = Training(tmp_path / "run", rounds=False, records=60, divide_by=1.0)
    for at in range(5):
        t.gradients(range(RECORDS), divide_by=60.0)
        for p in t.net.parameters():
            p.grad = p.grad.clone()
        if at < 4:
            t.optimizer.step()
    with pytest.warns(errors.Unchecked, match="divide_by"):
        t.optimizer.step()
    t.session.close()


def test_a_sum_is_bounded_by_records_that_are_named(tmp_path):
    t = Training(tmp_path / "run", rounds=False, divide_by=1.0)
    for p in t.net.parameters():
        p.grad = torch.ones_like(p) * 6
    with pytest.raises(errors.SumTooLarge, match="15 contributions"), pytest.warns(errors.Unchecked):
        t.optimizer.step()
    for p in t.net.parameters():
        p.grad = torch.ones_like(p) * 2
    t.optimizer.step()
    t.session.close()


def test_a_parameter_that_never_moves_is_named(tmp_path):
    class Still(torch.optim.SGD):
        def step(self, closure=None):
            self.param_groups[0]["params"][0].data = self.param_groups[0]["params"][0].data + 0.0

    t = Training(tmp_path / "run")
    t.attachment.detach()
    optimizer = Still(t.net.parameters(), lr=1.0)
    rustle.torch.attach(optimizer, t.session, t.net, divide_by=SIZE)
    t.gradients(next(iter(t.rounds)))
    with pytest.warns(errors.Unchecked, match="did not move"):
        optimizer.step()
    t.session.close()


@pytest.mark.parametrize("microbatch", [None, 1, 7])
def test_the_clipped_sum_is_that_of_a_loop(microbatch):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Dropout(0.0), torch.nn.Linear(4, 3))
    net[0].bias.requires_grad_(False)
    x, y = torch.randn(9, 5), torch.randint(0, 3, (9,))
    loss = lambda call, x, y: torch.nn.functional.cross_entropy(call(x), y)
    expected = {name: torch.zeros_like(p) for name, p in net.named_parameters() if p.requires_grad}
    norms = []
    for a, b in zip(x, y):
        net.zero_grad()
        loss(net, a[None], b[None]).backward()
        norm = torch.cat([p.grad.reshape(-1) for p in net.parameters() if p.requires_grad]).norm()
        norms.append(norm.item())
        for name in expected:
            expected[name] += net.get_parameter(name).grad * min(1.0, 1.2 / norm.item()) / 3
    net.zero_grad()
    losses = rustle.torch.clipped_sum(net, loss, x, y, clip_norm=1.2, divide_by=3.0, microbatch=microbatch)
    assert min(norms) < 1.2 < max(norms) and net[0].bias.grad is None
    for name, value in expected.items():
        assert torch.allclose(net.get_parameter(name).grad, value, atol=1e-6)
    assert torch.allclose(losses, torch.nn.functional.cross_entropy(net(x), y, reduction="none"), atol=1e-6)
    rustle.torch.clipped_sum(net, loss, x[:0], y[:0], clip_norm=1.2)
    assert not any(net.get_parameter(name).grad.any() for name in expected)


def test_batches_of_users_are_refused_where_each_record_is_clipped(tmp_path):
    t = Training(tmp_path / "run", rounds=False)
    users = [RECORDS // 12] * 12
    of_records = rustle.Batches(rustle.schemes.els(4, 0.1), users, STEPS, bytes(32))
    with pytest.raises(errors.InvalidArgument, match="the user may have several.*rustle.user_level.Training"):
        rustle.Rounds(of_records, t.session)
    of_users = rustle.Batches(rustle.schemes.uls(4, rustle.schemes.fixed_order(PER_EPOCH)), users, STEPS, bytes(32))
    # Rounds themselves are for programs that clip each user's gradient.
    rounds = rustle.Rounds(of_users, t.session)
    with pytest.raises(errors.InvalidArgument, match="a user may have several.*rustle.user_level.Training"):
        rustle.torch.DataLoader(t.data, rounds)
    assert t.session.next_step == 0
