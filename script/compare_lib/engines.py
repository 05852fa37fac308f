"""Measures the engines of db_bench, one after the other."""

import math
import os

from bench_lib import db_bench_flags, server_size
from compare_lib import rows, running

# The files of a store that needs some hold the data, older versions of it, and what running merges write:
# of the data so many times as much, at most.
FILES_SHARE = 2


def command(arguments, setup, size, threads, run):
    """All thread counts fill with `num` puts in total, and then do `operations` of each workload."""
    engine, with_server = rows.SETUPS[setup]
    share = max(1, arguments.operations // threads)
    words = [
        os.path.join(arguments.build, "db_bench"), f"--engine={engine}", f"--num={arguments.num}",
        f"--reads={share}", f"--writes={share}", f"--threads={threads}", f"--key_size={size[0]}",
        f"--value_size={size[1]}", f"--seed={300 + run}",
        f"--benchmarks={','.join(rows.db_bench_names(arguments.num, arguments.operations, threads))}"]
    if with_server:
        server = running.server_size_for(arguments.num, size, "shm")
        words = running.beside_server(arguments.build, server, words)
    return words + arguments.flags


def scratch_space():
    """Where db_bench has such stores make their files: (folder, GB that are free there, GB that are not)."""
    folder = server_size.SHM if os.access(server_size.SHM, os.W_OK) else "/tmp"
    return folder, *server_size.space(folder)


def check_files_room(num, size):
    folder, free, used = scratch_space()
    wanted = FILES_SHARE * num * (sum(size) + 16) / 2**30
    if wanted <= free:
        return
    remedy = "give fewer keys"
    if folder == server_size.SHM:
        remedy = f"{server_size.grow_shm(math.ceil(used + wanted))}, or fewer keys"
    raise running.Failure(f"{folder} has room for {free:.1f} GB, the files of the peers may take {wanted:.1f} "
                          f"GB: {remedy}")


def check_room(arguments):
    """That the Servers of all sizes, and the peers' files, will fit, before anything is measured."""
    names_folder = any(db_bench_flags.name(flag) == "db" for flag in arguments.flags)
    for size in arguments.sizes:
        if any(rows.SETUPS[setup][1] for setup in arguments.setups):
            running.server_size_for(arguments.num, size, "shm")
        if any(setup in rows.PEERS for setup in arguments.setups) and not names_folder:
            check_files_room(arguments.num, size)


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
