"""Tests of the Python package, by unittest: python -m unittest discover -s script/python/tests.

With DLSM_SERVER, the path of a Server, also over the network.
"""
import ast
import gc
import importlib.resources
import itertools
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import dlsm
from dlsm import _dlsm

_numbers = itertools.count()


def in_memory(**options):
    """A new database. The memory node in this process keeps those that were closed."""
    return dlsm.open(None, f"test{next(_numbers)}", **options)


class ReadsAndWritesTest(unittest.TestCase):
    def setUp(self):
        self.db = in_memory()
        self.addCleanup(self.db.close)

    def test_a_map_from_bytes_to_bytes(self):
        db = self.db
        db[b"a"] = b"1"
        db.put(b"b", b"2", sync=True)
        db.put(b"", b"")
        self.assertEqual((db[b"a"], db.get(b"b"), db[b""]), (b"1", b"2", b""))
        self.assertIs(type(db[b"a"]), bytes)
        self.assertIn(b"a", db)
        self.assertNotIn(b"c", db)
        del db[b"a"]
        db.delete(b"a")
        db.delete(b"never there", sync=True)
        self.assertIsNone(db.get(b"a"))
        self.assertEqual(db.get(b"a", b"otherwise"), b"otherwise")
        self.assertEqual(db.get(b"a", default=7), 7)
        with self.assertRaises(KeyError) as raised:
            db[b"a"]  # pylint: disable=pointless-statement
        self.assertEqual(raised.exception.args, (b"a",))

    def test_bytes_like_objects(self):
        key = bytearray(b"key\0\xff")
        self.db[key] = memoryview(b"xvaluex")[1:-1]
        self.assertEqual(self.db[memoryview(key)], b"value")
        self.db[b"empty"] = bytearray()
        self.assertEqual(self.db[b"empty"], b"")
        for wrong in ("text", 1, None, [1]):
            with self.assertRaises(TypeError):
                self.db[wrong] = b""
            with self.assertRaises(TypeError):
                self.db[b"key"] = wrong
            with self.assertRaises(TypeError):
                self.db.get(wrong)
        with self.assertRaises(BufferError):
            self.db[memoryview(b"abcd")[::2]] = b""

    def test_large_values(self):
        value = os.urandom(8 << 20)
        self.db[b"large"] = value
        self.assertEqual(self.db[b"large"], value)
        with self.assertRaises(dlsm.InvalidArgument) as raised:
            self.db[b"key" * (1 << 20)] = b""
        self.assertIsInstance(raised.exception, ValueError)
        self.assertTrue(str(raised.exception))

    def test_multi_get(self):
        for i in range(100):
            self.db[b"%03d" % i] = b"v%d" % i
        self.db.flush()
        keys = (b"%03d" % i for i in (5, 500, 5, 99))
        self.assertEqual(self.db.multi_get(keys), [b"v5", None, b"v5", b"v99"])
        self.assertEqual(self.db.multi_get([b"none", bytearray(b"001")], default=b""), [b"", b"v1"])
        self.assertEqual(self.db.multi_get([]), [])
        with self.assertRaises(TypeError):
            self.db.multi_get([b"000", "text"])

    def test_delete_range(self):
        for key in (b"a", b"b", b"c", b"d"):
            self.db[key] = key
        self.db.delete_range(b"b", b"d")
        self.assertEqual(list(self.db), [b"a", b"d"])
        with self.assertRaises(dlsm.InvalidArgument):
            self.db.delete_range(b"d", b"b")

    def test_maintenance(self):
        for i in range(1000):
            self.db[b"%d" % i] = b"x" * 100
        self.db.flush()
        self.db.compact_range()
        self.db.compact_range(b"1", end=b"2")
        self.assertEqual(self.db[b"17"], b"x" * 100)
        self.assertIn("", self.db.property("dlsm.stats"))
        self.assertIsNone(self.db.property("no such property"))

    def test_threads_run_side_by_side(self):
        def work(number):
            try:
                for i in range(2000):
                    key = b"%d/%d" % (number, i)
                    self.db[key] = key
                    assert self.db[key] == key
                assert len(list(self.db.iterator(prefix=b"%d/" % number))) == 2000
            except BaseException as error:  # pylint: disable=broad-exception-caught
                failures.append(error)

        failures = []
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class WriteBatchTest(unittest.TestCase):
    def setUp(self):
        self.db = in_memory()
        self.addCleanup(self.db.close)

    def test_all_at_the_end_of_the_block(self):
        self.db[b"old"] = b"1"
        with self.db.write_batch(sync=True) as batch:
            batch[b"a"] = bytearray(b"1")
            batch.put(b"b", b"2")
            batch.put(b"c", b"3")
            del batch[b"old"]
            batch.delete(b"c")
            self.assertEqual(len(batch), 5)
            self.assertEqual(list(self.db), [b"old"])
        self.assertEqual(list(self.db.iterator()), [(b"a", b"1"), (b"b", b"2")])
        with self.db.write_batch() as batch:
            batch.delete_range(b"a", b"b")
        self.assertEqual(list(self.db), [b"b"])

    def test_nothing_after_an_exception(self):
        with self.assertRaises(ZeroDivisionError):
            with self.db.write_batch() as batch:
                batch[b"a"] = b"1"
                1 / 0  # pylint: disable=pointless-statement
        self.assertEqual(list(self.db), [])
        self.assertEqual(len(batch), 0)

    def test_clear_and_commit(self):
        batch = self.db.write_batch()
        batch[b"a"] = b"1"
        batch.clear()
        batch[b"b"] = b"2"
        batch.commit()
        self.assertEqual((list(self.db), len(batch)), ([b"b"], 0))

    def test_a_refused_batch_can_be_tried_again(self):
        batch = self.db.write_batch()
        batch[b"a"] = b"1"
        batch.delete_range(b"z", b"y")
        with self.assertRaises(dlsm.InvalidArgument):
            batch.commit()
        self.assertEqual((list(self.db), len(batch)), ([], 2))


