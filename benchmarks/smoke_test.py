#!/usr/bin/env python3
"""Runs every workload of db_bench with little data on each engine that was built in, and checks the
figures that must be there; then wrong flags.

smoke_test.py DB_BENCH SERVER          everything; what needs a memory node starts SERVER
smoke_test.py DB_BENCH --node=ADDRESS  only what is done with the memory node that runs there
"""

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

PLOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../script/plot")
NUM = 2000
WORKLOADS = (
    "fillseq verify fillbatch verify filluniquerandom verify fillsync verify fillrandom overwrite "
    "verify readrandom readmissing readhot readseq readreverse seekrandom multireadrandom "
    "readrandomwriterandom verify readwhilewriting verify flush deleterandom verify compact "
    "readrandom verify deleteseq verify readseq waitforbackground stats levelstats").split()
FIELDS = (
    "name engine threads ops seconds ops_per_sec micros_per_op p50_us p99_us p999_us max_us "
    "cpu_seconds peak_rss_bytes round_trips_per_op wire_read_bytes_per_op wire_write_bytes_per_op "
    "write_amplification index_bytes_per_key found misses seconds_to_quiet wire").split()
# Engines that can delete a range.
RANGE_ENGINES = {"dlsm", "rocksdb"}
# What may be unknown to an engine.
OPTIONAL = {"index_bytes_per_key"}


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def run(program, *flags, expected=0):
    """Returns stdout and stderr; fails if the exit code is not `expected`."""
    always = [] if program == PLOT else ["--progress=false"]
    done = subprocess.run([program, *always, *flags], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=600)
    output = done.stdout + done.stderr
    check(done.returncode == expected,
          f"{' '.join(flags)}: exit code {done.returncode}, expected {expected}:\n{output}")
    return output


def measure(program, *flags):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        run(program, f"--json={path}", *flags)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def check_figures(results, names, engine, threads):
    check([r["name"] for r in results] == names, f"{engine}: not one object for each benchmark")
    for result in results:
        where = f"{engine} {result['name']} x{threads}: {result}"
        for field in FIELDS:
            check(field in result, f"{where}: no {field}")
            if field == "wire":
                check(isinstance(result[field], dict), f"{where}: {field} is no object")
                continue
            if field in ("name", "engine") or result[field] is None and field in OPTIONAL:
                continue
            check(isinstance(result[field], (int, float)) and result[field] >= 0,
                  f"{where}: {field} is no figure")
        check(result["engine"] == engine, where)
        check(result["p50_us"] <= result["p99_us"] <= result["p999_us"] <= result["max_us"] * 1.01,
              f"{where}: percentiles do not ascend")
        check(result["peak_rss_bytes"] > 0, f"{where}: no memory")
        check(result["seconds_to_quiet"] >= result["seconds"] * 0.999, f"{where}: quiet too early")


def by_name(results, name):
    """The first of that name."""
    return next(r for r in results if r["name"] == name)


def check_every_workload(program, engine, threads, *flags):
    workloads = list(WORKLOADS)
    if engine in RANGE_ENGINES:
        at = workloads.index("deleteseq")
        workloads[at:at] = ["deleteranges", "verify"]
    results = measure(program, f"--engine={engine}", f"--num={NUM}", f"--threads={threads}",
                      f"--benchmarks={','.join(workloads)}", *flags)
    check_figures(results, workloads, engine, threads)
    for result in results:
        if result["name"] in ("fillseq", "fillbatch", "filluniquerandom", "deleteseq", "verify"):
            check(result["ops"] == NUM, f"{engine}: {result}")
        if result["name"] in ("fillrandom", "overwrite", "readrandom", "readmissing", "readhot",
                              "readrandomwriterandom", "deleterandom", "seekrandom"):
            check(result["ops"] == NUM * threads, f"{engine}: {result}")
    check(by_name(results, "verify")["found"] == NUM, f"{engine}: fillseq left out keys")
    check(by_name(results, "readmissing")["found"] == 0, f"{engine}: found what is missing")
    found = by_name(results, "readrandom")["found"] / (NUM * threads)
    check(0.8 < found < 1, f"{engine}: {found} of the keys found")
    check(results[workloads.index("deleteseq") + 1]["found"] == 0, f"{engine}: deleted keys found")


