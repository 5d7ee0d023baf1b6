"""Every misuse that is known, with what each adapter does about it: a test that shows it, or why it has no way to happen.

`docs/misuse.md` has these tables, and `test_misuse_table.py` compares both.
"""

from __future__ import annotations

#: In the order of the columns.
ADAPTERS = {
    "loop": "own loop",
    "attach": "PyTorch",
    "opacus": "Opacus",
    "lightning": "Lightning",
    "transformers": "HF Trainer",
    "accelerate": "accelerate",
    "fsdp": "FSDP2",
    "deepspeed": "DeepSpeed",
    "ray": "Ray Train",
    "keras": "Keras",
    "jax": "JAX",
    "federated": "federated",
}

WORDS = {
    "wrong_divisor": "a divisor that the sum was not divided by",
    "unclipped": "gradients that are not clipped, or a loss that is scaled",
    "other_clip_norm": "a clip norm above the plan's",
    "stepped_twice": "two steps with one batch's gradients",
    "without_zero_grad": "gradients not set to zero after a step",
    "accumulated": "several batches for one step",
    "bad_batch_stepped": "a sum that is not finite",
    "bad_batch_left_out": "a batch without its step (`continue`)",
    "other_batches": "batches of another loader, such as shuffled ones",
    "left_early": "an epoch broken off",
    "too_large_batch": "more records than the batch has",
    "copied_optimizer": "a copied or pickled optimizer",
    "second_optimizer": "a second or new optimizer",
    "frozen_later": "a layer frozen in the middle",
    "added_later": "a parameter unfrozen or added in the middle",
    "running_means": "BatchNorm, or other means without noise",
    "begun_again": "a run begun again without its checkpoint",
    "other_seed": "other batches, or another seed, on resuming",
    "older_checkpoint": "an older checkpoint",
    "another_run": "a checkpoint of another run",
    "beyond_the_plan": "more steps than planned",
    "two_trainers": "two trainers of one session",
}

_RUNS = {
    "begun_again": "test_a_run_without_its_checkpoint_is_not_begun_anew",
    "other_seed": "test_a_checkpoint_of_other_batches_is_refused",
    "older_checkpoint": "test_an_older_checkpoint_is_charged_and_said",
    "another_run": "test_a_checkpoint_of_another_run_is_refused",
    "beyond_the_plan": "test_steps_end_with_the_plan",
    "two_trainers": "test_a_session_has_one_trainer",
}


def _runs(kind: str) -> dict[str, str]:
    return {row: f"{_outcome(row)} test_misuse_runs.py::{test}[{kind}]" for row, test in _RUNS.items()}


def _outcome(row: str) -> str:
    return {"older_checkpoint": "charged", "left_early": "kept"}.get(row, "refused")


def _sequence(test: str) -> dict[str, str]:
    """All rows, which `misuse_loops.py` does one after the other."""
    return {row: f"{_outcome(row)} test_misuse_frameworks.py::{test}" for row in WORDS}


def _in(file: str, **tests: str) -> dict[str, str]:
    return {row: f"{_outcome(row)} {file}::{test}" for row, test in tests.items()}


_FIT = "none `fit` makes each sum itself, clips each example to the plan's norm and steps once for each batch"

