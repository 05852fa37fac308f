#!/usr/bin/env python3
"""Tests script/compare.

    compare_test.py figures       its sums, verdicts, tables and arguments; needs no build
    compare_test.py quick BUILD   a comparison with little data, of what is installed
"""

import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from unittest import mock

sys.dont_write_bytecode = True

from bench_lib import server_size  # noqa: E402
from bench_lib.checks import (  # noqa: E402
    Wrong, check, check_equal, ignore_hang_up, load_script, run_test, take_signals)
from compare_lib import chart, engines, figures, output, redis, remote, remote_rows, report  # noqa: E402
from compare_lib import rows, running  # noqa: E402

COMPARE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "compare")


def check_refused(call, text):
    try:
        call()
    except running.Failure as failure:
        check(text in str(failure), f"{failure}: does not say {text!r}")
    else:
        raise Wrong(f"taken, but should be refused with {text!r}")


# --- Without a build --------------------------------------------------------------------------------

def check_comparison():
    """Fails if one lucky run chooses the best peer, ratios are not of medians, or a target that is
    just reached counts as missed."""
    ours = {1: 60, 2: 63, 3: 84}
    peers = {"lucky": {1: 10, 2: 500, 3: 12}, "steady": {1: 20, 2: 21, 3: 22}, "absent": {}}
    found = figures.compare(ours, peers, 3)
    check_equal((found.best_peer, found.ours, found.ratio), ("steady", 63, 3))
    check_equal(found.medians, {"lucky": 12, "steady": 21})
    check_equal((found.lowest, round(found.highest, 3)), (3, round(84 / 22, 3)))
    check_equal(found.met, True)
    check_equal(figures.compare(ours, peers, 3.01).met, False)
    check_equal(figures.compare(ours, peers, None).met, None)
    for nothing in (figures.compare({}, peers, 3), figures.compare(ours, {}, 3),
                    figures.compare(ours, {"still": {1: 0}}, 3)):
        check_equal((nothing.ratio, nothing.lowest, nothing.met), (None, None, None))
    check_equal([figures.verdict(met) for met in (True, False, None)], ["yes", "**no**", "-"])
    check_equal(figures.half_spread([8, 10, 14]), 0.3)
    check_equal((figures.half_spread([5]), figures.half_spread([])), (None, None))


def result(setup, benchmark, ops_per_sec, run=1, threads=2, size=(20, 400), **fields):
    ops = 1000
    return {"setup": setup, "benchmark": benchmark, "run": run, "threads": threads,
            "size": list(size), "ops": ops, "ops_per_sec": ops_per_sec,
            "seconds_to_quiet": 2 * ops / ops_per_sec, "cpu_seconds": 0.0015, "p50_us": 1,
            "p99_us": 2, "p999_us": 50, "found": 1, "misses": 0, "round_trips_per_op": 1,
            "wire_read_bytes_per_op": 440, "wire_write_bytes_per_op": 430, "write_amplification": 2,
            "index_bytes_per_key": None, "peak_rss_bytes": 1 << 20, **fields}


def check_selection():
    """Fails if results of another size, thread count, set-up or benchmark are mixed in, or what is
    unknown counts as a figure."""
    results = figures.Results([
        result("leveldb", "readseq", 10), result("leveldb", "readseq", 30, run=2),
        result("leveldb", "readseq", 99, threads=1), result("leveldb", "readseq", 99, size=(16, 100)),
        result("rocksdb", "readseq", 99), result("leveldb", "readrandom", 99)])
    where = ((20, 400), 2, "leveldb", "readseq")
    check_equal(results.by_run(*where, rows.ops_per_second), {1: 10, 2: 30})
    check_equal(results.median(*where, rows.ops_per_second), 20)
    check_equal(results.median(*where, rows.ops_to_quiet), 10)
    check_equal(results.median(*where, lambda r: r["index_bytes_per_key"]), None)
    check_equal(rows.ops_to_quiet({"ops": 1, "seconds_to_quiet": 0}), None)


