"""How databases are opened, with which options."""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import dlsm
from databases import in_memory, server


class OpenTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_directory_keeps_what_was_written(self):
        with dlsm.open(self.folder / "db") as db:
            db[b"a"] = b"1"
            with self.assertRaises(dlsm.Busy):
                dlsm.open(self.folder / "db")
        with dlsm.open(str(self.folder / "db"), create_if_missing=False) as db:
            self.assertEqual(db[b"a"], b"1")
            db.put(b"b", b"2", sync=True)
        with dlsm.open(os.fsencode(self.folder / "db")) as db:
            self.assertEqual(list(db), [b"a", b"b"])

    def test_what_was_synced_survives_a_killed_process(self):
        script = """
import os, signal, sys, dlsm
db = dlsm.open(sys.argv[1])
db.put(b"a", b"1", sync=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
        subprocess.run([sys.executable, "-c", script, str(self.folder / "db")], check=False, timeout=60)
        with dlsm.open(self.folder / "db", open_timeout_ms=60000) as db:
            self.assertEqual(db[b"a"], b"1")

    def test_options(self):
        with in_memory(shards=2, shard_boundaries=[b"m"], write_buffer_size=1 << 20, slow_down_writes=True,
                       compaction_style="leveled", table_format="block_based", compression="snappy",
                       log="none") as db:
            db[b"a"], db[b"z"] = b"1", b"2"
            self.assertEqual(list(db), [b"a", b"z"])
        for wrong in ({"no_such_option": 1}, {"shards": "2"}, {"take_over": 1}, {"fabric": 5},
                      {"memory_budget": -1}, {"shard_boundaries": [1]}):
            with self.assertRaises(TypeError, msg=str(wrong)):
                in_memory(**wrong)
        with self.assertRaises(ValueError):
            in_memory(log="everything")
        with self.assertRaises(dlsm.InvalidArgument):
            in_memory(shards=100000)
        with self.assertRaises(dlsm.InvalidArgument):
            dlsm.open(None, "not there", create_if_missing=False)
        with self.assertRaises(dlsm.InvalidArgument):
            dlsm.open(self.folder / "db", memory_nodes="127.0.0.1:1")
        with self.assertRaises(TypeError):
            dlsm.open(5)

    def test_no_memory_node(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            with self.assertRaises(dlsm.Error) as raised:
                dlsm.open(memory_nodes=f"127.0.0.1:{taken.getsockname()[1]}", open_timeout_ms=200)
        self.assertIsInstance(raised.exception, OSError)

    @unittest.skipUnless(os.environ.get("DLSM_SERVER"), "DLSM_SERVER is not set")
    def test_a_server(self):
        with server() as node:
            with dlsm.open(memory_nodes=[node], fabric="tcp", open_timeout_ms=30000) as db:
                db[b"a"] = b"1"
            with dlsm.open("db", memory_nodes=node, fabric="tcp") as db:
                self.assertEqual(list(db.iterator()), [(b"a", b"1")])
            with dlsm.open("other", memory_nodes=node, fabric="tcp") as db:
                self.assertEqual(list(db), [])
            dlsm.destroy("db", memory_nodes=node, fabric="tcp")
            with self.assertRaises(dlsm.InvalidArgument):
                dlsm.open("db", memory_nodes=node, fabric="tcp", create_if_missing=False)

    def test_destroy(self):
        with dlsm.open(self.folder / "db") as db:
            db[b"a"] = b"1"
            with self.assertRaises(dlsm.Busy):
                dlsm.destroy(self.folder / "db")
        dlsm.destroy(self.folder / "db")
        dlsm.destroy(self.folder / "db")
        with self.assertRaises(dlsm.InvalidArgument):
            dlsm.open(self.folder / "db", create_if_missing=False)
        with self.assertRaises(TypeError):
            dlsm.destroy(self.folder / "db", no_such_option=1)

    def test_names_in_one_directory(self):
        with dlsm.open(self.folder / "db", "one") as one, dlsm.open(self.folder / "db", "two") as two:
            one[b"a"] = b"1"
            self.assertEqual((list(one), list(two)), ([b"a"], []))

    def test_caches_and_filters(self):
        with in_memory(table_format="block_based", lru_cache_size=1 << 20, bloom_filter_bits=12) as db:
            db[b"a"] = b"1"
            db.flush()
            self.assertEqual((db[b"a"], db.get(b"b")), (b"1", None))
        for wrong in ({"lru_cache_size": "1"}, {"bloom_filter_bits": 1.5}, {"lru_cache_size": -1}):
            with self.assertRaises(TypeError, msg=str(wrong)):
                in_memory(**wrong)


class ComparatorTest(unittest.TestCase):
    def test_an_order_of_ones_own(self):
        def by_length(a, b):
            return (len(a) > len(b)) - (len(a) < len(b)) or (a > b) - (a < b)

        with in_memory(comparator=("by length", by_length), write_buffer_size=1 << 16) as db:
            keys = [b"%d" % i for i in range(5000)]
            for key in reversed(keys):
                db[key] = key
            db.flush()
            self.assertEqual(list(db), keys)
            self.assertEqual(db[b"999"], b"999")
            with db.iterator(b"998", b"1001", include_value=False) as iterator:
                self.assertEqual(list(iterator), [b"998", b"999", b"1000"])
            db.compact_range()
            self.assertEqual(list(db), keys)

    def test_an_exception_is_reported(self):
        unraisable = []
        hook = sys.unraisablehook
        sys.unraisablehook = lambda found: unraisable.append(found.exc_type)
        try:
            with in_memory(comparator=("broken", lambda a, b: 1 // 0)) as db:
                db[b"b"] = db[b"a"] = b""
                self.assertEqual(list(db), [b"a", b"b"])
        finally:
            sys.unraisablehook = hook
        self.assertEqual(set(unraisable), {ZeroDivisionError})

    def test_wrong_ones(self):
        for wrong in (len, ("name", 5), ("name",), (5, len)):
            with self.assertRaises(TypeError, msg=str(wrong)):
                in_memory(comparator=wrong)
        with self.assertRaises(dlsm.InvalidArgument):
            in_memory(comparator=("dlsm.mine", lambda a, b: 0))


if __name__ == "__main__":
    unittest.main()