#: By adapter and row: an outcome and its test, or "none" and the reason.
CELLS: dict[str, dict[str, str]] = {
    "loop": {
        **_runs("Loop"),
        **_in(
            "test_rounds.py",
            wrong_divisor="wrong_divisor",
            unclipped="unclipped",
            other_clip_norm="unclipped",
            stepped_twice="stepped_twice",
            accumulated="accumulated_batches",
            bad_batch_stepped="not_finite",
            bad_batch_left_out="left_out",
            other_batches="foreign",
            left_early="test_right_use_works_to_the_end",
            too_large_batch="too_many_records",
        ),
        "without_zero_grad": "none a loop of one's own keeps no gradients in the session",
        "copied_optimizer": "refused test_session.py::test_after_a_fork",
        "second_optimizer": "none only the array that `privatize_` is called with is released",
        "frozen_later": "refused test_buffers.py::test_buffers_that_are_refused",
        "added_later": "refused test_buffers.py::test_buffers_that_are_refused",
        "running_means": "none only the array that `privatize_` is called with is released",
        "two_trainers": "none a loop of one's own does not claim the session; its steps come one after the other",
    },
    "attach": {
        **_runs("Torch"),
        **_in(
            "test_misuse_torch.py",
            wrong_divisor="wrong_divisor",
            unclipped="unclipped",
            other_clip_norm="clip_norm_of_another_plan",
            stepped_twice="stepped_twice",
            without_zero_grad="without_zero_grad",
            accumulated="accumulated_batches",
            bad_batch_stepped="bad_batch_stepped",
            bad_batch_left_out="bad_batch_left_by_continue",
            other_batches="foreign_loader",
            left_early="a_loop_left_early",
            too_large_batch="batch_too_large",
            copied_optimizer="deep_copy",
            second_optimizer="second_optimizer",
            frozen_later="frozen_later",
            running_means="batch_norm",
        ),
        "added_later": "refused test_torch.py::test_what_has_no_noise_is_not_stepped",
    },
    "opacus": {
        **_runs("Opacus"),
        **_in(
            "test_misuse_opacus.py",
            other_clip_norm="clip_norm_changed",
            stepped_twice="stepped_twice",
            without_zero_grad="without_zero_grad",
            accumulated="accumulated_batches",
            bad_batch_stepped="bad_batch_stepped",
            bad_batch_left_out="bad_batch_left_by_continue",
            other_batches="shuffled_loader_of_a_framework",
            left_early="a_loop_left_early",
            too_large_batch="batch_too_large",
            copied_optimizer="deep_copy",
            second_optimizer="new_optimizer",
            running_means="test_batch_normalisation_is_refused",
        ),
        "wrong_divisor": "none Opacus clips each gradient, and the engine divides by a number of its own",
        "unclipped": "none Opacus clips each gradient, and the engine divides by a number of its own",
        "frozen_later": "refused test_frozen.py::test_opacus",
        "added_later": "refused test_opacus.py::test_what_has_no_noise_is_not_stepped",
    },
    "lightning": _sequence("test_frameworks"),
    "transformers": {
        **_sequence("test_frameworks"),
        "without_zero_grad": "none the trainer's step of each batch sets gradients anew",
        "accumulated": "refused test_transformers.py::test_settings_that_break_it_are_refused",
        "bad_batch_left_out": "kept test_misuse_frameworks.py::test_a_batch_of_the_trainer_without_gradients_has_its_row",
    },
    "accelerate": _sequence("test_frameworks"),
    "fsdp": _sequence("test_fsdp"),
    "deepspeed": {
        **_sequence("test_deepspeed"),
        "without_zero_grad": "none its engine sets gradients to zero after each step",
    },
    "ray": _sequence("test_ray"),
    "keras": {
        **_runs("Keras"),
        **dict.fromkeys(
            ("wrong_divisor", "unclipped", "other_clip_norm", "stepped_twice", "without_zero_grad", "too_large_batch"), _FIT
        ),
        **_in(
            "test_misuse_keras.py",
            bad_batch_stepped="test_a_sum_that_is_not_finite",
            other_batches="test_data_of_another_length",
            left_early="test_a_fit_that_was_left_early",
            second_optimizer="test_a_step_between_the_steps_of_fit",
            running_means="test_layers_with_means",
        ),
        "accumulated": "kept test_misuse_keras.py::test_an_optimizer_that_accumulates",
        "bad_batch_left_out": _FIT,
        "copied_optimizer": "none noise is added before Keras has the gradients, whatever optimizer it has",
        "frozen_later": "refused test_keras.py::FROZEN",
        "added_later": "refused test_keras.py::FROZEN",
    },
    "jax": {
        **_runs("Jax"),
        **_in(
            "test_misuse_jax.py",
            wrong_divisor="test_a_divisor_that_sums_were_not_divided_by_is_refused",
            unclipped="unclipped",
            other_clip_norm="other_clip_norm",
            stepped_twice="an_older_state",
            accumulated="accumulated_batches",
            bad_batch_stepped="not_finite",
            bad_batch_left_out="bad_batch_left_by_continue",
            other_batches="foreign_batches",
            left_early="a_loop_left_early",
            too_large_batch="too_large_batch",
            copied_optimizer="an_older_state",
        ),
        "without_zero_grad": "none gradients are values that a function returns, and nothing adds to them",
        "second_optimizer": "none an update is what the privatizer returned; others are no part of its chain",
        "frozen_later": "refused test_frozen.py::test_jax",
        "added_later": "refused test_frozen.py::test_jax",
        "running_means": "none means are values that a function returns, which the privatizer never has",
    },
    "federated": {
        **_runs("Federated"),
        **_in(
            "test_misuse_federated.py",
            wrong_divisor="wrong_divisor",
            unclipped="unclipped",
            other_clip_norm="other_clip_norm",
            stepped_twice="stepped_twice",
            accumulated="accumulated_rounds",
            bad_batch_left_out="round_left_out",
            other_batches="clients_of_another_draw",
            left_early="test_rounds_left_early",
            too_large_batch="too_many_clients",
            frozen_later="fewer_arrays",
            added_later="more_arrays",
        ),
        "without_zero_grad": "none updates are values that clients send, and nothing adds to them",
        "bad_batch_stepped": "refused test_federated.py::test_what_is_refused_changes_nothing",
        "copied_optimizer": "none the server steps, and its state is restored at a cursor",
        "second_optimizer": "none the server steps, and its state is restored at a cursor",
        "running_means": "none clients send the plan's arrays and nothing else",
    },
}


