"""Single reads and writes, and maintenance."""
import os
import threading
import unittest

import dlsm
from databases import in_memory


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


if __name__ == "__main__":
    unittest.main()
