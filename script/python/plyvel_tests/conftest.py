"""Has plyvel's tests take dlsm.plyvel for plyvel, and leaves out those that the file left_out names.

A line of that file is the name of a test, and why it is left out. One that there is no test of is an error.
"""
import os
import pathlib
import sys

import pytest

import dlsm.plyvel

sys.modules["plyvel"] = dlsm.plyvel


def left_out():
    lines = (pathlib.Path(__file__).parent / "left_out").read_text(encoding="utf-8").splitlines()
    return {line.split()[0] for line in lines if line and not line.startswith("#")}


def pytest_collection_modifyitems(config, items):
    names = left_out()
    unknown = names - {item.name for item in items}
    if unknown and not config.option.keyword:
        raise pytest.UsageError(f"left_out names what is no test: {sorted(unknown)}")
    taken = [item for item in items if item.name in names and os.geteuid() == 0]
    config.hook.pytest_deselected(items=taken)
    items[:] = [item for item in items if item not in taken]
