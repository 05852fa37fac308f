#!/usr/bin/env python3
"""Tests script/bench, what it starts and how large; which flags of db_bench are not the user's where a script
has its own; that scripts end what they run; and when script/test tests again. Without a build."""

import fcntl
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from bench_lib import db_bench_flags, server_size  # noqa: E402
from bench_lib.checks import check, check_equal, load_script, run_test, take_signals  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))


def check_flags():
    """Fails if a way to give a flag that gflags takes is not seen."""
    for words in (["--num=7"], ["-num=7"], ["--num", "7"], ["-num", "7"], ["--num=1", "--reads=2", "--num=7"],
                  ["--threads", "2", "--num", "7"]):
        check_equal(db_bench_flags.value(words, "num"), "7")
    for words in ([], ["--number=7"], ["num=7"], ["--reads", "num"]):
        check_equal(db_bench_flags.value(words, "num", "5"), "5")
    check_equal(db_bench_flags.value(["--key-size=3"], "key_size"), "3")


def check_sizes():
    """Fails if a Server is started with more than there is room for, or with less than its data takes where
    there is enough; or if shared memory is not given up, or given up without a word, where it has none."""
    choose = load_script("server-size").choose
    large = server_size.Room(24, 12, 0)
    unknown = server_size.Room(0, 100, 0)

    def chosen(flags, room, given=0):
        size, notes = choose(["--num=1000000", "--key_size=20", "--value_size=400", *flags], given, room)
        return round(size.gigabytes, 1), size.fabric, "\n".join(notes)

    check_equal(chosen([], large), (2, "shm", ""))
    check_equal(chosen(["--num", "5000000"], large), (8.1, "shm", ""))
    check_equal(chosen(["--num=5000000", "--value_size=100", "--key_size=16"], large), (2.5, "shm", ""))
    check_equal(chosen(["--num=10000000"], large), (10.8, "shm", ""))
    check_equal(chosen(["--num=20000000"], unknown), (32.5, "shm", ""))
    # A virtual machine of 4 GB has half of it for /dev/shm; a container has 64 MB.
    check_equal(chosen([], server_size.Room(3.9, 1.95, 0)), (1.8, "shm", ""))
    container = server_size.Room(16, 0.0625, 0.01)
    gigabytes, fabric, note = chosen([], container)
    check_equal((gigabytes, fabric), (2, "tcp"))
    for text in ("tcp", "/dev/shm", "0.1 GB", "--shm-size=3g", "remount,size=3G"):
        check(text in note, f"no {text!r} in {note!r}")
    check_equal(chosen(["--fabric=tcp"], container), (2, "tcp", ""))
    check_equal(chosen(["--fabric", "verbs"], container), (2, "verbs", ""))
    gigabytes, fabric, note = chosen(["--fabric=shm"], container)
    check(fabric == "shm" and "--shm-size" in note, f"who wants shm is not told what it needs: {note}")
    check_equal(chosen([], large, given=5)[:2], (5, "shm"))
    check_equal(chosen([], container, given=5)[:2], (5, "tcp"))
    gigabytes, fabric, note = chosen(["--num=100000000"], large)
    check_equal((gigabytes, fabric), (16.8, "tcp"))
    for text in ("/dev/shm has room for 12.0 GB", "size=19G", "\nthe machine or container has 24.0 GB of"):
        check(text in note, f"no {text!r} in {note!r}")
    check_equal(server_size.text(1.999), "1.99")