def check_targets():
    """Fails if a target is another than what dLSM is built for."""
    found = {row.label.split(",")[0] + row.label[-9:] * row.label.startswith("readrandomw"):
             [row.target(size, threads) for size in ((20, 400), (16, 100)) for threads in (1, 2)]
             for row in rows.ROWS if row.targets}
    small = [2.5, 2.5]
    check_equal(found, {
        "fillrandom": [4, 3] + small, "overwrite": [4, 3] + small, "readrandom": [2.5, 2.5] + small,
        "readmissing": [3, 3] + small, "readseq": [2, 2] + small, "seekrandom": [2.5, 2.5] + small,
        "readrandomwriterandom95% reads": [3, 2.5] + small,
        "readrandomwriterandom50% reads": [4, 3] + small})
    check_equal([row.target((20, 400), 4) for row in rows.ROWS], [None] * len(rows.ROWS))
    check_equal([row.target for row in remote_rows.ROWS], [5, 5, 3] * 2)


def check_names():
    """Fails if a row is measured with other settings than it says."""
    names = dict(zip(rows.BENCHMARKS, rows.db_bench_names(4_000_000, 1_000_000, 2)))
    check_equal(names["seekrandom"], "seekrandom:seek_nexts=100:reads=10000")
    check_equal(names["reads95"], "readrandomwriterandom:readwritepercent=95")
    check_equal(names["fillrandom"], "fillrandom:writes=2000000")
    check_equal({row.benchmark for row in rows.ROWS} - set(names), set())
    check_equal([way.db_bench_name(1000) for way in remote_rows.ROWS[2].ways],
                ["multireadrandom:threads=50:batch_size=16:reads=10",
                 "multireadrandom:threads=2:batch_size=16:reads=250",
                 "multireadrandom:threads=1:batch_size=16:reads=500",
                 "multireadrandom:threads=2:batch_size=400:reads=250",
                 "pipelinedreadrandom:threads=2:batch_size=400:reads=250"])
    check_equal(remote_rows.ROWS[3].ways[0].db_bench_name(1000), "overwrite:threads=1:writes=1000")
    check_equal([row.redis_operations(8000) for row in remote_rows.ROWS[:3]], [800, 2000, 8000])
    labels = [way.label for way in remote_rows.WAYS]
    check_equal(len(labels), len(set(labels)))


class Arguments:
    num, operations, redis_keys, runs = 1000, 1000, 100, 1
    setups, threads, sizes, flags = ["dlsm_shm", "rocksdb", "leveldb"], [2], [(20, 400)], []


ABOUT = report.About("2 x fast", "abcdef-dirty",
                     {"db_bench": {"sha256": "0123456789abcdef", "modified": "now"}})


def check_report():
    """Fails if a table misses a figure or a verdict, or the list of what is not met one of them."""
    speeds = {"dlsm_shm": 300_000, "rocksdb": 100_000, "leveldb": 50_000}
    measured = [result(setup, benchmark, speed) for setup, speed in speeds.items()
                for benchmark in rows.BENCHMARKS]
    medians = remote.Medians(
        [{"row": row.label, "run": 1, "ops_per_sec": 10_000, "p50_us": 9, "p99_us": 10,
          "wire_bytes_per_op": 500, "client_cpu_us_per_op": 3, "server_cpu_us_per_op": 4}
         for row in remote_rows.ROWS] +
        [{"way": way.label, "run": 1, "ops_per_sec": 40_000, "ops_per_sec_to_quiet": 20_000,
          "p50_us": 1, "p99_us": 2, "wire_bytes_per_op": 480, "client_cpu_us_per_op": 1,
          "server_cpu_us_per_op": 2} for way in remote_rows.WAYS])
    text = report.markdown(figures.Results(measured), medians, Arguments, ["a note"], ABOUT)
    for line in ("| fillrandom | 300k | 100k | 50.0k | rocksdb | **3.00x** | 3x | yes |",
                 "| fillrandom, load to quiet | 150k | 50.0k | 25.0k | rocksdb | **3.00x** | - | - |",
                 "| P99.9 µs of a put | 20 B/400 B | 2 | 50.00 | 50.00 | 50.00 | ≤ 50 | yes |",
                 "| GET, one synchronous client | Get by 1 thread | 10.0k | 40.0k | **4.00x** | 5x | "
                 "**no** | - |",
                 "| SET, 50 clients with 16 pipelined each | WriteBatch of 16 by 2 threads | 10.0k | "
                 "40.0k | **4.00x** | 3x | yes | 2.00x |", "\na note\n"):
        check(line in text, f"no line {line!r} in\n{text}")
    check("\n2 x fast. Scripts of revision abcdef-dirty; db_bench 0123456789ab (SHA-256) of now. Runs: 1, "
          in text, text)
    # Eight rows of engines, two limits, and what stands beside Redis: six ways to get and four to
    # put reach too little.
    check("Targets met: 18 of 28. Not met:\n\n* GET, one sync" in text, text)
    check_equal(text.count("\n* "), 10)
    measured[0].update(cpu_seconds=0.0016, ops_per_sec=299_999)
    text = report.markdown(figures.Results(measured), remote.Medians([]), Arguments, [], ABOUT)
    check("Targets met: 8 of 10. Not met:\n\n* fillrandom, 20 B/400 B, 2 threads: 3.00x rocksdb, target "
          "3x\n* CPU" in text, text)
    text = report.markdown(figures.Results([]), remote.Medians([]), Arguments, [], ABOUT)
    check("Targets met: 0 of 0.\n" in text, text)