class IteratorTest(unittest.TestCase):
    def setUp(self):
        self.db = in_memory()
        self.addCleanup(self.db.close)
        self.keys = [b"%04d" % i for i in range(1000)]
        for key in self.keys:
            self.db[key] = b"v" + key
        self.db.flush()

    def keys_of(self, *args, **options):
        with self.db.iterator(*args, include_value=False, **options) as iterator:
            return list(iterator)

    def test_pairs_keys_and_values(self):
        pairs = [(key, b"v" + key) for key in self.keys]
        self.assertEqual(list(self.db.iterator()), pairs)
        self.assertEqual(list(self.db.iterator(reverse=True)), pairs[::-1])
        self.assertEqual(list(self.db), self.keys)
        self.assertEqual(list(self.db.iterator(include_key=False)), [value for _, value in pairs])
        with self.assertRaises(ValueError):
            self.db.iterator(include_key=False, include_value=False)

    def test_bounds(self):
        for reverse in (False, True):
            step = -1 if reverse else 1
            for start, stop in ((0, 0), (0, 1), (5, 300), (5, 5), (300, 5), (0, 1000), (999, 1000)):
                expected = self.keys[start:stop][::step]
                found = self.keys_of(b"%04d" % start, b"%04d" % stop, reverse=reverse)
                self.assertEqual(found, expected, (start, stop, reverse))
            self.assertEqual(self.keys_of(start=b"0990", reverse=reverse), self.keys[990:][::step])
            self.assertEqual(self.keys_of(stop=b"0010", reverse=reverse), self.keys[:10][::step])
            self.assertEqual(self.keys_of(prefix=b"01", reverse=reverse), self.keys[100:200][::step])
            self.assertEqual(self.keys_of(b"0150", prefix=b"01", stop=b"0300", reverse=reverse),
                             self.keys[150:200][::step])
            self.assertEqual(self.keys_of(prefix=b"x", reverse=reverse), [])
            self.assertEqual(self.keys_of(prefix=b"", reverse=reverse), self.keys[::step])

    def test_prefixes_of_the_largest_byte(self):
        for key in (b"\xfe", b"\xff", b"\xff\xff", b"\xff\xff\xff", b"a\xff", b"a\xffb", b"b"):
            self.db[key] = b""
        self.assertEqual(self.keys_of(prefix=b"\xff\xff"), [b"\xff\xff", b"\xff\xff\xff"])
        self.assertEqual(self.keys_of(prefix=b"a\xff", reverse=True), [b"a\xffb", b"a\xff"])

    def test_seek(self):
        with self.db.iterator(b"0100", b"0200", include_value=False) as iterator:
            self.assertEqual(next(iterator), b"0100")
            iterator.seek(b"01500")
            self.assertEqual(next(iterator), b"0151")
            iterator.seek(b"0000")
            self.assertEqual(next(iterator), b"0100")
            iterator.seek(b"0200")
            self.assertEqual(list(iterator), [])
        with self.db.iterator(b"0100", b"0200", include_value=False, reverse=True) as iterator:
            for target, found in ((b"01500", b"0150"), (b"0150", b"0150"), (b"0900", b"0199")):
                iterator.seek(target)
                self.assertEqual(next(iterator), found)
            iterator.seek(b"0099")
            self.assertEqual(list(iterator), [])

    def test_as_of_its_beginning(self):
        iterator = self.db.iterator()
        next(iterator)
        self.db.delete_range(b"", b"\xff")
        self.assertEqual(len(list(iterator)), 999)
        self.assertEqual(list(self.db), [])

    def test_a_closed_iterator(self):
        iterator = self.db.iterator()
        next(iterator)
        iterator.close()
        iterator.close()
        with self.assertRaises(dlsm.Error):
            next(iterator)
        with self.assertRaises(dlsm.Error):
            iterator.seek(b"")

    def test_stays_at_its_end(self):
        iterator = self.db.iterator(prefix=b"0001")
        self.assertEqual(len(list(iterator)), 1)
        self.assertEqual(list(iterator), [])


