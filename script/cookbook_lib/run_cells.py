"""Runs cells in one interpreter: a list of texts comes in as JSON, and what each has printed goes out."""
import contextlib
import io
import json
import sys


def main():
    names = {"__name__": "__main__"}
    outputs = []
    for number, cell in enumerate(json.load(sys.stdin), 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell, f"cell {number}", "exec"), names)
        outputs.append(printed.getvalue())
    json.dump(outputs, sys.stdout)


if __name__ == "__main__":
    main()
