"""Measures the package dlsm beside plyvel (LevelDB), and beside copies by numpy, in one process.

    python bench.py [--records 100000] [--rounds 5] [--dir DIR] [--processor_time]

Keys have 16 bytes and values 100. Each round has a new database of each store, and the stores take turns
in beginning. Prints medians of the rounds, and the smallest and largest. script/python-bench runs this.
"""
import argparse
import os
import random
import shutil
import statistics
import tempfile
import time

import numpy
import plyvel

import dlsm

BATCH = 100
MULTI = 64
ARRAY_BYTES = 64 << 10
ARRAYS = 1024  # 64 MiB of values: more than the caches of a processor hold.


clock = time.perf_counter


def timed(work):
    start = clock()
    work()
    return clock() - start


class Plyvel:
    def __init__(self, folder):
        self.db = plyvel.DB(os.path.join(folder, "plyvel"), create_if_missing=True)

    def put(self, keys, value):
        put = self.db.put
        for key in keys:
            put(key, value)

    def batches(self, keys, value):
        for i in range(0, len(keys), BATCH):
            with self.db.write_batch() as batch:
                put = batch.put
                for key in keys[i:i + BATCH]:
                    put(key, value)

    batch_updates = batches  # It has no call for many entries.

    def get(self, keys):
        get = self.db.get
        for key in keys:
            get(key)

    def multi_get(self, keys):
        get = self.db.get
        for i in range(0, len(keys), MULTI):
            [get(key) for key in keys[i:i + MULTI]]  # pylint: disable=expression-not-assigned

    def iterate(self):
        count = 0
        for _ in self.db.iterator():
            count += 1
        return count

    def close(self):
        self.db.close()


class Dlsm(Plyvel):
    def __init__(self, path):  # pylint: disable=super-init-not-called
        self.path = path
        self.db = dlsm.open(path, "bench")

    def batch_updates(self, keys, value):
        for i in range(0, len(keys), BATCH):
            with self.db.write_batch() as batch:
                batch.update([(key, value) for key in keys[i:i + BATCH]])

    def multi_get(self, keys):
        multi_get = self.db.multi_get
        for i in range(0, len(keys), MULTI):
            multi_get(keys[i:i + MULTI])

    def close(self):
        super().close()
        dlsm.destroy(self.path, "bench")


STORES = {
    "plyvel": Plyvel,
    "dlsm": lambda folder: Dlsm(os.path.join(folder, "dlsm")),
    "dlsm in memory": lambda folder: Dlsm(None),
}


def one_round(make, folder, records):
    """Nanoseconds of each operation, for each record. Each way to write fills a database of its own."""
    order = random.Random(1)
    keys = [b"%016d" % i for i in range(records)]
    shuffled = keys[:]
    order.shuffle(shuffled)
    value = order.randbytes(100)
    times = {}
    for name, write in (("batch of 100", "batches"), ("batch of 100, update()", "batch_updates"),
                        ("put", "put")):
        place = tempfile.mkdtemp(dir=folder)
        store = make(place)
        write = getattr(store, write)
        times[name] = timed(lambda: write(shuffled, value))
        if name == "put":
            times["get"] = timed(lambda: store.get(shuffled))
            times["multi_get of 64"] = timed(lambda: store.multi_get(shuffled))
            counted = []
            times["iterate"] = timed(lambda: counted.append(store.iterate()))
            assert counted == [records], counted
        assert store.db.get(keys[0]) == value
        store.close()
        shutil.rmtree(place)
    return {name: 1e9 * seconds / records for name, seconds in times.items()}


def compare(records, rounds, folder):
    found = {name: {} for name in STORES}
    names = list(STORES)
    for number in range(rounds):
        for name in names[number % len(names):] + names[:number % len(names)]:
            for operation, nanos in one_round(STORES[name], folder, records).items():
                found[name].setdefault(operation, []).append(nanos)
    print(f"{records} records of 16 B and 100 B: ns for each, the median of {rounds} (smallest to largest); "
          "and plyvel's median divided by it")
    for operation in found["plyvel"]:
        base = statistics.median(found["plyvel"][operation])
        for name in names:
            times = found[name][operation]
            median = statistics.median(times)
            print(f"  {operation:24}{name:16}{median:8.0f} ({min(times):.0f} to {max(times):.0f})"
                  f"{base / median:8.2f} x")


def arrays_round():
    """Gigabytes a second."""
    source = numpy.random.default_rng(1).random((ARRAYS, ARRAY_BYTES // 4), dtype=numpy.float32)
    target = numpy.zeros_like(source)
    keys = [b"%016d" % i for i in range(ARRAYS)]
    total = ARRAYS * ARRAY_BYTES / 1e9

    def copy():
        for i in range(ARRAYS):
            numpy.copyto(target[i], source[i])

    def put():
        for i in range(ARRAYS):
            db.put(keys[i], source[i])

    def get_copy():
        for i in range(ARRAYS):
            numpy.copyto(target[i], numpy.frombuffer(db.get_pinned(keys[i]), dtype=numpy.float32))

    def get_bytes():
        for i in range(ARRAYS):
            numpy.frombuffer(db.get(keys[i]), dtype=numpy.float32)

    def get_pinned():
        for i in range(ARRAYS):
            numpy.frombuffer(db.get_pinned(keys[i]), dtype=numpy.float32)

    db = dlsm.open(None, "arrays", log="none", write_buffer_size=256 << 20)
    works = {"numpy.copyto": copy, "put(key, array)": put, "put again": put,
             "get_pinned() and numpy.copyto": get_copy, "get() to bytes": get_bytes,
             "get_pinned(), no copy": get_pinned}
    speeds = {name: total / timed(work) for name, work in works.items()}
    assert (target == source).all()
    db.close()
    dlsm.destroy(None, "arrays")
    return speeds


def compare_arrays(rounds):
    found = {}
    for _ in range(rounds):
        for name, speed in arrays_round().items():
            found.setdefault(name, []).append(speed)
    base = statistics.median(found["numpy.copyto"])
    print(f"arrays of {ARRAY_BYTES >> 10} KiB, {ARRAYS} of them, log=\"none\": GB/s, the median of {rounds} "
          "(smallest to largest); and part of numpy.copyto's")
    for name, speeds in found.items():
        median = statistics.median(speeds)
        print(f"  {name:40}{median:8.2f} ({min(speeds):.2f} to {max(speeds):.2f}){100 * median / base:8.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default=None, help="where the databases are; by default a temporary folder")
    parser.add_argument("--processor_time", action="store_true",
                        help="that of the calling thread, for a machine that others use at the same time")
    args = parser.parse_args()
    if args.processor_time:
        global clock  # pylint: disable=global-statement
        clock = time.thread_time
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        compare(args.records, args.rounds, folder)
        compare_arrays(args.rounds)


if __name__ == "__main__":
    main()