def check_wire_bytes():
    """Fails if a purpose or the frames are left out: Redis counts its protocol in."""
    purpose = {"read_bytes": 4000, "write_bytes": 0, "work_requests": 10}
    found = remote.of_way(remote_rows.WAYS[0], {
        "ops": 10, "ops_per_sec": 5, "seconds_to_quiet": 4, "p50_us": 1, "p99_us": 2, "cpu_seconds": 3e-5,
        "memory_node_cpu_seconds": 1e-5,
        "wire": {"read": purpose, "flush": {**purpose, "read_bytes": 0, "write_bytes": 800}}}, 3)
    check_equal(found["wire_bytes_per_op"], 400 + 80 + 2 * 60)
    check_equal((round(found["client_cpu_us_per_op"], 6), found["server_cpu_us_per_op"]), (2, 1))
    check_equal((found["ops_per_sec_to_quiet"], found["way"], found["run"]),
                (2.5, "Get by 1 thread", 3))


def check_redis_parts():
    """Fails if a column of redis-benchmark's is taken for another, or garbage for figures."""
    heading = ('"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",'
               '"p99_latency_ms","max_latency_ms"\n')
    line = '"GET k","12345.50","0.111","0.222","0.333","0.444","0.555","0.666"\n'
    found = redis.parse_csv("WARNING: Could not fetch server CONFIG\n" + heading + line)
    check_equal({k: round(v, 6) for k, v in found.items()},
                {"ops_per_sec": 12345.5, "p50_us": 333, "p99_us": 555})
    for text in ("", heading, heading + 2 * line, heading + line.replace("12345.50", "fast")):
        check_refused(lambda text=text: redis.parse_csv(text), "redis-benchmark")
    check_equal(redis.encode("SET", "k", "vv"), b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n")
    check_equal(len(redis.key_prefix()) + redis.DIGITS, 20)


def check_chart():
    """Fails if a bar stands at another label or height than its ratio, or an unknown one is drawn."""
    script = chart.script_text("title", ["a", "b's"], {"x": [(2, 3), (None, None)],
                                                       "y": [(4, None), (5, 6)]})
    width = 1 / (2 + chart.GAP)
    for text in (f"$bars0 << EOD\n{-width / 2:.4f} 2.0000\nEOD\n",
                 f"$bars1 << EOD\n{width / 2:.4f} 4.0000\n{1 + width / 2:.4f} 5.0000\nEOD\n",
                 f"$marks1 << EOD\n{1 + width / 2:.4f} 6.0000 {width / 2:.4f}\nEOD\n",
                 "'a' 0, 'b''s' 1"):
        check(text in script, f"no {text!r} in\n{script}")
    check_equal(chart.script_text("title", ["a"], {"x": [(None, 2)]}) is None, False)
    check_equal(chart.script_text("title", ["a"], {"x": [(None, None)]}), None)


def check_memory():
    """Fails if the Server of a set-up is not of the fabric that it measures, or less than half of what its
    data wants is taken for enough."""
    room = server_size.Room(16, 7, 0.5)
    check_equal(running.server_size_for(5_000_000, (20, 400), "shm", room).gigabytes, 0.9 * 7)
    check_refused(lambda: running.server_size_for(10_000_000, (20, 400), "shm", room),
                  "/dev/shm has room for 7.0 GB, a Server of 16.2 GB is wanted")
    check_equal(running.server_size_for(10_000_000, (20, 400), "tcp", room).gigabytes, 0.7 * 16)
    check_refused(lambda: running.server_size_for(20_000_000, (20, 400), "tcp", room), "fewer keys")
    os.environ["DLSM_SERVER_FLAGS"] = "--fabric=verbs --tcp_poll_us=0"
    running.program = lambda build, name: f"{build}/{name}"
    for fabric in ("shm", "tcp"):
        size = server_size.Size(1.239, 1, fabric, room)
        words = running.beside_server("build", size, ["db_bench"])
        check_equal(words[:2], ["env", f"DLSM_SERVER_FLAGS=--fabric=verbs --tcp_poll_us=0 --fabric={fabric}"])
        check_equal(words[3:], ["build/Server", "1.23", "db_bench", "--memory_nodes=@NODE@",
                                f"--fabric={fabric}"])
    del os.environ["DLSM_SERVER_FLAGS"]


def check_room_first():
    """Fails if it is found out after hours that a Server has no room."""
    def measure(*_):
        raise Wrong("something is measured before it is known whether there is room for all")

    for parts in ("engines", "redis", "engines,redis"):
        words = ["compare", "--quick", "--setups=dlsm_shm", f"--parts={parts}"]
        words += [f"--{'num' if parts == 'engines' else 'redis_keys'}=1000000000000"]
        with mock.patch.object(sys, "argv", words), mock.patch.object(engines, "measure", measure), \
                mock.patch.object(remote, "measure", measure), \
                mock.patch.object(redis, "missing_program", lambda: None), \
                mock.patch.object(running, "engines_built_in", lambda _: ["dlsm"]):
            check_refused(load_script("compare").main, "fewer keys")


def check_peers_room():
    """Fails if it is found out after hours that a peer has no room for its files, or if one is refused that
    has."""
    compare = load_script("compare")

    def check_room(free, *words, folder="/dev/shm"):
        arguments = compare.parse_arguments(["--num=5000000", "--sizes=16/100,20/400", *words])
        with mock.patch.object(engines, "scratch_space", lambda: (folder, free, 0.5)):
            engines.check_room(arguments)

    for peer in rows.PEERS:
        check_room(4.1, f"--setups={peer}")
        check_refused(lambda peer=peer: check_room(4.0, f"--setups={peer}"),
                      "/dev/shm has room for 4.0 GB, the files of the peers may take 4.1 GB: give it more (a "
                      "container: docker run --shm-size=5g")
    check_refused(lambda: check_room(1, "--setups=leveldb", folder="/tmp"), "/tmp has room for 1.0 GB")
    check_room(1, "--setups=leveldb", "--", "--db=/another/folder")
    check_room(1, "--setups=dlsm_embedded")


def contents(folder):
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            found[name] = file.read()
    return found


def run_cut_short(folder, good):
    """A comparison in which only the first `good` measurements succeed."""
    counted = iter(range(good))

    def measure(_, setup, size, threads, run):
        if next(counted, None) is None:
            raise running.Failure("cut short")
        return [result(setup, name, 9, run=run, threads=threads, size=size) for name in rows.BENCHMARKS]

    words = ["compare", "--quick", "--parts=engines", "--setups=dlsm_shm,rocksdb", "--sizes=20/400",
             f"--build={folder}", f"--output={folder}/result"]
    with mock.patch.object(sys, "argv", words), mock.patch.object(engines, "measure", measure), \
            mock.patch.object(engines, "check_room"), contextlib.redirect_stdout(io.StringIO()), \
            mock.patch.object(running, "engines_built_in", lambda _: ["dlsm", "rocksdb"]):
        check_refused(load_script("compare").main, "cut short")


def check_files():
    """Fails if a comparison that measures nothing destroys what is there, one that does loses it, mixes its
    charts with others', or draws none because it is cut short."""
    there = {name: name for name in (
        "result.md", "result.json", "result-1.svg", "result-4.svg", "result-redis.svg", "result.old.md",
        "result.old-8.svg", "result-b.md", "result-b-1.svg", "result-b.old.md", "db_bench")}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in there.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        run_cut_short(folder, 0)
        check_equal(contents(folder), there)
        run_cut_short(folder, 2)
        found = contents(folder)
        charts = {"result-1.svg"} if chart.can_draw() else set()
        check_equal(set(found), charts | {
            "result.md", "result.json", "result.old.md", "result.old.json", "result.old-1.svg",
            "result.old-4.svg", "result.old-redis.svg", "result-b.md", "result-b-1.svg", "result-b.old.md",
            "db_bench"})
        for name in found:
            kept = ".old" in name or "-b" in name or name == "db_bench"
            check_equal(found[name] == there.get(name.replace("result.old", "result")), kept)
        digest = hashlib.sha256(b"db_bench").hexdigest()
        check(f"db_bench {digest[:12]} (SHA-256)" in found["result.md"], found["result.md"])
        check_equal(json.loads(found["result.json"])["programs"]["db_bench"]["sha256"], digest)


def check_missing_peers():
    """Fails if a peer that is not installed ends the comparison, or is left out without a word."""
    compare = load_script("compare")
    arguments = compare.parse_arguments(["--quick"])
    check_equal((arguments.num, arguments.runs), (compare.QUICK["num"], 1))
    check_equal(arguments.operations, compare.QUICK["num"])
    check_equal(compare.parse_arguments(["--num=20", "--operations=5"]).operations, 5)
    running.engines_built_in = lambda build: ["dlsm", "rocksdb", "rocksdb_mmap"]
    redis.missing_program = lambda: "redis-server"
    chart.can_draw = lambda: False
    notes = compare.leave_out_what_is_missing(arguments)
    check_equal(arguments.setups, ["dlsm_shm", "rocksdb", "rocksdb_mmap"])
    check_equal(arguments.parts, ["engines"])
    for word, note in zip(("leveldb", "redis-server", "gnuplot"), notes, strict=True):
        check(word in note, f"{notes}")
    output.Output(arguments, notes, ABOUT).draw_charts(
        figures.Results([result("dlsm_shm", "readseq", 1)]), remote.Medians([]))
    check_equal([compare.in_turn([1, 2, 3], run) for run in (1, 2, 3, 4)],
                [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]])