def check_variants(program):
    """One thing after the other that has a flag of its own."""
    fill_and_read = "--benchmarks=fillrandom,overwrite,readrandom,multireadrandom,seekrandom,verify"
    for flags in (["--distribution=zipfian"], ["--distribution=latest", "--zipf_theta=1.2"],
                  ["--table_format=block", "--block_size=2048"],
                  ["--table_format=block", "--compression_type=snappy"],
                  ["--compaction_place=compute_node"], ["--compaction_place=auto"], ["--bloom_bits=0"], ["--value_size=0"],
                  ["--key_size=4"], ["--batch_size=7"], ["--verify_checksum"],
                  ["--seek_nexts=10"], ["--duration=0.2"], ["--reads=100", "--writes=50"],
                  ["--histogram"], ["--seed=7"], ["--fixed_compute_shards_num=2"],
                  ["--shards=4"], ["--shard_boundaries=3,7"],
                  ["--write_buffer_size=65536", "--target_file_size_base=65536",
                   "--max_bytes_for_level_base=262144"],
                  ["--component_constraint=global", "--max_components=50", "--slow_down_writes"],
                  *([f"--compaction_style={style}", "--write_buffer_size=65536",
                     "--target_file_size_base=65536", "--max_bytes_for_level_base=131072"]
                    for style in ("leveled", "guards", "leveled_choose_best", "full_leveling",
                                  "tiered", "size_tiered")),
                  ["--secondary_index=eager"], ["--secondary_index=lazy"],
                  ["--simulated_rtt_ns=2000", "--simulated_gbit_per_second=100"]):
        measure(program, f"--num={NUM}", fill_and_read, *flags)


def check_secondary_index(program):
    """Queries find what they have to, whatever has been overwritten and deleted."""
    for kind in ("eager", "lazy"):
        results = measure(
            program, f"--num={NUM}", f"--secondary_index={kind}", "--index_records=20", "--reads=500",
            "--benchmarks=filluniquerandom,indexquery,overwrite,indexquery,deleteseq,indexquery")
        found = [r["found"] / r["ops"] for r in results if r["name"] == "indexquery"]
        check(all(18 < f < 22 for f in found[:2]) and found[2] == 0, f"{kind}: found {found}")
    output = run(program, "--benchmarks=fillseq,indexquery", "--num=10", expected=1)
    check("--secondary_index" in output, output)


def check_pipeline_latencies(program):
    """No get takes less than its round trip, however many are under way."""
    results = measure(program, f"--num={NUM}", "--simulated_rtt_ns=1000000", "--benchmarks=fillseq,"
                      "flush,readrandom:reads=50,pipelinedreadrandom:batch_size=8:reads=200")
    for result in results[2:]:  # Percentiles are within 1%.
        check(result["p50_us"] >= 990, f"less than a round trip: {result}")


