#!/usr/bin/env python3
"""Tests script/with-server.

    with_server_test.py SERVER
"""

import os
import subprocess
import sys

WITH_SERVER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "with-server")


class Wrong(Exception):
    """The test's finding."""


def check(condition, message):
    if not condition:
        raise Wrong(message)


def check_input(server):
    """Fails if the command gets another standard input than with-server has, or does not run where there
    is none."""
    words = [WITH_SERVER, server, "0.1"]
    done = subprocess.run([*words, "cat"], input="x\n", capture_output=True, text=True, timeout=60,
                          check=False)
    check(done.returncode == 0 and done.stdout.endswith("\nx\n"), f"{done}")
    done = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *words, "echo", "y"], capture_output=True,
                          text=True, timeout=60, check=False)
    check(done.returncode == 0 and done.stdout.endswith("\ny\n"), f"{done}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    server = os.path.abspath(sys.argv[1])
    check_input(server)
    print("the command has its input")


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"with_server_test: {wrong}")