def check_wrong_arguments():
    for words, text in (
            (["--sizes=20"], "20/400,16/100"), (["--sizes=20/x"], "20/400,16/100"),
            (["--sizes=20/400/3"], "20/400,16/100"), (["--sizes=2/400", "--num=1000"], "3 bytes"),
            (["--sizes=3/400", "--num=1001"], "4 bytes"),
            (["--threads=0"], "--threads"), (["--threads=two"], "--threads"),
            (["--setups=oracle"], "rocksdb_mmap"), (["--parts=plots"], "engines, redis"),
            (["--num=0"], "--num"), (["--operations=0"], "--operations"),
            (["--runs=0", "--quick"], "--runs"), (["--nonsense"], "--nonsense"),
            (["--num=many"], "--num")):
        done = subprocess.run([COMPARE, *words], capture_output=True, text=True, timeout=60,
                              check=False)
        check(done.returncode == 2 and text in done.stderr, f"{words}: {done}")
    # As few as db_bench takes.
    check_equal(load_script("compare").parse_arguments(["--sizes=3/400", "--num=1000"]).sizes, [(3, 400)])
    done = subprocess.run([COMPARE, "--build=/nonexistent"], capture_output=True, text=True,
                          timeout=60, check=False)
    check(done.returncode == 1 and "script/bench" in done.stderr, f"{done}")


