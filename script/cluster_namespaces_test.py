#!/usr/bin/env python3
"""Tests script/cluster with a cluster in network namespaces.

    cluster_namespaces_test.py BUILD

Exit code 77 where there can be none.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from bench_lib.checks import check, run_test, take_signals  # noqa: E402
from cluster_lib.checks import (  # noqa: E402
    CLUSTER, SMALL, check_interrupted_bench, processes_of, run, server_of, table_of)

SKIPPED = 77


def namespaces_of(name):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(f"dlsm-{name}-")]


def check_nothing_left(name, folder, why):
    check(not namespaces_of(name), f"{why}: left: {namespaces_of(name)}")
    check(not processes_of(folder), f"{why}: left: {processes_of(folder)}")
    check(not os.path.exists(folder), f"{why}: {folder} is left")


def why_no_namespaces(build):
    """Why the test cannot run here, or None."""
    if os.geteuid():
        return "it needs root"
    for program in ("ip", "tc"):
        if not shutil.which(program):
            return f"there is no {program}; script/install-deps installs it"
    for program in ("Server", "db_bench", "dlsm_tool"):
        if not os.path.exists(os.path.join(build, program)):
            return f"there is no {build}/{program}"
    probe = f"dlsm-probe-{os.getpid()}"
    for words in (["netns", "add", probe], ["-n", probe, "link", "add", "b0", "type", "bridge"],
                  ["-n", probe, "link", "add", "v0", "type", "veth", "peer", "name", "v1"]):
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
            return f"`ip {' '.join(words)}` is not allowed: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return None


def close_to(text, value):
    return abs(float(text) - value) <= 0.0006 + abs(value) * 0.006


def check_table(output, workload, files):
    """The table beside the JSON files, by other fields than those that it was made from."""
    rows, _ = table_of(output, workload)
    per_node = {name: next(r for r in results if r["name"] == workload) for name, results in files.items()}
    check(set(rows) == {*files, "total"}, f"rows: {rows}")
    for name, r in per_node.items():
        wire = r["wire_read_bytes_per_op"] + r["wire_write_bytes_per_op"]
        cpu = 1e6 * (r["cpu_seconds"] - r["memory_node_cpu_seconds"]) / r["ops"]
        for column, value in (("kops/s", r["ops_per_sec"] / 1e3), ("P50 us", r["p50_us"]),
                              ("P99 us", r["p99_us"]), ("wire B/op", wire),
                              ("trips/op", r["round_trips_per_op"]), ("compute CPU us/op", cpu)):
            check(close_to(rows[name][column], value), f"{name} {column}: {rows[name]}, not {value}")
        check(rows[name]["memory CPU us/op"] == "-", f"{rows}")
    ops = sum(r["ops"] for r in per_node.values())
    longest = max(r["seconds"] for r in per_node.values())
    wire = sum(r["ops"] * (r["wire_read_bytes_per_op"] + r["wire_write_bytes_per_op"])
               for r in per_node.values()) / ops
    check(close_to(rows["total"]["kops/s"], ops / longest / 1e3), f"{rows} {longest}")
    check(close_to(rows["total"]["wire B/op"], wire), f"{rows}: not {wire}")
    check(float(rows["total"]["compute CPU us/op"]) > 0, f"{rows}")
    check(float(rows["total"]["memory CPU us/op"]) >= 0, f"{rows}")


def check_bench(name, build, folder):
    with tempfile.TemporaryDirectory() as results:
        output = run("bench", f"--name={name}", f"--results={results}", *SMALL,
                     "--benchmarks=fillrandom,flush,readrandom")
        files = {}
        for node in ("c0", "c1"):
            with open(os.path.join(results, f"{node}.json"), encoding="utf-8") as file:
                files[node] = json.load(file)
            with open(os.path.join(results, f"{node}.log"), encoding="utf-8") as file:
                check("fabric: tcp" in file.read(), f"{node} does not use the network")
    for workload in ("fillrandom", "readrandom"):
        check_table(output, workload, files)
    check("\nflush\n" not in output, output)
    # What the memory nodes say by themselves; one database each, for the compute nodes are spread.
    used = {}
    for i in range(2):
        told = subprocess.run(
            ["ip", "netns", "exec", f"dlsm-{name}-m{i}", os.path.join(build, "dlsm_tool"), "nodes",
             f"--memory_nodes=10.77.0.{1 + i}", f"--secret_file={folder}/m{i}/secret"],
            capture_output=True, text=True, check=True).stdout
        used[f"m{i}"] = int(re.search(r" used (\d+)", told)[1]) / 2**20
        check(" databases 1 " in told, told)
    _, in_use = table_of(output, "readrandom")
    for node, megabytes in used.items():
        shown = float(re.search(rf"{node} ([\d.]+)", in_use)[1])
        check(megabytes > 0 and shown >= megabytes - 0.1, f"{in_use}: {node} says {megabytes}")
    # The bytes went through the nodes' links.
    links = json.loads(subprocess.run(
        ["ip", "-n", f"dlsm-{name}-c0", "-s", "-j", "link", "show", "eth0"],
        capture_output=True, text=True, check=True).stdout)
    carried = sum(links[0]["stats64"][way]["bytes"] for way in ("rx", "tx"))
    counted = sum(p["read_bytes"] + p["write_bytes"] for r in files["c0"] for p in r["wire"].values())
    check(carried > counted > 100_000, f"the link carried {carried} bytes, db_bench counted {counted}")


def check_cluster(name, build, folder):
    shape = ["--namespaces", "--memory_nodes=2", "--compute_nodes=2", "--rate=10gbit", "--memory_gb=0.25"]
    run("start", f"--name={name}", f"--build={build}", *shape, says=["is up"])
    run("start", f"--name={name}", f"--build={build}", *shape, says=["up already"])
    run("start", f"--name={name}", "--namespaces", expected=1, says=["another one"])
    up = run("status", f"--name={name}")
    check(up.count(" up: ") == 2 and up.count("reachable") == 2, up)
    check_bench(name, build, folder)
    check_interrupted_bench(name, folder)
    run("bench", f"--name={name}", "--num=0", expected=1, says=["db_bench on c", "--num=0"])
    os.kill(server_of(folder, "m1"), signal.SIGKILL)
    time.sleep(0.2)
    down = run("status", f"--name={name}", expected=1, says=["m1 10.77.0.2:19843 DOWN: its Server is not running"])
    check("m0 10.77.0.1:19843 up" in down, down)
    run("bench", f"--name={name}", expected=1, says=["m1 is down"])
    run("start", f"--name={name}", f"--build={build}", *shape, expected=1, says=["not whole"])
    run("stop", f"--name={name}", says=["is stopped"])
    check_nothing_left(name, folder, "stop")
    run("stop", f"--name={name}", says=["nothing to stop"])


def check_failed_starts(name, build, folder):
    start = ["start", f"--name={name}", f"--build={build}", "--namespaces", "--memory_nodes=2",
             "--memory_gb=0.1"]
    run(*start, "--server_flags=--merge_threads=-1", expected=1, says=["--merge_threads=-1 is not in"])
    check_nothing_left(name, folder, "a Server that does not start")
    run(*start[:2], "--build=/nonexistent", *start[3:], expected=1, says=["/nonexistent/Server", "--build"])
    check_nothing_left(name, folder, "no Server")
    taken = f"dlsm-{name}-m1"
    subprocess.run(["ip", "netns", "add", taken], check=True)
    run(*start, expected=1, says=[taken, "--name"])
    check(namespaces_of(name) == [taken], f"{namespaces_of(name)}: somebody else's must stay")
    subprocess.run(["ip", "netns", "del", taken], check=True)
    check_nothing_left(name, folder, "a name in use")
    # A kernel without netem must say so; one with it must give what was asked for.
    done = subprocess.run([CLUSTER, *start, "--delay=5ms"], capture_output=True, text=True, check=False)
    if done.returncode:
        check("no netem" in done.stderr and "--simulated_rtt_ns" in done.stderr, done.stderr)
    else:
        began = time.monotonic()
        subprocess.run(["ip", "netns", "exec", f"dlsm-{name}-c0", sys.executable, "-c",
                        "import socket; socket.create_connection(('10.77.0.1', 19843))"], check=True)
        check(time.monotonic() - began > 0.01, "no delay")
        run("stop", f"--name={name}")
    check_nothing_left(name, folder, "delay")


def check_interrupted_start(name, build, folder):
    """^C in the middle of a start leaves nothing: at whatever place it comes."""
    for seconds in (0.15, 0.25, 0.4):
        start = subprocess.Popen([CLUSTER, "start", f"--name={name}", f"--build={build}", "--namespaces",
                                  "--memory_nodes=4", "--compute_nodes=4", "--memory_gb=0.1"],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 preexec_fn=take_signals)
        time.sleep(seconds)
        start.send_signal(signal.SIGINT)
        output = start.communicate(timeout=60)[0]
        if start.returncode == 0:
            run("stop", f"--name={name}")
        # So early that it was the interpreter that was interrupted.
        unborn = "init_import_site" in output
        check(start.returncode in (0, 130, -signal.SIGINT) or unborn, f"{start.returncode}: {output}")
        check_nothing_left(name, folder, f"^C after {seconds} s")


def check_matrix(name, build, folder):
    with tempfile.TemporaryDirectory() as results:
        output = run("matrix", f"--name={name}", f"--build={build}", "--namespaces", "--memory_nodes=1",
                     "--compute_nodes=1,2", "--memory_gb=0.25", f"--results={results}", *SMALL,
                     says=["fillrandom", "readrandom", "1 x 1", "1 x 2"])
        check(sorted(os.listdir(results)) == ["1x1-1", "1x2-1"], f"{os.listdir(results)}")
    check("flush" not in output, output)
    check_nothing_left(name, folder, "matrix")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    reason = why_no_namespaces(build)
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    name = f"test-{os.getpid()}"
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["TMPDIR"] = temporary
        folder = os.path.join(temporary, f"dlsm-cluster-{os.getuid()}", name)
        try:
            check_cluster(name, build, folder)
            check_failed_starts(name, build, folder)
            check_interrupted_start(name, build, folder)
            check_matrix(name, build, folder)
        finally:
            subprocess.run([CLUSTER, "stop", f"--name={name}"], capture_output=True, check=False)
    print("a cluster in namespaces starts, measures, fails and ends as it should")


if __name__ == "__main__":
    run_test(main)
