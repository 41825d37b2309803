"""Threads: the machine's, the container's, the user's."""

from __future__ import annotations

import os

import pytest
import torch

from specgen.models import threads


@pytest.fixture(autouse=True)
def as_it_was():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def container(tmp_path, groups, **files):
    proc, root = tmp_path / "proc", tmp_path / "cg"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(groups)
    for name, text in files.items():
        file = root.joinpath(*name.split("__"))
        file = file.with_name(file.name.replace("_max", ".max").replace("cpu_cfs", "cpu.cfs"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return proc, root


@pytest.mark.parametrize(
    ("quota", "most"),
    [("max 100000", 64), ("800000 100000", 8), ("150000 100000", 1), ("50000 100000", 1), ("damaged", 64), ("1 0", 64)],
)
def test_a_quota_limits_the_cores_that_are_seen(tmp_path, monkeypatch, quota, most):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert threads.processors(*container(tmp_path, "0::/a/b\n", a__b__cpu_max=quota)) == most


def test_the_tightest_group_above_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    files = {"a__b__cpu_max": "max 100000", "a__cpu_max": "300000 100000"}
    assert threads.processors(*container(tmp_path, "0::/a/b\n", **files)) == 3


def test_the_first_version_of_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    files = {"cpu__a__cpu_cfs_quota_us": "400000", "cpu__a__cpu_cfs_period_us": "100000", "cpu__cpu_cfs_quota_us": "-1"}
    files["cpu__cpu_cfs_period_us"] = "100000"
    assert threads.processors(*container(tmp_path, "3:cpu:/a\n1:memory:/a\n", **files)) == 4


def test_affinity_without_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert threads.processors(tmp_path, tmp_path) == 2


def test_what_is_asked_for_wins_over_the_machine_and_the_variable_over_nothing(monkeypatch):
    torch.set_num_threads(7)
    assert threads.settle(environ={"OMP_NUM_THREADS": "7"}) == 7
    assert threads.settle(3, environ={"OMP_NUM_THREADS": "7"}) == torch.get_num_threads() == 3
    monkeypatch.setattr(threads, "processors", lambda: 2)
    assert threads.settle(environ={}) == torch.get_num_threads() == 2
    monkeypatch.setattr(threads, "processors", lambda: 64)
    assert threads.settle(environ={}) == 2  # torch knows which of the processors share a core


@pytest.mark.parametrize("before", [None, "0"])
def test_weights_are_read_one_at_a_time_and_what_the_user_said_is_put_back(before):
    environ = {} if before is None else {"HF_DEACTIVATE_ASYNC_LOAD": before}
    said = dict(environ)
    with threads.one_weight_at_a_time(environ):
        assert environ == {"HF_DEACTIVATE_ASYNC_LOAD": "1"}
    assert environ == said