def check_stale_files():
    """Fails if what a killed memory node has left in /dev/shm counts as taken, so that a measurement is refused
    for want of room; or if anything else is removed."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("dlsm-node1-1-dead", "dlsm-node1-2-alive", "another", "dlsm-folder")
        stale, alive, another, below = (pathlib.Path(folder, name) for name in names)
        for path in (stale, alive, another):
            path.write_bytes(b"bytes")
        below.mkdir()
        with open(alive, "rb") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            server_size.remove_stale_files(folder)
            check_equal(sorted(os.listdir(folder)), sorted(path.name for path in (alive, another, below)))
        server_size.remove_stale_files(folder)
        check_equal(sorted(os.listdir(folder)), sorted(path.name for path in (another, below)))


def check_limits():
    """Fails if a Server is started with more than its control groups allow: it would refuse that."""
    with tempfile.TemporaryDirectory() as folder:
        root = folder + "/"

        def write(path, text):
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            with open(root + path, "w", encoding="utf-8") as file:
                file.write(text)

        check_equal(server_size.allowed_gigabytes(root), math.inf)
        write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/v1\n0::/inner/most\n")
        write("sys/fs/cgroup/inner/most/memory.max", "max\n")
        check_equal(server_size.allowed_gigabytes(root), math.inf)
        write("sys/fs/cgroup/inner/memory.max", f"{8 << 30}\n")
        check_equal(server_size.allowed_gigabytes(root), 8)
        write("sys/fs/cgroup/inner/most/memory.high", f"{6 << 30}\n")
        check_equal(server_size.allowed_gigabytes(root), 6)
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{3 << 29}\n")
        check_equal(server_size.allowed_gigabytes(root), 1.5)


# They say what they were called with.
STAND_INS = {
    "bin/cmake": 'echo "cmake $*" >>"$CALLS"',
    "build/release/Server": 'echo "Server $*" >>"$CALLS"; echo "x ready on y"; exec sleep 60 >/dev/null',
    "build/release/db_bench": 'echo "db_bench $*" >>"$CALLS"; exit 7',
}


def make_programs(folder, scripts):
    for path, script in scripts.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o700)


def run_bench(tree, flags, **environment):
    """script/bench in a tree of stand-ins, which keep in the file `calls` what they are called with."""
    path = os.path.join(tree, "bin") + ":" + os.environ["PATH"]
    return subprocess.run([os.path.join(tree, "script/bench"), *flags], capture_output=True, text=True,
                          timeout=60, check=False,
                          env={**os.environ, "PATH": path, "CALLS": os.path.join(tree, "calls"),
                               "DLSM_SKIP_INSTALL": "1", **environment})


def calls_of_bench(tree, flags, **environment):
    """What script/bench calls in a tree of stand-ins; the arguments by program."""
    calls = os.path.join(tree, "calls")
    done = run_bench(tree, flags, **environment)
    check(done.returncode == 7, f"not the exit code of db_bench: {done}")
    with open(calls, encoding="utf-8") as file:
        lines = [line.split() for line in file]
    os.remove(calls)
    return {words[0]: words[1:] for words in lines}


def check_bench():
    """Fails if who asks how to use it has packages installed, programs built and a Server started; if the
    Server does not serve the fabric that db_bench is to use, gets another size than the data's, or does not
    obey DLSM_SERVER_FLAGS; or if a program is not built that is installed or that script/cluster needs."""
    with tempfile.TemporaryDirectory() as tree:
        shutil.copytree(HERE, os.path.join(tree, "script"))
        make_programs(tree, STAND_INS)
        told = run_bench(tree, ["--help"])
        check(told.returncode == 0 and "DLSM_SERVER_GB" in told.stdout, f"{told}")
        check(not os.path.exists(os.path.join(tree, "calls")), "who asks for help has something built")
        calls = calls_of_bench(tree, ["--fabric", "tcp", "--num", "100", "--seed=3"])
        for program in ("Server", "db_bench", "dlsm_tool"):
            check(program in calls["cmake"], f"{program} is not built: {calls['cmake']}")
        for num in (100, 1_700_000):
            expected = server_size.for_data(num, (20, 400), "tcp").gigabytes
            found = calls_of_bench(tree, ["--fabric=tcp", "-num", str(num)])["Server"][1]
            check_equal(found, server_size.text(expected))
        check("--fabric=tcp" in calls["Server"], f"{calls}")
        check_equal(calls["db_bench"][-5:], ["--fabric", "tcp", "--num", "100", "--seed=3"])
        calls = calls_of_bench(tree, [], DLSM_SERVER_GB="1.5", DLSM_SERVER_FLAGS="--tls --fabric=verbs")
        check_equal(calls["Server"][1], "1.5")
        check_equal(calls["Server"][-2:], ["--tls", "--fabric=verbs"])
        check_equal(calls["db_bench"][-1].partition("=")[0], "--benchmarks")
        check("--fabric=shm" in calls["db_bench"] or "--fabric=tcp" in calls["db_bench"], f"{calls}")


# What the first run of ctest does; every other one is a good one.
CTEST = """
case $* in *--rerun-failed*) exit 0;; esac
folder=build/release/Testing/Temporary
mkdir -p $folder
echo "1/1 Test: some" >$folder/LastTest.log
%s
"""


def check_second_try():
    """Fails if script/test takes a run of ctest for a good one that was killed, because what had failed the
    time before passes; or if it does not test again what has failed this time."""
    for first, before, expected in (("kill -KILL $$", True, 1), ("kill -KILL $$", False, 1),
                                    ("echo 1:some >$folder/LastTestsFailed.log; exit 8", False, 0)):
        with tempfile.TemporaryDirectory() as tree:
            shutil.copytree(HERE, os.path.join(tree, "script"))
            make_programs(tree, {"bin/cmake": "", "bin/ctest": CTEST % first})
            if before:
                make_programs(tree, {"build/release/Testing/Temporary/LastTestsFailed.log": "1:other"})
            path = os.path.join(tree, "bin") + ":" + os.environ["PATH"]
            done = subprocess.run([os.path.join(tree, "script/test"), "--only=release"], capture_output=True,
                                  text=True, timeout=60, check=False,
                                  env={**os.environ, "PATH": path, "DLSM_SKIP_INSTALL": "1"})
            check(done.returncode == expected, f"{first}: {done}")
            again = "passed only when run again: some" in done.stdout
            check(again == (expected == 0), f"{first}: {done}")


def check_own_flags():
    """Fails if a flag that a script sets itself is taken, so that figures stand under wrong headings, or if
    another one is refused."""
    there = ["--memory_node=x:1"]
    no_build = "--build=/nonexistent"  # Where a flag is taken, nothing is measured.
    for words, wrong, instead in (
            (["compare", "--", "--threads=4"], "--threads=4", "--threads of this script"),
            (["compare", "--", "--value_size", "4"], "--value_size", "--sizes of this script"),
            (["compare", "--", "-engine=leveldb"], "-engine=leveldb", "--setups of this script"),
            (["compare", "--", "--sync", "--json=x"], "--json=x", "--output of this script"),
            (["compare", "--", "--memory-nodes=x"], "--memory-nodes=x", "leave it out"),
            (["merge-places", "--", "--num=9"], "--num=9", "--keys of this script"),
            (["merge-places", "--", "--compaction_place=auto"], "--compaction_place=auto", "leave it out"),
            (["wire-costs", *there, "--", "--reads=9"], "--reads=9", "--reads of this script"),
            (["wire-costs", *there, "--", "--threads=2"], "--threads=2", "leave it out"),
            (["wire-costs", *there, "--", "--writes=2"], "--writes=2", "--keys of this script"),
            (["wire-costs", *there, "--", "--duration=2"], "--duration=2", "leave it out"),
            (["compare", "--", "--duration=2"], "--duration=2", "--operations of this script"),
            (["compare-stalls", "--", "--compaction_style=tiered"], "--compaction_style", "--styles of"),
            (["compare-stalls", "--", "--benchmarks=fillrandom"], "--benchmarks", "leave it out"),
            (["shard-scaling", "--", "--fixed_compute_shards_num=4"], "--fixed_compute_shards_num=4",
             "--shards of"),
            (["shard-scaling", "--", "--shard_boundaries=m"], "--shard_boundaries=m", "--shards of"),
            (["shard-scaling", "--", "--readwritepercent=5"], "--readwritepercent=5", "--reads of")):
        done = subprocess.run([os.path.join(HERE, words[0]), no_build, *words[1:]], capture_output=True,
                              text=True, timeout=60, check=False)
        check(done.returncode == 2 and f"{wrong}" in done.stderr and instead in done.stderr, f"{done}")
    for words in (["compare", "--parts=redis"], ["merge-places", "--runs=1"], ["wire-costs", *there],
                  ["compare-stalls"], ["shard-scaling", "--runs=1"]):
        done = subprocess.run([os.path.join(HERE, words[0]), *words[1:], no_build, "--", "--seed=7",
                               "--verify_checksums", "--write_buffer_size", "9"],
                              capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode == 1, f"{done}")


def check_wrong_values():
    """Fails if a wrong value or a missing program is answered by Python's words, or only after something was
    measured."""
    there = ["--memory_node=x:1"]
    for words, wrong in (
            (["merge-places", "--runs=0"], "--runs: '0' is no number from 1 on"),
            (["merge-places", "--seconds=soon"], "--seconds: 'soon'"),
            (["shard-scaling", "--runs=-1"], "--runs: '-1'"), (["shard-scaling", "--keys=0"], "--keys: '0'"),
            (["compare-stalls", "--runs=0"], "--runs: '0'"), (["compare-stalls", "--num=0"], "--num: '0'"),
            (["wire-costs", *there, "--reads=0"], "--reads: '0'"),
            (["wire-costs", *there, "--keys=0"], "--keys: '0'")):
        done = subprocess.run([os.path.join(HERE, words[0]), *words[1:]], capture_output=True, text=True,
                              timeout=60, check=False)
        check(done.returncode == 2 and wrong in done.stderr, f"{done}")
    for words, name in ((["merge-places"], "Server"), (["shard-scaling"], "Server"),
                        (["compare-stalls"], "db_bench"), (["wire-costs", *there], "db_bench")):
        done = subprocess.run([os.path.join(HERE, words[0]), *words[1:], "--build=/nonexistent"],
                              capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode == 1 and f"{words[0]}: no {name} in /nonexistent: script/bench builds it" in
              done.stderr and "Traceback" not in done.stderr, f"{done}")
    with tempfile.TemporaryDirectory() as folder:
        make_programs(folder, {"db_bench": "echo it is measured >&2; exit 7"})
        done = subprocess.run([os.path.join(HERE, "compare-stalls"), f"--build={folder}",
                               "--json=/nonexistent/x.json"], capture_output=True, text=True, timeout=60,
                              check=False)
        check(done.returncode == 1 and "cannot write /nonexistent/x.json" in done.stderr and
              "--json names another" in done.stderr and "measured" not in done.stderr, f"{done}")


# Each workload has cost four work requests more when db_bench prints its counters again.
COUNTING_DB_BENCH = """
i=0
while [ $i -lt 28 ]; do
  printf 'stats  1\\nread 0 %d 0 0 0\\nflush 0 0 0 0 0\\ncompaction 0 0 0 0 0\\n' $i
  printf 'dlsm.flushes  %d\\ndlsm.flush.bytes  %d\\n' $((i / 4)) $((i << 20))
  i=$((i + 4))