# What stands for db_bench where it is not what is tested.
STAND_IN = """#!/bin/sh
case $* in *--engine=[?]*) echo "--engine=?: allowed is dlsm, rocksdb" >&2; exit 1;; esac
"""


def stand_in_build(folder, script):
    """A folder with a db_bench that does what the script says."""
    build = os.path.join(folder, "build")
    os.mkdir(build)
    path = os.path.join(build, "db_bench")
    with open(path, "w", encoding="utf-8") as file:
        file.write(STAND_IN + script)
    os.chmod(path, 0o700)
    return build


def check_signals():
    """Fails if a signal does not end the comparison in order, with what it runs; or if one does that it was
    started to ignore."""
    for prepare, number in ((take_signals, signal.SIGHUP), (take_signals, signal.SIGTERM),
                            (ignore_hang_up, signal.SIGTERM)):
        with tempfile.TemporaryDirectory() as folder:
            build = stand_in_build(folder, 'echo "pid $$"; exec sleep 60\n')
            process = subprocess.Popen(
                [COMPARE, "--quick", "--num=1000", "--parts=engines", "--setups=rocksdb", f"--build={build}",
                 f"--output={folder}/x"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                preexec_fn=prepare)
            said = ""
            while not said.startswith("pid "):
                said = process.stdout.readline()
                check(said, "db_bench was not started")
            time.sleep(0.2)  # What says its pid may be faster than who has started it.
            if prepare is ignore_hang_up:
                process.send_signal(signal.SIGHUP)
                time.sleep(0.5)
                check(process.poll() is None, "nohup is of no use")
            process.send_signal(number)
            check_equal(process.wait(timeout=30), 128 + number)
            check(not os.path.exists(f"/proc/{said.split()[1]}"), f"{number}: db_bench runs on")
            output = process.communicate()[0]
            check("Traceback" not in output, output)


# --- With a build -----------------------------------------------------------------------------------

def check_quick(build):
    """Fails if a row is not measured, a table or chart not written, or a wish about the output is
    told after the measurement only."""
    absent = redis.missing_program()
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "result")
        words = [COMPARE, "--quick", "--num=3000", "--operations=2500", "--redis_keys=2000", "--runs=2",
                 "--threads=2", "--sizes=20/400", f"--build={build}", f"--output={prefix}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=500, check=False)
        check(done.returncode == 0, f"{done.stdout}{done.stderr}")
        with open(prefix + ".json", encoding="utf-8") as file:
            written = json.load(file)
        charts = ["result-2.svg"] + ["result-redis.svg"] * (not absent)
        check_equal(sorted(os.listdir(folder)),
                    charts * chart.can_draw() + ["result.json", "result.md"])
    setups = written["arguments"]["setups"]
    check("dlsm_shm" in setups and len(setups) > 1, f"only {setups}: no peer is installed")
    check_equal(len(written["runs"]), 2 * len(setups) * len(rows.BENCHMARKS))
    check_equal(len(written["rows"]), len(rows.ROWS))
    for row in written["rows"] + written["redis"]:
        check(row["dlsm"] > 0 and row["ratio_lowest"] <= row["ratio"] * 1.0001 and
              row["ratio"] <= row["ratio_highest"] * 1.0001, f"{row}")
    for run in written["runs"]:
        expected = {"fillrandom": 3000, "overwrite": 2500, "readmissing": 2500, "seekrandom": 50}
        check(run["ops"] == expected.get(run["benchmark"], run["ops"]), f"{run}")
    for name in ("reads95", "reads50"):
        share = int(name[-2:]) / 100
        for run in [r for r in written["runs"] if r["benchmark"] == name]:
            reads = (run["found"] + run["misses"]) / run["ops"]
            check(abs(reads - share) < 0.05, f"{name}: {reads} of the operations are reads")
    if absent:
        check(any(absent in note for note in written["notes"]), f"{written['notes']}")
        print(f"without {absent}")
        return
    check_equal(len(written["redis"]), sum(len(row.ways) for row in remote_rows.ROWS))
    for run in written["redis_runs"]:
        gets = "GET" in run.get("row", "") or "Get" in run.get("way", "")
        # A get brings its value over the wire each time.
        check(not gets or 400 < run["wire_bytes_per_op"] < 1500, f"{run}")
    refused = subprocess.run([*words, "--output=/nonexistent/x"], capture_output=True, text=True,
                             timeout=60, check=False)
    check(refused.returncode == 1 and "/nonexistent/x" in refused.stderr and
          "-- run" not in refused.stdout, f"{refused}")


def main():
    if sys.argv[1:] == ["figures"]:
        for test in (check_comparison, check_selection, check_targets, check_names, check_report,
                     check_wire_bytes, check_redis_parts, check_chart, check_wrong_arguments,
                     check_memory, check_room_first, check_peers_room, check_files, check_missing_peers,
                     check_signals):
            test()
    elif len(sys.argv) == 3 and sys.argv[1] == "quick":
        check_quick(sys.argv[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    run_test(main, limit=280)
