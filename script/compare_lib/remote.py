"""dLSM over tcp beside Redis, in turns; and what comes out of it."""

import os
import statistics

from compare_lib import figures, redis, remote_rows, running


def server_size(arguments):
    return running.server_size_for(arguments.redis_keys, remote_rows.SIZE, "tcp")


def check_room(arguments):
    """That the Server will fit, before anything is measured."""
    server_size(arguments)


def measure_dlsm(arguments, run):
    """One object for each way."""
    keys, size = arguments.redis_keys, remote_rows.SIZE
    names = remote_rows.db_bench_names(keys)
    words = [os.path.join(arguments.build, "db_bench"), "--engine=dlsm", f"--num={keys}",
             f"--key_size={size[0]}", f"--value_size={size[1]}", f"--seed={300 + run}",
             f"--benchmarks={','.join(names)}"]
    words = running.beside_server(arguments.build, server_size(arguments), words)
    results = running.db_bench_results(words + arguments.flags)
    if len(results) != len(names):
        raise running.Failure(f"{len(results)} results, not {len(names)}: {' '.join(words)}")
    measured = results[len(remote_rows.PREPARATIONS):]
    for way, result in zip(remote_rows.WAYS, measured):
        if result["misses"]:
            raise running.Failure(f"{way.label}: {result['misses']} keys were not found")
    return [of_way(way, result, run) for way, result in zip(remote_rows.WAYS, measured)]


# Of a request and its reply, without what they carry (util/fabric/tcp/tcp_frame.h).
FRAME_BYTES = 40 + 20


def wire_bytes(result):
    """Of all reads and writes, frames included, as Redis counts its protocol in."""
    return sum(purpose["read_bytes"] + purpose["write_bytes"] + FRAME_BYTES * purpose["work_requests"]
               for purpose in result["wire"].values())


def of_way(way, result, run):
    server_seconds = result["memory_node_cpu_seconds"]
    if server_seconds is None:
        raise running.Failure(f"{way.label}: the Server did not tell what processor time it has spent")
    ops = result["ops"]
    return {"way": way.label, "run": run, "ops": ops, "ops_per_sec": result["ops_per_sec"],
            "ops_per_sec_to_quiet": ops / result["seconds_to_quiet"],
            "p50_us": result["p50_us"], "p99_us": result["p99_us"],
            "wire_bytes_per_op": wire_bytes(result) / ops,
            "client_cpu_us_per_op": (result["cpu_seconds"] - server_seconds) * 1e6 / ops,
            "server_cpu_us_per_op": server_seconds * 1e6 / ops}


def measure(arguments, run):
    """Both, one right after the other; the first of them changes from run to run."""
    print(f"-- run {run} of {arguments.runs}: Redis, and dLSM over tcp", flush=True)
    turns = [("redis", lambda: redis.measure(arguments.redis_keys, run)),
             ("dlsm_tcp", lambda: measure_dlsm(arguments, run))]
    measured = []
    for setup, turn in turns if run % 2 else reversed(turns):
        measured += [{"setup": setup, **result} for result in turn()]
    return measured


class Medians:
    """Of what measure() gave in all runs."""

    def __init__(self, results):
        self.results = results

    def by_run(self, key, name, field):
        """key: "row" of Redis, "way" of dLSM."""
        return {r["run"]: r[field] for r in self.results if r.get(key) == name}

    def median(self, key, name, field):
        values = self.by_run(key, name, field)
        return statistics.median(values.values()) if values else None


def compare(medians, row, way, field="ops_per_sec"):
    """field: of dLSM's; Redis has nothing left to do when it has answered."""
    return figures.compare(medians.by_run("way", way.label, field),
                           {"redis": medians.by_run("row", row.label, "ops_per_sec")}, row.target)