done
"""


def check_wire_costs():
    """Fails if the cost of an operation is divided by another number of operations than there were: db_bench
    gets whole batches only."""
    with tempfile.TemporaryDirectory() as folder:
        make_programs(folder, {"db_bench": COUNTING_DB_BENCH})
        done = subprocess.run([os.path.join(HERE, "wire-costs"), "--memory_node=x:1", f"--build={folder}",
                               "--keys=200", "--reads=100"], capture_output=True, text=True, timeout=60,
                              check=False)
    check(done.returncode == 0, f"{done}")
    found = {line.split("|")[1].strip(): float(line.split("|")[2]) for line in
             done.stdout.splitlines() if line.startswith("| ") and "operation" not in line}
    check_equal(found, {"Put, amortised": 0.02, "Get that finds": 0.04, "Get that misses": 0.04,
                        "MultiGet of 32": 1, "scan of 100": 0.04, "flush of a memtable (4 MB)": 4,
                        "merge of 1 tables (4 MB)": 4})


# They take a while to end, as do programs with much memory.
SLOW = 'trap \'sleep 0.6; echo >"$TMPDIR/ended-$name"; exit 1\' INT TERM; while :; do sleep 0.1; done'
SLOW_STAND_INS = {
    "Server": f"name=Server; echo 'x ready on y'; {SLOW}",
    "db_bench": f"name=db_bench; echo >$TMPDIR/begun; {SLOW}",
}


def check_ends():
    """Fails if a script ends before what it runs has ended, be it that its terminal is sent a ^C or it alone
    a signal, once or again: a store that is killed leaves its folder, and so does a Server whose with-server
    is."""
    for words in (["merge-places", "--runs=1"], ["shard-scaling", "--runs=1"], ["compare-stalls", "--runs=1"],
                  ["wire-costs", "--memory_node=x:1"]):
        for number, send in ((signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)):
            with tempfile.TemporaryDirectory() as folder:
                make_programs(folder, SLOW_STAND_INS)
                process = subprocess.Popen(
                    [os.path.join(HERE, words[0]), *words[1:], f"--build={folder}"], text=True,
                    env={**os.environ, "TMPDIR": folder}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    start_new_session=True, preexec_fn=take_signals)
                while not os.path.exists(os.path.join(folder, "begun")):
                    check(process.poll() is None, f"{words}: db_bench was not started")
                    time.sleep(0.05)
                time.sleep(0.3)  # What has begun may be faster than who has started it.
                send(process.pid, number)
                time.sleep(0.2)  # Less than what runs takes to end.
                send(process.pid, number)
                process.wait(timeout=30)
                found = set(os.listdir(folder))  # What it runs may still write to its output.
                output = process.communicate(timeout=30)[0]
                what = f"{words}, {number.name}: {output}"
                check(process.returncode == 128 + number and "Traceback" not in output, what)
                expected = {"db_bench", "Server", "begun", "ended-db_bench"}
                if words[0] in ("merge-places", "shard-scaling"):
                    expected.add("ended-Server")
                check(found == expected, f"{found}: {what}")


def main():
    check_flags()
    check_ends()
    check_own_flags()
    check_wrong_values()
    check_wire_costs()
    check_sizes()
    check_stale_files()
    check_limits()
    check_bench()
    check_second_try()
    print("Servers get what there is, scripts their own flags, and nothing outlives them")


if __name__ == "__main__":
    run_test(main, limit=280)
