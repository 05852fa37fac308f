#!/usr/bin/env python3
"""Tests script/leveldb-suites without a build, a suite or LevelDB: what counts as passed, and what is left out."""
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True

from bench_lib.checks import check, check_equal, run_test  # noqa: E402
from leveldb_suites import left_out, suite as suite_module  # noqa: E402
from leveldb_suites.suite import Suite  # noqa: E402

# A suite of six tests: arguments are the tests that are left out, an environment variable the bad ones.
PROGRAM = r"""
import os, sys, time
for test in ["one", "two", "three", "four", "five", "six"]:
    if test in sys.argv[1:]:
        continue
    print("started", test, flush=True)
    what = os.environ.get(test, "passed")
    if what == "crash":
        os.abort()
    if what == "hang":
        time.sleep(600)
    if what == "end":
        sys.exit(0)
    if what != "silent":
        print(what, test, flush=True)
"""


class AnyLibrary:
    name = "any"

    def __init__(self, **outcomes):
        self.outcomes = outcomes

    def check_loaded_by(self, artifact):
        pass

    def run_environment(self):
        return self.outcomes


class AnySuite(Suite):
    name, version = "any", "1"

    def artifact(self, folder):
        return None

    def tests(self, folder, environment):
        return ["one", "two", "three", "four", "five", "six"]

    def command(self, folder, left_out, outcomes):
        return [sys.executable, "-c", PROGRAM, *left_out], {}


def outcomes(leaves_out=(), only=(), **bad):
    suite = AnySuite(pathlib.Path("none"))
    suite.bound = pathlib.Path(tempfile.gettempdir())
    results, outputs = suite.run(AnyLibrary(**bad), "embedded", set(leaves_out), only)
    return results, "".join(outputs)


def check_outcomes():
    """Fails if a test that fails, crashes, hangs or does not end is taken for one that passed, if it takes others
    with it, or if nothing says why."""
    good = dict.fromkeys(["one", "two", "three", "four", "five", "six"], "passed")
    check_equal(outcomes(), (good, ""))
    results, output = outcomes(two="failed", five="skipped")
    check_equal(results, {**good, "two": "failed", "five": "skipped"})
    check("failed two" in output, f"the output of a run that failed is kept: {output}")
    suite_module.STALL_SECONDS = 0.5
    for what, why in (("crash", "exit code"), ("hang", "nothing has happened"), ("end", "the run ended within it")):
        results, output = outcomes(three=what)
        check_equal(results, {**good, "three": "failed"})
        check(f"any: three: {why}" in output, f"{what}: {output}")
    check_equal(outcomes(one="crash", six="crash")[0], {**good, "one": "failed", "six": "failed"})
    check_equal(outcomes(four="silent")[0], {**good, "four": "failed"})


def check_left_out():
    """Fails if a test is left out that is not to be, or if the list may say anything that is not so."""
    results, _ = outcomes(leaves_out=["two"], two="crash")
    check("two" not in results and len(results) == 5, f"{results}")
    check_equal(outcomes(only=["two"])[0], {"two": "passed"})
    try:
        outcomes(leaves_out=["seven"])
        check(False, "a test that is left out need not exist")
    except RuntimeError as error:
        check("seven" in str(error), str(error))
    listed = left_out.entries("# A\n# reason.\nsuite dlsm a test\n\n# Another.\nsuite root other\n")
    check_equal([tuple(entry) for entry in listed], [("suite", "dlsm", "a test", "A reason."),
                                                     ("suite", "root", "other", "Another.")])
    for bad in ("suite dlsm test\n", "# Reason.\nsuite nowhere test\n", "# Reason.\nsuite dlsm\n",
                "# Reason.\n\nsuite dlsm test\n"):
        try:
            left_out.entries(bad)
            check(False, f"left_out may not have {bad!r}")
        except ValueError:
            pass
    for library, fabric, expected in (("leveldb", "embedded", {"leveldb"}), ("dlsm", "embedded", {"leveldb", "dlsm"}),
                                      ("dlsm", "shm", {"leveldb", "dlsm", "nodes"})):
        check_equal(left_out.places(library, fabric) - {"root"}, expected)


def main():
    check_outcomes()
    check_left_out()
    print("A suite passes if all of its tests do that are not left out for a reason")


if __name__ == "__main__":
    run_test(main)
