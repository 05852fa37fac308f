"""What scripts that measure check before they begin. What is wrong ends the script with a message."""

import argparse
import os
import sys


def at_least(least):
    """A type for argparse: whole numbers, none below `least`."""
    def number(text):
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or value < least:
            raise argparse.ArgumentTypeError(f"'{text}' is no number from {least} on")
        return value
    return number


def program(build, name):
    """Its path."""
    path = os.path.join(build, name)
    if not os.access(path, os.X_OK):
        end(f"no {name} in {build}: script/bench builds it there; --build names another folder")
    return path


def check_writable(flag, path):
    """That there can be a file, without touching one that is there; a path of "" is none."""
    try:
        if path:
            with open(path, "a", encoding="utf-8"):
                pass
    except OSError as error:
        end(f"cannot write {path}: {error.strerror}; {flag} names another file")


def end(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")
