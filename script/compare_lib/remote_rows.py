"""What is measured beside Redis: what its clients do, and how a user of dLSM would do the same."""

import dataclasses

SIZE = (20, 400)


@dataclasses.dataclass(frozen=True)
class Way:
    """How dLSM's user does it. `workload` is db_bench's; all threads together do a number of
    operations that does not depend on how many they are."""
    label: str
    workload: str
    threads: int
    batch: int = 1

    def db_bench_name(self, keys):
        # Of gets half as many as there are keys: the slowest way needs seconds. Puts: as many.
        operations = "writes" if self.workload == "overwrite" else "reads"
        count = keys if operations == "writes" else keys // 2
        name = f"{self.workload}:threads={self.threads}"
        if self.batch > 1:
            name += f":batch_size={self.batch}"
        return f"{name}:{operations}={max(1, count // self.threads)}"


@dataclasses.dataclass(frozen=True)
class Row:
    """What redis-benchmark does, the ways to do it with dLSM, and what each shall reach."""
    label: str
    command: str  # GET or SET
    clients: int
    pipelined: int
    ways: tuple
    target: float

    def redis_operations(self, keys):
        # Without a pipeline, or alone, it is slow: fewer, so that each row takes seconds.
        share = 10 if self.clients == 1 else 4 if self.pipelined == 1 else 1
        return max(self.clients * self.pipelined, keys // share)


def gets(threads):
    return Way(f"Get by {threads} thread{'s' * (threads > 1)}", "readrandom", threads)


def batched_gets(threads, batch):
    return Way(f"MultiGet of {batch} by {threads} thread{'s' * (threads > 1)}", "multireadrandom",
               threads, batch)


def pipelined_gets(threads, depth):
    return Way(f"pipeline of {depth} by {threads} thread{'s' * (threads > 1)}",
               "pipelinedreadrandom", threads, depth)


def puts(threads):
    return Way(f"Put by {threads} thread{'s' * (threads > 1)}", "overwrite", threads)


def batched_puts(threads, batch):
    return Way(f"WriteBatch of {batch} by {threads} thread{'s' * (threads > 1)}", "overwrite", threads,
               batch)


# Gets first: what puts leave in memtables would answer some without the network.
ROWS = (
    Row("GET, one synchronous client", "GET", 1, 1, (gets(1),), 5),
    Row("GET, 50 outstanding: 50 clients", "GET", 50, 1,
        (gets(50), pipelined_gets(1, 50), pipelined_gets(2, 25), batched_gets(1, 50),
         batched_gets(2, 25)), 5),
    Row("GET, 50 clients with 16 pipelined each", "GET", 50, 16,
        # At last as many outstanding as there: 800.
        (batched_gets(50, 16), batched_gets(2, 16), batched_gets(1, 16), batched_gets(2, 400),
         pipelined_gets(2, 400)), 3),
    Row("SET, one synchronous client", "SET", 1, 1, (puts(1),), 5),
    Row("SET, 50 outstanding: 50 clients", "SET", 50, 1, (puts(50), puts(2), puts(1)), 5),
    Row("SET, 50 clients with 16 pipelined each", "SET", 50, 16,
        (batched_puts(50, 16), batched_puts(2, 16), batched_puts(1, 16)), 3),
)
WAYS = tuple(dict.fromkeys(way for row in ROWS for way in row.ways))
PREPARATIONS = ("filluniquerandom", "flush", "waitforbackground")


def db_bench_names(keys):
    return [*PREPARATIONS, *(way.db_bench_name(keys) for way in WAYS)]
