"""The log, numbers of writes, counters, and maintenance."""
import subprocess
import sys
import tempfile
import unittest

import dlsm
from databases import in_memory


class DurabilityTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name + "/db"

    def test_numbers_of_writes(self):
        with dlsm.open(self.path, log="disk") as db:
            before = db.latest_sequence()
            db[b"a"] = b"1"
            with db.write_batch() as batch:
                batch.update({b"b": b"", b"c": b""})
            self.assertEqual(db.latest_sequence(), before + 3)
            db.wait_durable(db.latest_sequence())
            self.assertGreaterEqual(db.durable_sequence(), before + 3)
            with self.assertRaises(dlsm.InvalidArgument):
                db.wait_durable(db.latest_sequence() + 1)
            with self.assertRaises(TypeError):
                db.wait_durable(-1)

    def test_what_was_flushed_survives_a_killed_process(self):
        script = """
import os, signal, sys, dlsm
db = dlsm.open(sys.argv[1], log="disk", log_sync_interval_ms=0)
db[b"a"] = b"1"
db.flush_log(sync=True)
db[b"b"] = b"2"
db.flush_log()
os.kill(os.getpid(), signal.SIGKILL)
"""
        subprocess.run([sys.executable, "-c", script, self.path], check=False, timeout=60)
        with dlsm.open(self.path, open_timeout_ms=60000) as db:
            self.assertEqual(list(db), [b"a", b"b"])


class CountersTest(unittest.TestCase):
    def test_statistics(self):
        with in_memory() as db:
            db[b"a"] = b"1"
            db.get(b"a")
            db.get(b"b")
            counters = db.statistics()
            self.assertEqual([counters[f"dlsm.keys.{name}"] for name in ("written", "read", "found")],
                             [1, 2, 1])

    def test_set_options(self):
        with in_memory() as db:
            db.set_options({"merge_scheduler": "fair", "compaction_bandwidth": 1 << 30})
            with self.assertRaises(dlsm.InvalidArgument):
                db.set_options({"no_such_option": 1})

    def test_sizes(self):
        with in_memory() as db:
            for i in range(1000):
                db[b"%04d" % i] = b"x" * 1000
            db.flush()
            db.wait_for_background_work()
            some, all_of_it, none = db.approximate_sizes([(b"0000", b"0100"), (b"", b"\xff"), (b"a", b"b")])
            self.assertGreater(all_of_it, 900_000)
            self.assertTrue(50_000 < some < 200_000, some)
            self.assertEqual(none, 0)
            self.assertEqual(db.approximate_sizes([]), [])
            with self.assertRaises(TypeError):
                db.approximate_sizes([b"a"])


if __name__ == "__main__":
    unittest.main()
