"""The end of a job: what can no longer be done, and a key that is gone."""

import json
import os

import numpy as np
import pytest
from conftest import KEY, prepared

import rustle
from rustle import errors


@pytest.mark.parametrize("destroy_key", [False, True])
def test_a_finished_job_binds_no_more(folder, session, destroy_key):
    row = np.zeros(session.dimension, np.float32)
    session.privatize_(row.copy(), 0)
    cursor = session.cursor()
    session.privatize_(row.copy(), 1)
    if destroy_key:
        # Bound before: of a job that is finished, and not destroyed, it would still be delivered.
        session.reserve()
    said = session.finish(destroy_key=destroy_key)
    assert "no further row" in said or "no row of it" in said
    assert (folder / "job.key").exists() is not destroy_key
    before = session.report(delta=1e-5)
    for ask in (
        lambda: session.privatize_(row.copy(), 2),
        lambda: session.skip(),
        lambda: session.resume(cursor),
        lambda: session.restart(),
        lambda: session.reserve() or session.privatize_(row.copy(), 2),
    ):
        with pytest.raises(errors.JobOver):
            ask()
    # A second time nothing happens, and less cannot be had.
    assert session.finish(destroy_key=destroy_key) == session.finish() == said
    assert session.report(delta=1e-5) == before
    session.close()
    if not destroy_key:
        with rustle.connect(f"inproc://{folder}") as again, pytest.raises(errors.JobOver):
            again.restart()
        return
    assert not any(KEY in path.read_bytes() for path in folder.iterdir())
    for _ in range(2):
        with pytest.raises(errors.JobOver, match="job.key was deleted"):
            rustle.connect(f"inproc://{folder}")
    assert not (folder / "job.key").exists()


def test_a_reserved_row_is_not_delivered_once_the_key_is_gone(session):
    session.reserve(steps=3)
    session.privatize_(np.zeros(session.dimension, np.float32), 0)
    session.finish(destroy_key=True)
    with pytest.raises(errors.JobOver):
        session.privatize_(np.zeros(session.dimension, np.float32), 1)


def test_a_finished_job_can_still_be_destroyed(folder, session):
    session.finish()
    assert (folder / "job.key").exists()
    session.finish(destroy_key=True)
    assert not (folder / "job.key").exists()


def test_a_key_that_others_need_is_not_destroyed(tmp_path, folder, session, plan):
    session.close()
    rustle.connect(f"inproc://{folder}?job=second").close()
    own = prepared(tmp_path / "own", plan)
    os.rename(own / "job.key", tmp_path / "shared.key")
    linked = prepared(tmp_path / "linked", plan)
    os.rename(linked / "job.key", tmp_path / "elsewhere.key")
    os.symlink(tmp_path / "elsewhere.key", linked / "job.key")
    twice = prepared(tmp_path / "twice", plan)
    os.link(twice / "job.key", tmp_path / "second.key")
    for url, why in (
        (f"{folder}", "job second"),
        (f"{own}?key_file={tmp_path / 'shared.key'}", "key_file"),
        (f"{linked}", "second name"),
        (f"{twice}", "second name"),
    ):
        with rustle.connect(f"inproc://{url}") as one:
            with pytest.raises(errors.InvalidArgument, match=why):
                one.finish(destroy_key=True)
            # Nothing was done: the job is under way.
            one.privatize_(np.zeros(one.dimension, np.float32), 0)
    with rustle.connect(f"inproc://{folder}?job=second") as second:
        with pytest.raises(errors.InvalidArgument, match="job default"):
            second.finish(destroy_key=True)


def test_a_cluster_finishes_a_job_and_says_that_its_key_is_left(cluster):
    with rustle.connect(cluster.url()) as session:
        session.privatize_(np.zeros(session.dimension, np.float32), 0)
        assert session.finish() == session.finish()
        with pytest.raises(errors.JobOver):
            session.privatize_(np.zeros(session.dimension, np.float32), 1)
        for _ in range(2):
            with pytest.warns(errors.KeyIsLeft, match="Delete the job's key"):
                session.finish(destroy_key=True)
        released = json.loads(session.report(delta=1e-5, format="json"))["released"]
        assert released["rows"] == 1
