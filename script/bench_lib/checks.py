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


def run_test(main):
    """Runs a test's `main`; what it finds wrong ends the process."""
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {wrong}")


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
