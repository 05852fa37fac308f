"""What is measured on all engines: benchmarks, the rows that they give, and what dLSM shall reach."""

import dataclasses
from collections.abc import Callable

# What the tables call a set-up -> the engine of db_bench, and whether a Server runs beside it.
SETUPS = {
    "dlsm_shm": ("dlsm", True),
    "dlsm_embedded": ("dlsm", False),
    "rocksdb": ("rocksdb", False),
    "rocksdb_mmap": ("rocksdb_mmap", False),
    "leveldb": ("leveldb", False),
}
DEFAULT_SETUPS = ("dlsm_shm", "rocksdb", "rocksdb_mmap", "leveldb")
OURS = "dlsm_shm"
PEERS = ("rocksdb", "rocksdb_mmap", "leveldb")
NEXTS = 100
# A seek takes this many times the steps of the others.
SEEK_SHARE = 50

# In this order. Reads are measured from tables, with no merge beside them: memtables would answer
# some for nothing. What changes the data comes after them.
BENCHMARKS = ("fillrandom", "flush", "waitforbackground", "readrandom", "readmissing", "readseq",
              "seekrandom", "reads95", "reads50", "overwrite")
# Those that only prepare.
PREPARATIONS = ("flush", "waitforbackground")


def db_bench_names(num, operations, threads):
    """What db_bench calls BENCHMARKS; all threads together fill with `num` puts, and then do `operations`."""
    seeks = max(1, operations // threads // SEEK_SHARE)
    names = {"fillrandom": f"fillrandom:writes={max(1, num // threads)}",
             "seekrandom": f"seekrandom:seek_nexts={NEXTS}:reads={seeks}",
             "reads95": "readrandomwriterandom:readwritepercent=95",
             "reads50": "readrandomwriterandom:readwritepercent=50"}
    return [names.get(benchmark, benchmark) for benchmark in BENCHMARKS]


def ops_to_quiet(result):
    return result["ops"] / result["seconds_to_quiet"] if result["seconds_to_quiet"] else None


def cpu_micros_per_op(result):
    """None, too, where a memory node did not tell what it has spent."""
    known = result["ops"] and result["cpu_seconds"] is not None
    return result["cpu_seconds"] * 1e6 / result["ops"] if known else None


@dataclasses.dataclass(frozen=True)
class Row:
    """A figure of a benchmark, the more the better, compared with the best peer's.

    targets: {(key bytes, value bytes): {threads: the least ratio}}."""
    label: str
    benchmark: str
    figure: Callable
    targets: dict = dataclasses.field(default_factory=dict)

    def target(self, size, threads):
        return self.targets.get(size, {}).get(threads)


@dataclasses.dataclass(frozen=True)
class Limit:
    """A figure of ours that shall not be above `most`, whatever the peers need."""
    label: str
    benchmark: str
    figure: Callable
    size: tuple
    threads: tuple
    most: float


LARGE, SMALL = (20, 400), (16, 100)


def targets(one, two):
    """The least ratios at 20 B/400 B with 1 and 2 threads. At 16 B/100 B they are the same for all."""
    return {LARGE: {1: one, 2: two}, SMALL: {1: 2.5, 2: 2.5}}


def ops_per_second(result):
    return result["ops_per_sec"]


def p999_micros(result):
    return result["p999_us"]


ROWS = (
    Row("fillrandom", "fillrandom", ops_per_second, targets(4, 3)),
    Row("fillrandom, load to quiet", "fillrandom", ops_to_quiet),
    Row("overwrite", "overwrite", ops_per_second, targets(4, 3)),
    Row("overwrite, until quiet", "overwrite", ops_to_quiet),
    Row("readrandom, 63% found", "readrandom", ops_per_second, targets(2.5, 2.5)),
    Row("readmissing", "readmissing", ops_per_second, targets(3, 3)),
    Row("readseq", "readseq", ops_per_second, targets(2, 2)),
    Row(f"seekrandom, {NEXTS} nexts", "seekrandom", ops_per_second, targets(2.5, 2.5)),
    Row("readrandomwriterandom, 95% reads", "reads95", ops_per_second, targets(3, 2.5)),
    Row("readrandomwriterandom, 50% reads", "reads50", ops_per_second, targets(4, 3)),
)
LIMITS = (
    Limit("CPU µs a put, both processes, load to quiet", "fillrandom", cpu_micros_per_op, LARGE,
          (1, 2), 1.5),
    Limit("P99.9 µs of a put", "fillrandom", p999_micros, LARGE, (2,), 50),
)
