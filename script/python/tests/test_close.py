"""Databases that are closed, by a call or by the end of a process."""
import gc
import subprocess
import sys
import threading
import time
import unittest

import dlsm
from databases import in_memory


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
            with self.assertRaises(dlsm.Closed) as raised:
                call()
            self.assertIsInstance(raised.exception, RuntimeError)
        snapshot.close()
        iterator.close()
        del db, snapshot, iterator, batch
        gc.collect()

    def test_what_came_from_it_keeps_it_open(self):
        name = "kept open"
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


if __name__ == "__main__":
    unittest.main()