class SnapshotTest(unittest.TestCase):
    def setUp(self):
        self.db = in_memory()
        self.addCleanup(self.db.close)

    def test_reads_of_the_past(self):
        self.db[b"a"] = b"1"
        with self.db.snapshot() as snapshot:
            self.db[b"a"] = b"2"
            self.db[b"b"] = b"2"
            self.db.flush()
            self.db.compact_range()
            self.assertEqual(self.db.get(b"a", snapshot=snapshot), b"1")
            self.assertEqual(self.db.multi_get([b"a", b"b"], snapshot=snapshot), [b"1", None])
            self.assertEqual(list(self.db.iterator(snapshot=snapshot)), [(b"a", b"1")])
            self.assertEqual(self.db[b"a"], b"2")
            iterator = self.db.iterator(snapshot=snapshot)
        with self.assertRaises(dlsm.Error):
            self.db.get(b"a", snapshot=snapshot)
        self.db.compact_range()
        self.assertEqual(list(iterator), [(b"a", b"1")])

    def test_of_another_database(self):
        with in_memory() as other, other.snapshot() as snapshot:
            with self.assertRaises(dlsm.InvalidArgument):
                self.db.get(b"a", snapshot=snapshot)
            with self.assertRaises(dlsm.InvalidArgument):
                self.db.iterator(snapshot=snapshot)


