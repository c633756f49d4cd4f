"""The table of joined groups in groups.py."""

import os
import types

import pytest

mlxcomm = pytest.importorskip("mlxcomm", reason="the package is not installed: tests/run installs it")
from mlxcomm import groups  # noqa: E402 - what is imported above may not be there.


# Why: iterating over a growing dictionary raised, after shrink() had already lost the group.
def test_a_group_shrinks_while_another_thread_joins(monkeypatch):
    failed, rest, key = object(), object(), (os.getpid(), "here")

    class JoinedMeanwhile(dict):
        def __setitem__(self, place, world):
            super().__setitem__(place, world)
            super().__setitem__((place, "joined meanwhile"), None)

    worlds = JoinedMeanwhile({key: failed, (0, "there"): None})
    monkeypatch.setattr(groups, "_worlds", worlds)
    monkeypatch.setattr(groups, "_ours", lambda group: group)
    monkeypatch.setattr(groups, "_mlxcomm", types.SimpleNamespace(
        is_ours=lambda group: True, shrink=lambda group, timeout: rest))
    assert groups.shrink(failed) is rest
    assert worlds[key] is rest and worlds[0, "there"] is None