def cells(adapter: str, test: str) -> set[str]:
    """The rows that this test shows for an adapter."""
    return {row for row, cell in CELLS[adapter].items() if cell.endswith(f"::{test}")}


#: What sessions and plans do, whatever the adapter: words, outcome and test.
EVERYWHERE = [
    ("a plan without `max_participations` or `epochs`", "refused", "test_rounds.py::test_participation_has_no_cheap_default"),
    ("batches that break the plan's participation", "refused", "test_rounds.py::test_batches_that_break_the_plan_are_refused"),
    ("another plan in the run's folder", "refused", "test_session.py::test_a_folder_is_one_process_and_one_plan"),
    ("a folder without its ledger", "refused", "test_session.py::test_a_folder_that_lost_its_ledger_is_not_begun_anew"),
    ("a copied folder", "refused", "test_copies.py::test_a_copied_folder_repeats_no_noise"),
    ("one key for two folders", "kept", "test_session.py::test_two_folders_with_one_key_have_different_noise"),
    ("several jobs on one data set", "charged", "test_sweep.py::test_jobs_of_a_folder_share_the_budget_of_their_data_set"),
    ("PyTorch without `rustle.Rounds`", "warned", "test_misuse_torch.py::test_what_nothing_checks_is_said"),
    ("means without `divide_by`, in PyTorch", "warned", "test_misuse_torch.py::test_means_without_a_divisor_are_said"),
    ("a sum that is clipped once more before its step", "kept", "test_misuse_torch.py::clipped_once_more"),
    ("a loop left between micro-batches of one step, in JAX", "kept", "test_misuse_jax.py::left_within_a_step"),
    ("records added to a loader's data set, or deleted from it", "refused", "test_live_data.py::test_a_data_set_keeps_its_length"),
    ("complex parameters, or truth values as parameters", "refused", "test_real_numbers.py::test_jax"),
    ("weight decay and schedules of learning rates", "kept", "test_misuse_torch.py::with_weight_decay_and_a_scheduler"),
    ("averages of weights, and other models beside", "kept", "test_misuse_torch.py::with_another_model_beside_it"),
    ("a parameter whose shape changed, in PyTorch", "refused", "test_misuse_tensors.py::test_a_parameter_of_another_shape"),
    ("the same, in Opacus", "refused", "test_misuse_tensors.py::test_opacus"),
    ("a batch left out (`skip`) after its backward pass", "kept", "test_misuse_pending.py::test_a_batch_left_out_is_in_no_sum"),
    (
        "gradients that are there when a state is loaded or the session restarted",
        "kept",
        "test_misuse_pending.py::test_a_batch_of_before_is_in_no_sum_after",
    ),
    ("steps within `paused()` that have gradients", "refused", "test_misuse_pending.py::test_a_paused_step_has_no_gradients"),
    ("InstanceNorm with running means, layers added later", "refused", "test_running_means.py::test_a_layer_that_was_added_later"),
    ("other buffers that change, in PyTorch", "warned", "test_running_means.py::test_buffers_that_change_are_named"),
    ("an optimizer's step within its step", "kept", "test_misuse_optimizers.py::test_a_step_within_a_step_has_its_noise_once"),
    ("a parameter that the optimizer lost", "refused", "test_misuse_optimizers.py::test_a_parameter_that_the_optimizer_lost"),
    ("one optimizer for two sessions", "refused", "test_misuse_optimizers.py::test_an_optimizer_has_noise_of_one_session"),
    ("a backward pass on top of `clipped_sum`", "refused", "test_clipping.py::test_a_backward_pass_on_top_of_a_clipped_sum"),
    ("a loss that calls no module it is given", "refused", "test_clipping.py::test_a_loss_of_another_module_than_its_argument"),
]


def tables() -> str:
    """What `docs/misuse.md` has of this, between its first two headings."""
    reasons: list[str] = []
    lines = ["| | " + " | ".join(ADAPTERS.values()) + " |", "|---" * (len(ADAPTERS) + 1) + "|"]
    for row, words in WORDS.items():
        found = []
        for adapter in ADAPTERS:
            outcome, said = CELLS[adapter][row].split(" ", 1)
            if outcome == "none":
                reasons += [said] * (said not in reasons)
                outcome = f"– ({reasons.index(said) + 1})"
            found.append(outcome)
        lines.append(f"| {words} | " + " | ".join(found) + " |")
    why = [f"{number}. {reason[0].upper()}{reason[1:]}." for number, reason in enumerate(reasons, 1)]
    everywhere = ["| whatever the adapter | |", "|---|---|", *(f"| {words} | {outcome} |" for words, outcome, _ in EVERYWHERE)]
    return "\n".join([*lines, "", "No way to happen:", "", *why, "", *everywhere])
