"""What the tests of scripts check with."""

import importlib.machinery
import importlib.util
import os
import signal
import sys

SCRIPTS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class Wrong(Exception):
    """A test's finding."""


def check(condition, message):
    if not condition:
        raise Wrong(message)


def check_equal(found, expected):
    check(found == expected, f"{found!r}, not {expected!r}")


class Late(Exception):
    """A test takes too long."""


def run_test(main, limit=110):
    """Runs a test's `main`; what it finds wrong ends the process. One that is not done within `limit`
    seconds, which is less than its runner's patience, says where it stands, and what runs then."""
    def late(_number, _frame):
        print(running_processes(), file=sys.stderr)
        raise Late(f"not done after {limit} seconds")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {wrong}")


def running_processes():
    """A line for each: its id, its parent's, its state and its command."""
    lines = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                command = file.read().replace("\0", " ")
        except OSError:
            continue  # It has ended.
        if command:
            lines.append(f"{pid:>7} {parent:>7} {state} {command[:200]}")
    return "\n".join(["running:", *lines])


def take_signals():
    """What a test that sends signals has its processes do first (preexec_fn): nohup, and shells that run
    something in the background, have whatever they start ignore some."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def ignore_hang_up():
    """The same for one that runs under nohup."""
    take_signals()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def load_script(name):
    """A script of that name as a module: its file has no ending."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), os.path.join(SCRIPTS, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
