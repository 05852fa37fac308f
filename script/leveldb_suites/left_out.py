"""Reads the file left_out, which names the tests that do not run, and why."""
import collections
import os
import pathlib

PLACES = ("leveldb", "dlsm", "nodes", "root")

Entry = collections.namedtuple("Entry", "suite place test reason")


def entries(text):
    """The entries of a file of groups: lines of reasons that begin with "#", and lines `SUITE PLACE TEST`."""
    found, reason, in_reason = [], "", False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            reason = ""
        elif line.startswith("#"):
            reason = (reason + " " if in_reason else "") + line[1:].strip()
        else:
            fields = line.split(maxsplit=2)
            if len(fields) != 3 or fields[1] not in PLACES or not reason:
                raise ValueError(f"left_out:{number}: not SUITE PLACE TEST after a reason: {line}")
            found.append(Entry(*fields, reason))
        in_reason = line.startswith("#")
    return found


def places(library, fabric):
    """The places of `entries` that a run on `library` over `fabric` is in."""
    found = {"leveldb"}
    if library == "dlsm":
        found |= {"dlsm"} if fabric == "embedded" else {"dlsm", "nodes"}
    if os.geteuid() == 0:
        found.add("root")
    return found


def of_suite(suite, library, fabric):
    """Returns {test: reason} of what `suite` leaves out where it runs on `library` over `fabric`."""
    text = (pathlib.Path(__file__).parent / "left_out").read_text(encoding="utf-8")
    return {entry.test: entry.reason for entry in entries(text)
            if entry.suite == suite and entry.place in places(library, fabric)}
