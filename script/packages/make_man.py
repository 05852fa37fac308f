#!/usr/bin/env python3
"""Writes a manual page: a text by hand, with the flags that the program itself tells of by --helpxml.

    make_man.py PROGRAM TEMPLATE VERSION PAGE

In the template a line `@FLAGS@` stands for the flags and @VERSION@ for the version. A program that has a flag
without a description is refused.
"""
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

# Flags of gflags itself that are of use in a service.
OF_GFLAGS = {"flagfile": "a file with more flags, one a line; # begins a comment",
             "help": "list all flags",
             "version": "print the program's name and version"}


def escaped(text):
    """For roff, which has meanings for some characters."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def flags_of(program):
    """[(name, type, default, description)] in the order of names."""
    shown = subprocess.run([program, "--helpxml"], capture_output=True, text=True, check=False)
    found = []
    for flag in ElementTree.fromstring(shown.stdout).iter("flag"):
        name = flag.findtext("name")
        kind = flag.findtext("type")
        default = flag.findtext("default") or ""
        meaning = flag.findtext("meaning") or ""
        if "gflags" in flag.findtext("file"):
            if name not in OF_GFLAGS:
                continue
            default, meaning = "", OF_GFLAGS[name]
        if not meaning:
            sys.exit(f"make_man.py: --{name} of {program} has no description")
        found.append((name, kind, default, meaning))
    if not found:
        sys.exit(f"make_man.py: {program} --helpxml told of no flags")
    return sorted(found)


def formatted(flags):
    lines = []
    for name, kind, default, meaning in flags:
        value = "" if kind == "bool" else f"=\\fI{kind}\\fR"
        lines.append(f".TP\n\\fB\\-\\-{escaped(name)}\\fR{value}\n{escaped(meaning)}.")
        if default and kind != "bool":
            lines.append(f"The default is {escaped(default)}.")
        elif kind == "bool" and default == "true":
            lines.append(f"It is on; \\fB\\-\\-no{escaped(name)}\\fR switches it off.")
    return "\n".join(lines)


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    program, template, version, page = sys.argv[1:]
    with open(template, encoding="utf-8") as file:
        text = file.read()
    if "\n@FLAGS@\n" not in text or "@VERSION@" not in text:
        sys.exit(f"make_man.py: {template} has no @FLAGS@ or no @VERSION@")
    text = text.replace("@VERSION@", version).replace("@FLAGS@", formatted(flags_of(program)))
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
