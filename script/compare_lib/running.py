"""Runs programs, and ends those that it started whatever happens."""

import contextlib
import json
import os
import re
import subprocess
import tempfile

from bench_lib import processes, server_size

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class Failure(Exception):
    """What a user or the machine has caused. Its text names the cause and the remedy."""


@contextlib.contextmanager
def started(words, **how):
    """A process that is running; if it still does at the end, it is asked to end and then made to."""
    try:
        process = subprocess.Popen(words, **how)
    except OSError as error:
        raise Failure(f"cannot start {words[0]}: {error.strerror}") from error
    with processes.ended(process):
        yield process


def program(build, name):
    path = os.path.join(build, name)
    if not os.access(path, os.X_OK):
        raise Failure(f"no {name} in {build}: script/bench builds it there; --build names another "
                      "folder")
    return path


def engines_built_in(build):
    """The engines that this db_bench knows."""
    done = subprocess.run([program(build, "db_bench"), "--engine=?"], capture_output=True, text=True,
                          check=False)
    allowed = re.search(r"allowed is (.*)", done.stderr)
    if not allowed:
        raise Failure(f"cannot ask db_bench for its engines: {done.stdout}{done.stderr}")
    return [name.strip() for name in allowed.group(1).split(",")]


def beside_server(build, size, command):
    """The command that runs `command` beside a Server, with the flags that reach it. size: a
    server_size.Size."""
    flags = f"{os.environ.get('DLSM_SERVER_FLAGS', '')} --fabric={size.fabric}".strip()
    return ["env", f"DLSM_SERVER_FLAGS={flags}", os.path.join(ROOT, "script/with-server"),
            program(build, "Server"), server_size.text(size.gigabytes), *command, "--memory_nodes=@NODE@",
            f"--fabric={size.fabric}"]


def server_size_for(num, size, fabric, there=None):
    """The server_size.Size of a Server that serves so much data."""
    found = server_size.for_data(num, size, fabric, there)
    if not found.is_enough:
        cause, remedy = found.shortage()
        raise Failure(f"{cause}: {remedy}")
    return found


def db_bench_results(words, **how):
    """Runs db_bench; words: the command without --json. One object for each of its benchmarks. how: for its
    process."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        words = [*words, "--progress=false", f"--json={path}"]
        with started(words, **how) as process:
            code = process.wait()
        if code != 0:
            raise Failure(f"ended with code {code}: {' '.join(words)}")
        with open(path, encoding="utf-8") as file:
            return json.load(file)
