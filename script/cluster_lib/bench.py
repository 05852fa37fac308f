"""Runs db_bench on every compute node at once.

db_bench waits before each workload (--wait_for_start). When all of them wait, the memory nodes are
asked what they have spent and hold, and all go on: so a workload begins everywhere together, and what
the memory nodes spend between two such moments is that workload's.
"""

import contextlib
import json
import os
import queue
import subprocess
import threading

from bench_lib import db_bench_flags
from cluster_lib import memory_nodes, summary
from cluster_lib.failure import Failure, uninterrupted
from cluster_lib.hosts import run_script
from cluster_lib.memory_nodes import must, on_all

# What script/cluster sets -> its own flag for it, if there is one.
OWN_FLAGS = {"config": "", "memory_nodes": "", "compute_node_id": "", "json": "--results", "secret_file": "",
             "wait_for_start": "", "engine": "",
             **dict.fromkeys(("tls", "tls_ca_file", "tls_certificate_file", "tls_key_file"), "start --tls")}
DEFAULTS = {"benchmarks": "fillrandom,flush,waitforbackground,readrandom", "db": "db_bench_@ID@",
            "progress": "false"}
LAST_LINES = 8

# FOLDER CLUSTER; connection.conf comes in.
CONFIGURE = memory_nodes.IS_OF + r"""
must_be_of "$1" "$2"
cat >"$1/connection.conf"
"""
# FOLDER DB_BENCH FLAG...
BENCH = r"""
folder=$1; shift
[ -x "$1" ] || {
  echo "there is no program $1: build it, or name its folder with --build or --remote_build"; exit 1; }
echo $$ >"$folder/bench-pid"
exec "$@" --config="$folder/connection.conf" --secret_file="$folder/secret" --json="$folder/bench.json" \
  --wait_for_start 2>&1
"""
# FOLDER TENTHS
STOP_BENCH = memory_nodes.ALIVE + r"""
alive "$1" bench-pid && kill -TERM "$pid"
i=0
while alive "$1" bench-pid && [ $i -lt "$2" ]; do sleep 0.1; i=$((i+1)); done
alive "$1" bench-pid && kill -KILL "$pid"
rm -f "$1/bench-pid"
"""


def with_defaults(flags):
    given = {db_bench_flags.name(word) for word in flags}
    defaults = dict(DEFAULTS)
    if "compute_boundaries" in given:  # Ranges of one database.
        defaults["db"] = "db_bench"
    return [f"--{name}={value}" for name, value in defaults.items()
            if name not in given and "no" + name not in given] + list(flags)


class Run:
    """One db_bench: its process, and what it has said."""

    def __init__(self, cluster, node, flags, events):
        self.node = node
        self.lines = []
        flags = [word.replace("@ID@", str(node.index)) for word in flags]
        words = ["sh", "-c", BENCH, "cluster", node.folder, cluster.program(node, "db_bench"),
                 f"--compute_node_id={node.index}", *cluster.tls_flags(), *flags]
        # Its own session: ^C is for this command, which ends it in order.
        self.process = subprocess.Popen(node.host.command(words), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        errors="replace", start_new_session=True)
        self.reader = threading.Thread(target=self._read, args=(events,), daemon=True)
        self.reader.start()

    def _read(self, events):
        for line in self.process.stdout:
            if line.startswith("ready "):
                events.put((self, line.split()[1]))
            else:
                self.lines.append(line.rstrip())
        events.put((self, None))

    def go_on(self):
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # It has ended: _read says so.

    def end(self):
        """After what it runs has ended on its host, or cannot be reached."""
        self.process.kill()
        self.process.wait()
        self.reader.join(timeout=5)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def failure(self):
        code = self.process.wait()
        last = "\n".join("    " + line for line in self.lines[-LAST_LINES:]) or "    (none)"
        return Failure(f"db_bench on {self.node.name} ({self.node.host.describe()}) ended with code {code}. "
                       f"Its last lines:\n{last}")


def _next(runs, events):
    """What all of them wait to begin, or None when all have ended well."""
    said = {}
    while len(said) < len(runs):
        run, what = events.get()
        if what is None and run.process.wait() != 0:
            raise run.failure()
        said[run] = what
    if len(set(said.values())) != 1:
        raise Failure("the compute nodes are not at the same workload: "
                      + ", ".join(f"{run.node.name} at {what}" for run, what in said.items()))
    return next(iter(said.values()))


def _drive(cluster, runs, events):
    """Lets all go on whenever all wait; a summary.Moment for each time."""
    moments = []
    while True:
        workload = _next(runs, events)
        if workload is None:
            return moments
        moments.append(summary.Moment(workload, memory_nodes.use_of_all(cluster)))
        for run in runs:
            run.go_on()


def _stop(node):
    """As far as its host can be reached; where it cannot, `script/cluster stop` says so."""
    with contextlib.suppress(Failure):
        run_script(node.host.of_processes(), STOP_BENCH, node.folder, memory_nodes.GRACE_TENTHS)


def _fetch(node):
    return json.loads(must(node, run_script(node.host, 'cat "$1/bench.json"', node.folder)))


def run(cluster, flags, results_folder):
    """Returns a summary.Summary; leaves each compute node's JSON file and output in the folder."""
    for node, (up, text) in zip(cluster.memory_nodes, memory_nodes.look_at_all(cluster)):
        if not up:
            raise Failure(f"{node.name} is down: {text}")
    on_all(lambda n: must(n, run_script(n.host, CONFIGURE, n.folder, cluster.id, text=cluster.config_text())),
           cluster.compute_nodes)
    os.makedirs(results_folder, exist_ok=True)
    events = queue.SimpleQueue()
    runs = []
    try:
        for node in cluster.compute_nodes:
            runs.append(Run(cluster, node, with_defaults(flags), events))
        moments = _drive(cluster, runs, events)
        results = on_all(_fetch, cluster.compute_nodes)
    finally:
        with uninterrupted():
            on_all(_stop, [one.node for one in runs])
            for one in runs:
                one.end()
                _write(results_folder, f"{one.node.name}.log", "\n".join(one.lines) + "\n")
    for node, result in zip(cluster.compute_nodes, results):
        _write(results_folder, f"{node.name}.json", json.dumps(result, indent=1) + "\n")
    return summary.Summary([n.name for n in cluster.compute_nodes],
                           [n.name for n in cluster.memory_nodes], results, moments)


def _write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
