"""The load of plyvel_bench: one process. Prints {phase: [records a second, processor time in us for each]} as JSON.
The processor time is that of all threads.

    plyvel_load.py FOLDER RECORDS [PHASE...]

Each record has a key of 16 bytes and a value of 100. Options are plyvel's defaults. PHASE bounds what is run; `get` and
`iterate` read what `put` has put.
"""
import json
import os
import random
import sys
import time

import plyvel

BATCH = 100


def main():
    folder, count, phases = sys.argv[1], int(sys.argv[2]), sys.argv[3:] or ["put", "get", "iterate", "batch"]
    chance = random.Random(1)
    records = [(b"%016d" % number, chance.randbytes(100)) for number in range(count)]
    chance.shuffle(records)
    keys = [key for key, _ in records]
    chance.shuffle(keys)
    measured = {}

    def measure(phase, work):
        if phase in phases:
            began, used = time.perf_counter(), time.process_time()
            done = work()
            measured[phase] = [count / (time.perf_counter() - began), (time.process_time() - used) * 1e6 / count]
            if done != count:
                sys.exit(f"plyvel_load: {phase} did {done} of {count} records")

    def put():
        for key, value in records:
            database.put(key, value)
        return count

    def get():
        return sum(database.get(key) is not None for key in keys)

    def iterate():
        return sum(1 for _ in database)

    def batch():
        for first in range(0, count, BATCH):
            with database.write_batch() as writes:
                for key, value in records[first:first + BATCH]:
                    writes.put(key, value)
        return count

    with plyvel.DB(os.path.join(folder, "single"), create_if_missing=True) as database:
        measure("put", put)
        measure("get", get)
        measure("iterate", iterate)
    with plyvel.DB(os.path.join(folder, "batched"), create_if_missing=True) as database:
        measure("batch", batch)
    print(json.dumps(measured))


main()
