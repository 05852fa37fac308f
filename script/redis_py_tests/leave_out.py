"""A plugin of pytest that takes the tests away that the file left_out beside this one names.

A line of that file that begins with "/" is a regular expression of names, as pytest prints them. One that no test has
is an error: then the list says something that is not so. The environment variable LEAVE_OUT_NOTHING switches it off.
"""
import os
import pathlib
import re

import pytest


def patterns():
    lines = (pathlib.Path(__file__).parent / "left_out").read_text(encoding="utf-8").splitlines()
    return [re.compile(line[1:]) for line in lines if line.startswith("/")]


def pytest_collection_modifyitems(config, items):
    if os.environ.get("LEAVE_OUT_NOTHING"):
        return
    unused = patterns()
    left_out, kept = [], []
    for item in items:
        matching = [pattern for pattern in patterns() if pattern.search(item.nodeid)]
        (left_out if matching else kept).append(item)
        unused = [pattern for pattern in unused if pattern not in matching]
    # A run of some files has not all tests.
    if unused and not os.environ.get("LEAVE_OUT_ALLOWS_UNUSED"):
        raise pytest.UsageError("left_out names what no test is called: " + ", ".join(p.pattern for p in unused))
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