class CloseTest(unittest.TestCase):
    def test_every_later_call_raises(self):
        db = in_memory()
        for i in range(1000):
            db[b"%d" % i] = b"1"
        iterator = db.iterator()
        next(iterator)
        next(iterator)
        snapshot = db.snapshot()
        batch = db.write_batch()
        batch[b"a"] = b"2"
        self.assertFalse(db.closed)
        db.close()
        db.close()
        self.assertTrue(db.closed)
        for call in (lambda: db[b"a"], lambda: db.get(b"a"), lambda: b"a" in db, lambda: list(db),
                     lambda: db.put(b"a", b""), lambda: db.delete(b"a"), lambda: db.multi_get([b"a"]),
                     lambda: db.delete_range(b"a", b"b"), db.write_batch, db.snapshot, db.iterator,
                     db.flush, db.compact_range, lambda: db.property("dlsm.stats"),
                     lambda: db.get(b"a", snapshot=snapshot), lambda: next(iterator),
                     lambda: iterator.seek(b"a"), batch.commit):
            with self.assertRaises(dlsm.Error):
                call()
        snapshot.close()
        iterator.close()
        del db, snapshot, iterator, batch
        gc.collect()

    def test_what_came_from_it_keeps_it_open(self):
        name = f"test{next(_numbers)}"
        db = dlsm.open(None, name)
        db[b"a"] = b"1"
        batch, iterator = db.write_batch(), db.iterator()
        del db
        gc.collect()
        self.assertEqual(list(iterator), [(b"a", b"1")])
        with batch:
            batch[b"b"] = b"2"
        with self.assertRaises(dlsm.Busy):
            dlsm.open(None, name)
        del batch, iterator
        gc.collect()
        with dlsm.open(None, name) as db:
            self.assertEqual(list(db), [b"a", b"b"])

    def test_while_threads_use_it(self):
        for _ in range(5):
            db = in_memory()
            for i in range(500):
                db[b"%d" % i] = b"1"
            unexpected = []

            def work(db=db, unexpected=unexpected):
                try:
                    while True:
                        with db.snapshot() as snapshot, db.iterator(snapshot=snapshot) as iterator:
                            for key, _ in iterator:
                                db[key] = b"2"
                        db.multi_get([b"1", b"2"])
                except dlsm.Error as error:
                    if "closed" not in str(error):
                        unexpected.append(error)

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(0.05)
            db.close()
            for thread in threads:
                thread.join()
            self.assertEqual(unexpected, [])

    def test_a_child_of_fork_cannot_use_it(self):
        script = """
import os, dlsm
db = dlsm.open(None)
db[b"a"] = b"1"
iterator, snapshot = db.iterator(), db.snapshot()
child = os.fork()
if child == 0:
    try:
        db[b"a"] = b"2"
    except dlsm.InvalidArgument:
        db.close()
        del iterator, snapshot, db
        raise SystemExit(42)
    raise SystemExit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
assert list(iterator) == [(b"a", b"1")] and db[b"a"] == b"1"
"""
        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

    def test_the_interpreter_ends_with_open_databases(self):
        script = """
import threading, dlsm
db = dlsm.open(None)
def work():
    while True:
        db[b"a"] = b"1"
threading.Thread(target=work, daemon=True).start()
iterator, snapshot, batch = iter(db), db.snapshot(), db.write_batch()
"""
        ended = subprocess.run([sys.executable, "-c", script], check=True, timeout=60,
                               stderr=subprocess.PIPE)
        self.assertNotIn(b"terminate", ended.stderr)


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
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with subprocess.Popen([os.environ["DLSM_SERVER"], str(port), "1", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                node = f"127.0.0.1:{port}"
                with dlsm.open(memory_nodes=[node], fabric="tcp", open_timeout_ms=30000) as db:
                    db[b"a"] = b"1"
                with dlsm.open(memory_nodes=node, fabric="tcp") as db:
                    self.assertEqual(list(db.iterator()), [(b"a", b"1")])
            finally:
                server.kill()


class ErrorsTest(unittest.TestCase):
    def test_classes(self):
        for name in ("NotFound", "Corruption", "NotSupported", "InvalidArgument", "IOError_", "Busy",
                     "TimedOut", "Aborted", "IOFenced", "Incomplete"):
            self.assertTrue(issubclass(getattr(dlsm, name), dlsm.Error))
        self.assertTrue(issubclass(dlsm.IOFenced, dlsm.IOError_))
        self.assertTrue(issubclass(dlsm.TimedOut, TimeoutError))


class StubTest(unittest.TestCase):
    def test_it_has_what_the_module_has(self):
        stub = ast.parse((importlib.resources.files("dlsm") / "_dlsm.pyi").read_text())
        self.assertTrue((importlib.resources.files("dlsm") / "py.typed").is_file())
        for node in stub.body:
            if not isinstance(node, ast.ClassDef):
                continue
            described = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
            there = {name for name, value in vars(getattr(_dlsm, node.name)).items()
                     if not name.startswith("__") or name in described}
            self.assertEqual(described, there, node.name)


if __name__ == "__main__":
    unittest.main()