def check_no_room(program, engine):
    """A store that cannot write its files is an error, not a wait without end. RLIMIT_FSIZE stands for a
    full disk; Python ignores SIGXFSZ, and so does what it starts."""
    limit = 100_000
    done = subprocess.run(
        [program, "--progress=false", f"--engine={engine}", "--num=5000",
         "--write_buffer_size=1048576", "--benchmarks=fillrandom,overwrite"], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=120, restore_signals=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    cause = "disk I/O error" if engine == "sqlite" else "File too large"  # SQLite tells no more.
    check(done.returncode == 1 and cause in done.stderr,
          f"{engine} without room: exit code {done.returncode}:\n{done.stdout}{done.stderr}")


def begin_to_fill(program, engine, *flags, ignored=()):
    """A process that fills a database in a scratch folder, and that folder."""
    def dispositions():
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
    process = subprocess.Popen(
        [program, "--progress=false", f"--engine={engine}", "--num=300000", "--write_buffer_size=65536",
         "--benchmarks=fillrandom", *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=dispositions)
    folder = next(line for line in process.stdout if "folder:" in line).split()[-1]
    folder = os.path.dirname(folder)
    check(os.path.basename(folder).startswith("db_bench-") and os.path.isdir(folder), folder)
    return process, folder


def check_ends_in_order(program, engine):
    """However a run is ended, what it had in memory is given back."""
    def check_end(process, folder, code, what):
        _, errors = process.communicate(timeout=120)
        check(process.returncode == code, f"{engine}, {what}: exit code {process.returncode}: {errors}")
        check(not os.path.exists(folder), f"{engine}, {what}: {folder} is left")
        return errors

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        process, folder = begin_to_fill(program, engine)
        time.sleep(0.3)  # So that it is making files.
        process.send_signal(number)
        check_end(process, folder, 128 + number, number.name)
    process, folder = begin_to_fill(program, engine, ignored=[signal.SIGHUP])
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    check(os.path.isdir(folder), f"{engine}: ended by a signal that it was to ignore")
    process.send_signal(signal.SIGTERM)
    check_end(process, folder, 128 + signal.SIGTERM, "SIGTERM after SIGHUP")
    # The first row after the pipe is closed is the last.
    process, folder = begin_to_fill(program, engine, "--num=20000",
                                    "--benchmarks=fillrandom" + 50 * ",overwrite")
    process.stdout.close()
    process.stdout = None
    errors = check_end(process, folder, 1, "nobody reads its output")
    check("cannot write to standard output" in errors, errors)


def check_two_phase(program, engine, *flags):
    """Its figures agree with each other and with the time series, which script/plot draws."""
    with tempfile.TemporaryDirectory() as folder:
        series, picture = os.path.join(folder, "series.csv"), os.path.join(folder, "series.png")
        results = measure(program, f"--engine={engine}", f"--num={NUM}", "--warmup_seconds=0.2",
                          "--testing_seconds=0.8", "--running_seconds=1.5", "--long_scan_entries=1000",
                          "--running_reads=lookup,short_scan,long_scan", f"--timeseries={series}",
                          "--benchmarks=fillrandom,twophase,verify", *flags)
        check_figures(results, ["fillrandom", "twophase", "verify"], engine, results[0]["threads"])
        result = by_name(results, "twophase")
        with open(series, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        run(PLOT, series)
        check(os.path.getsize(picture) > 1000, "script/plot: no picture")
    where = f"{engine} twophase: {result}"
    check(result["max_throughput"] > 0, where)
    if "--utilization=0.5" in flags:
        expected = 0.5 * result["max_throughput"] * 1.5
        check(abs(result["arrivals"] - expected) <= 2 + expected * 1e-5,
              f"{where}: arrivals are not half of the throughput")
    check(result["completions"] + result["undone"] == result["arrivals"], where)
    for name in ("write", "processing", "testing"):
        values = [result[f"{name}_{p}_us"] for p in ("p50", "p99", "p999", "p9999")]
        check(values == sorted(values), f"{where}: percentiles of {name} do not ascend")
    if result["undone"] == 0:
        for p in ("p50", "p99", "p999", "max"):
            check(result[f"write_{p}_us"] >= result[f"processing_{p}_us"],
                  f"{where}: a write took less from its arrival than from its begin")
    for name in ("lookup", "short_scan", "long_scan"):
        check(result[f"{name}_count"] > 0, f"{where}: no {name}")
    check(result["components_max"] is not None, f"{where}: the engine does not tell")
    running = [row for row in rows if row["phase"] == "running"]
    check({row["phase"] for row in rows} == {"warmup", "testing", "running"}, f"{rows}")
    for name in ("arrivals", "completions"):
        check(sum(int(row[name]) for row in running) == result[name], f"{where}: {name} in {rows}")
    stalled = sum(float(row["stalled_ms"]) for row in running)
    counted = sum(v for k, v in result.items() if k.startswith("running_stall_ms_"))
    check(abs(stalled - counted) < 1, f"{where}: {stalled} ms of stalls in {rows}")


def check_plot_errors():
    with tempfile.TemporaryDirectory() as folder:
        other = os.path.join(folder, "other.csv")
        with open(other, "w", encoding="utf-8") as file:
            file.write("a,b\n1,2\n")
        check("nothing.csv" in run(PLOT, os.path.join(folder, "nothing.csv"), expected=1), "plot")
        check("no time series" in run(PLOT, other, expected=1), "plot")


def check_wrong_flags(program):
    for flags, message in (
            (["--benchmarks=fillrandom,nonsense"], "readrandom"),
            (["--benchmarks=readrandom:threads=0"], "threads=1 to 1024"),
            (["--history=overwrite:num=5"], "readwritepercent="),
            (["--engine=oracle"], "dlsm"),
            (["--num=0"], "--num=0"),
            (["--threads=0"], "--threads=0"),
            (["--reads=0", "--benchmarks=fillseq,readrandom", "--num=10"], "--reads=0: allowed is 1 to"),
            (["--writes=0", "--benchmarks=fillseq", "--num=10"], "--writes=0: allowed is 1 to"),
            (["--key_size=3", "--num=100000"], "5 to"),
            (["--value_size=99999999999"], "--value_size"),
            (["--readwritepercent=101"], "0 to 100"),
            (["--distribution=normal"], "zipfian"),
            (["--zipf_theta=-1"], "--zipf_theta"),
            (["--table_format=column"], "byte, block"),
            (["--compaction_style=flat"], "size_tiered"),
            (["--component_constraint=none"], "local, global"),
            (["--max_components=-1"], "--max_components"),
            (["--compaction_place=moon"], "memory_node, compute_node, auto"),
            (["--compression_type=zip"], "snappy"),
            (["--compression_type=snappy"], "--table_format=block"),
            (["--fabric=pigeon"], "shm"),
            (["--shards=0"], "--shards"), (["--shard_boundaries=7,3"], "ascending"),
            (["--bloom_bits=-2"], "--bloom_bits"),
            (["--bloom_bits=41", "--benchmarks=fillseq", "--num=10"], "--bloom_bits=41: allowed is 0 to 40"),
            (["--write_buffer_size=1"], "--write_buffer_size"),
            (["--compaction_bandwidth_mb=1048577"], "--compaction_bandwidth_mb=1048577: allowed is 0 to 1048576"),
            # As much as is allowed: what is wrong is something else.
            (["--compaction_bandwidth_mb=1048576", "--engine=oracle"], "--engine=oracle"),
            (["--history=readrandom", "--use_existing_db"], "a list of fill"),
            (["--history=twophase", "--use_existing_db"], "a list of fill"),
            (["--history=fillseq", "--benchmarks=verify"], "only with --use_existing_db"),
            (["--history=fillseq", "--use_existing_db", "--duration=1"], "without --duration"),
            (["--arrivals=poisson"], "constant, bursty"),
            (["--utilization=0"], "--utilization=0"),
            (["--testing_seconds=0"], "--testing_seconds=0"),
            (["--running_seconds=-1"], "--running_seconds=-1"),
            (["--warmup_seconds=-1"], "--warmup_seconds=-1"),
            (["--arrival_rate=-5"], "--arrival_rate=-5"),
            (["--burst_factor=0.5"], "--burst_factor=0.5"),
            (["--burst_seconds=30"], "--burst_period_seconds"),
            (["--running_reads=lookup,scan"], "short_scan"),
            (["--long_scan_entries=0"], "--long_scan_entries=0"),
            (["--timeseries=x.csv", "--benchmarks=fillrandom"], "twophase"),
            (["--timeseries=/nonexistent/x.csv", "--benchmarks=twophase"], "/nonexistent/x.csv"),
            (["--wait_for_start", "--benchmarks=fillseq", "--num=10"], "before the start of fillseq"),
            (["fillrandom"], "fillrandom"),
            (["--no_such_flag=1"], "no flag --no_such_flag: see db_bench --help"),
            (["--config=/nonexistent.conf", "--benchmarks=fillseq"], "/nonexistent.conf"),
            (["--benchmarks=fillseq", "--num=10", "--json=/nonexistent/x.json"],
             "/nonexistent/x.json")):
        output = run(program, *flags, expected=1)
        check(message in output, f"{flags}: the error does not name {message}:\n{output}")


def check_existing(program, engine, *more_flags):
    """A database of one process, read by another."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as db:
        flags = [f"--engine={engine}", f"--db={db}/db", f"--num={NUM}", *more_flags]
        run(program, *flags, "--benchmarks=fillrandom,deleterandom")
        existing = flags + ["--use_existing_db"]
        exact = measure(program, *existing, "--history=fillrandom,deleterandom",
                        "--benchmarks=fillseq,verify")
        check([r["name"] for r in exact] == ["verify"], "fillseq must be skipped")
        check(0 < exact[0]["found"] < NUM, f"{exact}")
        run(program, *existing, "--benchmarks=verify")
        # Told a wrong history, and with another seed, verify must complain.
        run(program, *existing, "--benchmarks=verify", "--history=fillrandom", expected=1)
        run(program, *existing, "--benchmarks=verify", "--seed=5", expected=1)


def check_memory_node(program, node):
    """dLSM over each fabric, with what its figures must be: a hit is one round trip, a miss none."""
    for fabric in ("shm", "tcp"):
        flags = [f"--memory_nodes={node}", f"--fabric={fabric}"]
        check_every_workload(program, "dlsm", 2, *flags)
        check_existing(program, "dlsm", *flags)
        names = "fillrandom,flush,readrandom,readmissing,verify"
        results = measure(program, f"--num={NUM}", f"--benchmarks={names}", *flags)
        hit, miss = by_name(results, "readrandom"), by_name(results, "readmissing")
        round_trips = hit["round_trips_per_op"] * hit["ops"] / hit["found"]
        check(0.98 <= round_trips <= 1.05, f"{fabric}: {round_trips} round trips a hit")
        check(miss["round_trips_per_op"] <= 0.05, f"{fabric}: {miss}")
        check(by_name(results, "flush")["wire_write_bytes_per_op"] > NUM * 200, "flush: no bytes")
        check(0 < hit["index_bytes_per_key"] < 16, f"{fabric}: {hit}")


def engines(program):
    output = run(program, "--engine=?", expected=1)
    return output.split("allowed is", 1)[1].replace(",", " ").split()


def main():
    program, where = sys.argv[1:]
    if where.startswith("--node="):
        check_memory_node(program, where.removeprefix("--node="))
        return
    built_in = engines(program)
    check("dlsm" in built_in, f"engines: {built_in}")
    for engine in built_in:
        for threads in (1, 2):
            check_every_workload(program, engine, threads)
        check_two_phase(program, engine, "--utilization=0.5")
        if engine != "dlsm":  # It has no files.
            check_no_room(program, engine)
            check_ends_in_order(program, engine)
    check_two_phase(program, "dlsm", "--threads=2", "--arrivals=bursty", "--burst_seconds=0.1",
                    "--burst_period_seconds=0.5", "--distribution=zipfian")
    check_plot_errors()
    check_variants(program)
    check_secondary_index(program)
    check_pipeline_latencies(program)
    check_wrong_flags(program)
    for engine in built_in:
        if engine != "dlsm":  # Embedded, it ends with its process.
            check_existing(program, engine)
    with_server = os.path.join(os.path.dirname(__file__), "../script/with-server")
    subprocess.run([with_server, where, "1", __file__, program, "--node=@NODE@"], check=True)
    print(f"every workload ran on {', '.join(built_in)}")


if __name__ == "__main__":
    try:
        main()
    except (Failure, subprocess.CalledProcessError) as failure:
        sys.exit(f"smoke_test: {failure}")
