"""Hugging Face's Trainer: a tiny GPT-2 with tied weights, and with LoRA by peft."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import rustle
import rustle.torch
from rustle import errors


@pytest.fixture
def language():
    return pytest.importorskip("language")


def begun(language, folder, net, **changes):
    asked = dict(records=language.RECORDS, batch_size=language.SIZE, epochs=language.EPOCHS, epsilon=6, delta=1e-5)
    return rustle.begin(folder, parameters=rustle.torch.layout(net), **{**asked, "clip_norm": 0.5, **changes})


def arguments(folder, **changes):
    quiet = dict(report_to=[], disable_tqdm=True, use_cpu=True, save_strategy="no", logging_steps=1, dataloader_pin_memory=False)
    return transformers.TrainingArguments(str(folder), **{**quiet, **changes})


def trainer(language, folder, net, rounds, kind=None, changes=None, **given):
    import rustle.transformers

    kind = kind or rustle.transformers.Trainer
    given = {"divide_by": language.SIZE, "delta": 1e-5, **given}
    args = arguments(folder, **(changes or {}))
    return kind(net, args, train_dataset=language.Data(), rounds=rounds, **given)


@pytest.mark.parametrize("lora", [False, True])
def test_it_trains_as_many_steps_as_the_plan_has(tmp_path, language, lora):
    if lora:
        pytest.importorskip("peft")
    net = language.model(lora)
    frozen = {name: p.clone() for name, p in net.named_parameters() if not p.requires_grad}
    assert bool(frozen) is lora
    rounds = begun(language, tmp_path / "run", net)
    trained = trainer(language, tmp_path / "out", net, rounds)
    trained.train()
    assert rounds.session.next_step == trained.state.global_step == language.STEPS
    assert trained.state.epoch == language.EPOCHS
    for name, value in net.named_parameters():
        assert name not in frozen or torch.equal(value, frozen[name])
    history = [entry for entry in trained.state.log_history if "loss" in entry]
    assert [entry["rustle/rows"] for entry in history] == list(range(1, language.STEPS + 1))
    assert history[-1]["rustle/epsilon"] == pytest.approx(6.0, rel=1e-6) and "grad_norm" not in history[-1]
    if not lora:
        base = net.transformer.wte.weight
        assert net.lm_head.weight is base and dict(rustle.torch.layout(net)).keys() == {
            name for name, _ in net.named_parameters()
        }
    rounds.session.close()


def test_gradients_are_clipped_sums_with_noise(tmp_path, language):
    """The gradients of one step against a loop over records, and the row of a twin of the session."""
    import numpy as np
    from conftest import prepared

    net = language.model()
    count = sum(p.numel() for p in net.parameters())
    plan = rustle.plan(
        float=True,
        iterations=8, epsilon=6, delta=1e-5, min_sep=4, epochs=2, mechanism="identity", clip_norm=0.05, dimension=count
    )
    with rustle.connect(f"inproc://{prepared(tmp_path / 'twin', plan)}") as twin:
        row = twin.fetch_into(0, np.empty(count, np.float32))
    session = rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}")
    batches = rustle.Batches(rustle.schemes.fixed_order(4), language.RECORDS, 8, bytes(32))
    rounds = rustle.Rounds(batches, session, steps_per_epoch=4)
    found = []

    class Watch(transformers.TrainerCallback):
        def on_optimizer_step(self, args, state, control, **_):
            found.append(torch.cat([p.grad.reshape(-1).clone() for p in net.parameters()]))

    # Without its default max_grad_norm of 1, which would clip the sum before its noise.
    changes = dict(max_steps=1)
    net.eval()
    trained = trainer(language, tmp_path / "out", net, rounds, changes=changes, callbacks=[Watch()])
    for dropout in (m for m in net.modules() if isinstance(m, torch.nn.Dropout)):
        dropout.p = 0.0
    total = torch.zeros(count)
    data = language.Data()
    for record in batches[0]:
        net.zero_grad()
        ids = data[int(record)]["input_ids"][None]
        net(input_ids=ids, labels=ids).loss.backward()
        one = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
        total += one * min(1.0, 0.05 / float(one.norm()))
    trained.train()
    expected = (total + torch.from_numpy(row)) / language.SIZE
    assert torch.allclose(found[0], expected, atol=1e-5)
    session.close()


def test_a_checkpoint_continues_at_its_row(tmp_path, language):
    net = language.model()
    rounds = begun(language, tmp_path / "run", net)
    # Three steps of an epoch of four, so that it resumes within one.
    first = trainer(
        language, tmp_path / "out", net, rounds, changes=dict(max_steps=3, save_strategy="steps", save_steps=3)
    )
    first.train()
    rounds.session.close()
    net = language.model()
    rounds = begun(language, tmp_path / "run", net)
    again = trainer(language, tmp_path / "out", net, rounds)
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-3"))
    assert (rounds.session.next_step, rounds.session.branch) == (language.STEPS, 0)
    assert again.state.global_step == language.STEPS
    rounds.session.close()


def test_poisson_batches_may_be_empty(tmp_path, language):
    net = language.model()
    rounds = begun(language, tmp_path / "run", net, poisson=True, batch_size=1, epochs=1, epsilon=20)
    trainer(language, tmp_path / "out", net, rounds, divide_by=1, changes=dict(max_steps=8)).train()
    assert rounds.session.next_step == 8 and any(len(rounds.batches[at]) == 0 for at in range(8))
    rounds.session.close()


@pytest.mark.parametrize(
    "changes, match",
    [
        (dict(gradient_accumulation_steps=2), "gradient_accumulation_steps is 2"),
        (dict(label_smoothing_factor=0.1), "label_smoothing_factor"),
        (dict(auto_find_batch_size=True), "auto_find_batch_size"),
        (dict(max_grad_norm=0.5), "max_grad_norm is 0.5"),
    ],
)
def test_settings_that_break_it_are_refused(tmp_path, language, changes, match):
    net = language.model()
    rounds = begun(language, tmp_path / "run", net)
    with pytest.raises(errors.InvalidArgument, match=match):
        trainer(language, tmp_path / "out", net, rounds, changes=changes)
    with pytest.raises(errors.InvalidArgument, match="compute_loss_func"):
        trainer(language, tmp_path / "out", net, rounds, compute_loss_func=lambda *_: None)
    rounds.session.close()


def test_sums_are_not_clipped(tmp_path, language):
    """A sum above 1, the default of max_grad_norm, is clipped before its noise: on a grid the callback refuses that too."""
    import rustle.transformers

    net = language.model()
    rounds = begun(language, tmp_path / "run", net)
    assert arguments(tmp_path / "out").max_grad_norm == 1.0
    assert trainer(language, tmp_path / "out", net, rounds).args.max_grad_norm == 0.0
    rounds.session.close()
    plan = rustle.Plan.load(tmp_path / "run" / "plan.toml").on_grid(1e-4)
    plan.save(tmp_path / "grid" / "plan.toml")
    with rustle.connect(f"inproc://{tmp_path / 'grid'}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, session, net, divide_by=language.SIZE)
        loader = rustle.torch.DataLoader(language.Data(), rustle.Rounds(rounds.batches, session))
        given = dict(optimizer=optimizer, train_dataloader=loader)
        callback = rustle.transformers.Callback(session)
        callback.on_train_begin(arguments(tmp_path / "out", max_grad_norm=0.0), None, None, **given)
        with pytest.raises(errors.InvalidArgument, match="max_grad_norm is 1.0 under a plan on a grid"):
            callback.on_train_begin(arguments(tmp_path / "out"), None, None, **given)


def test_the_callback_refuses_a_trainer_without_noise(tmp_path, language):
    import rustle.transformers

    net = language.model()
    rounds = begun(language, tmp_path / "run", net)
    watched = dict(train_dataset=language.Data(), callbacks=[rustle.transformers.Callback(rounds.session)])
    plain = transformers.Trainer(net, arguments(tmp_path / "out", max_steps=2), **watched)
    with pytest.raises(errors.InvalidArgument, match="has no noise"):
        plain.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    rustle.torch.attach(optimizer, rounds.session, net, divide_by=language.SIZE)
    plain = transformers.Trainer(net, arguments(tmp_path / "out", max_steps=2), optimizers=(optimizer, None), **watched)
    with pytest.raises(errors.InvalidArgument, match="whose batches nothing checks"):
        plain.train()
    assert rounds.session.next_step == 0
    rounds.session.close()
