"""Measures the engines of db_bench, one after the other."""

import os

from compare_lib import rows, running


def command(arguments, setup, size, threads, run):
    """All thread counts do `num` operations in total, on `num` keys."""
    engine, with_server = rows.SETUPS[setup]
    share = max(1, arguments.num // threads)
    words = [
        os.path.join(arguments.build, "db_bench"), f"--engine={engine}", f"--num={arguments.num}",
        f"--reads={share}", f"--writes={share}", f"--threads={threads}", f"--key_size={size[0]}",
        f"--value_size={size[1]}", f"--seed={300 + run}",
        f"--benchmarks={','.join(rows.db_bench_names(arguments.num, threads))}"]
    if with_server:
        server = running.server_size_for(arguments.num, size, "shm")
        words = running.beside_server(arguments.build, server, words)
    return words + arguments.flags


def check_room(arguments):
    """That the Servers of all sizes will fit, before anything is measured."""
    for size in arguments.sizes if any(rows.SETUPS[setup][1] for setup in arguments.setups) else ():
        running.server_size_for(arguments.num, size, "shm")


def measure(arguments, setup, size, threads, run):
    words = command(arguments, setup, size, threads, run)
    print(f"-- run {run} of {arguments.runs}: {setup}, {size[0]} B/{size[1]} B, threads {threads}",
          flush=True)
    results = running.db_bench_results(words)
    if len(results) != len(rows.BENCHMARKS):
        raise running.Failure(f"{len(results)} results, not {len(rows.BENCHMARKS)}: {' '.join(words)}")
    for benchmark, result in zip(rows.BENCHMARKS, results):
        # Of waitforbackground and the like db_bench says that one thread ran them.
        result.update(setup=setup, size=list(size), run=run, benchmark=benchmark, threads=threads)
    return results
