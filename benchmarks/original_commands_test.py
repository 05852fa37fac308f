#!/usr/bin/env python3
"""Runs the commands that README.md of the original dLSM names, as they stand there, with less data.

original_commands_test.py SOURCE DB_BENCH SERVER DLSM_TOOL                 all
original_commands_test.py SOURCE DB_BENCH ADDRESS DLSM_TOOL --node         with the memory node there
"""

import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

SOURCE = os.path.realpath(sys.argv[1]) if len(sys.argv) > 1 else ""
sys.path.insert(0, os.path.join(SOURCE, "script"))

from bench_lib.checks import check, check_equal, run_test  # noqa: E402

LINE = ("--benchmarks=fillrandom,readrandom,readrandom,readrandomwriterandom --threads=16 --value_size=400 "
        "--num=1000 --bloom_bits=10 --readwritepercent=5 --compute_node_id=0 "
        "--fixed_compute_shards_num=0").split()


def run(words, folder, expected=0):
    """Standard output and standard error of a command in a folder."""
    done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=100, check=False)
    check(done.returncode == expected, f"{words}: exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def check_configure(folder):
    """Fails if the line for cmake, with make, warns of something, or if make does not know the targets."""
    build = os.path.join(folder, "configured")
    os.mkdir(build)
    _, errors = run(["cmake", "-G", "Unix Makefiles", "-DWITH_GFLAGS=1", "-DCMAKE_BUILD_TYPE=Release",
                     SOURCE], build)
    check("warning" not in errors.lower(), errors)
    targets, _ = run(["make", "help"], build)
    for target in ("Server", "db_bench"):
        check(f"... {target}\n" in targets, targets)


def check_line(program, node, folder):
    """Fails if db_bench does not take its nodes from connection.conf in the folder above, or does something
    else than it is told."""
    build = os.path.join(folder, "build")
    os.mkdir(build)
    with open(os.path.join(folder, "connection.conf"), "w", encoding="utf-8") as file:
        file.write(f"127.0.0.1\n{node}")
    path = os.path.join(folder, "results.json")
    output, errors = run([program, *LINE, "--progress=false", f"--json={path}"], build)
    check("db_bench: takes the nodes from ../connection.conf\n" in errors, errors)
    check("tables: in the memory of the memory nodes" in output and "shards" not in output, output)
    with open(path, encoding="utf-8") as file:
        results = json.load(file)
    check_equal([each["name"] for each in results],
                ["fillrandom", "readrandom", "readrandom", "readrandomwriterandom"])
    for each in results:
        check_equal(each["ops"], 16 * 1000)
    # Of the first workloads all operations are reads, of the last one in twenty; nearly all find their key.
    check(results[1]["found"] > 15000, f"{results[1]}")
    check(400 < results[3]["found"] < 1200, f"{results[3]}")


def check_choice(program, tool, node, folder):
    """Fails if a program looks elsewhere than it says, or looks although it was told."""
    build = os.path.join(folder, "build")
    short = ["--benchmarks=fillseq", "--num=10", "--progress=false"]
    empty = os.path.join(folder, "deep", "down")
    os.makedirs(empty)
    _, errors = run([program, *short, "--compute_node_id=0"], empty)
    check("no connection.conf" in errors, errors)
    # Nobody listens there.
    for place in (build, folder):
        with open(os.path.join(place, "connection.conf"), "w", encoding="utf-8") as file:
            file.write("127.0.0.1\n127.0.0.1:1\n")
    for flags in ([f"--memory_nodes={node}", "--compute_node_id=0"], []):
        _, errors = run([program, *short, *flags], build)
        check("connection.conf" not in errors, errors)
    with open(os.path.join(build, "connection.conf"), "w", encoding="utf-8") as file:
        file.write(f"127.0.0.1\n{node}\n")
    _, errors = run([program, *short, "--compute_node_id=0"], build)
    check("db_bench: takes the nodes from connection.conf\n" in errors, errors)
    output, errors = run([tool, "--compute_node_id=0", "nodes"], build)
    check("dlsm_tool: takes the nodes from connection.conf\n" in errors, errors)
    check(node in output, output)


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    program, server, tool = map(os.path.abspath, sys.argv[2:5])
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) == 6:
            node = sys.argv[3]
            check_line(program, node, folder)
            check_choice(program, tool, node, folder)
            return
        check_configure(folder)
    subprocess.run([os.path.join(SOURCE, "script/with-server"), server, "0.25", sys.executable, __file__,
                    SOURCE, program, "@NODE@", tool, "--node"], check=True)
    print("the commands of the original do what they did")


if __name__ == "__main__":
    run_test(main)
