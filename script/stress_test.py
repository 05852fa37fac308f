#!/usr/bin/env python3
"""Tests which arguments script/stress takes. Without a build."""

import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from bench_lib.checks import SCRIPTS, check, run_test  # noqa: E402

# Stands for cmake, and ends the script where it would build.
STAND_IN = """#!/bin/sh
echo "cmake $*"
exit 9
"""


def run(*words):
    """script/stress, in a tree of its own: there it begins to write where it begins to build."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "script"))
        script = shutil.copy(os.path.join(SCRIPTS, "stress"), os.path.join(folder, "script"))
        path = os.path.join(folder, "cmake")
        with open(path, "w", encoding="utf-8") as file:
            file.write(STAND_IN)
        os.chmod(path, 0o700)
        return subprocess.run([script, *words], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})


def check_minutes():
    """Fails if a number of minutes is refused that can be had, or one is not that cannot: then the build
    would come first, and db_stress would name a flag that nobody gave."""
    for minutes in ("1", "9999999"):
        done = run(f"--minutes={minutes}")
        check(done.returncode == 1 and "cmake -S" in done.stdout, f"{minutes}: {done}")
    for minutes in ("", "0", "-1", "1.5", "05", "x", "10000000", "99999999999999999999"):
        done = run(f"--minutes={minutes}")
        check(done.returncode == 2 and f"--minutes={minutes} is no number of minutes; use 1 to 9999999" in
              done.stderr and not done.stdout, f"{minutes}: {done}")


def check_others():
    """Fails if what the script does not know is passed over, or on to db_stress: that comes after the
    build, which would be one of another kind."""
    for word in ("--kind=memory", "--kind=", "5", "--help-me", "-x"):
        done = run(word)
        check(done.returncode == 2 and word in done.stderr and not done.stdout, f"{word}: {done}")


def main():
    check_minutes()
    check_others()
    print("minutes are refused before anything is built")


if __name__ == "__main__":
    run_test(main)
