"""Values without a copy, by the buffer protocol."""
import gc
import os
import subprocess
import sys
import tempfile
import unittest

import dlsm
from databases import in_memory, server


class PinnedValueTest(unittest.TestCase):
    def setUp(self):
        self.db = in_memory()
        self.addCleanup(self.db.close)

    def test_a_read_only_buffer(self):
        self.db[b"a"] = b"value"
        with self.db.get_pinned(b"a") as value:
            self.assertEqual((bytes(value), len(value)), (b"value", 5))
            with memoryview(value) as view:
                self.assertTrue(view.readonly)
                self.assertEqual((view.tobytes(), view.nbytes, bytes(view[1:3])), (b"value", 5, b"al"))
                with self.assertRaises(TypeError):
                    view[0] = 1
        self.db[b"b"] = value = b""
        self.assertEqual(bytes(self.db.get_pinned(b"b")), b"")
        self.assertIsNone(self.db.get_pinned(b"c"))
        self.assertEqual(self.db.get_pinned(b"c", 7), 7)

    def test_nothing_is_copied(self):
        """Two views of one value have one address, in a memtable as well as in a table."""
        self.db[b"a"] = os.urandom(100_000)
        for _ in range(2):
            one, two = self.db.get_pinned(b"a"), self.db.get_pinned(b"a")
            self.assertTrue(one.pinned)
            self.assertEqual(address(one), address(two))
            self.db.flush()

    def test_it_stays_as_it_was(self):
        self.db[b"a"] = b"1" * 1000
        view = memoryview(self.db.get_pinned(b"a"))
        self.db[b"a"] = b"2"
        self.db.flush()
        self.db.compact_range()
        gc.collect()
        self.assertEqual(view, b"1" * 1000)
        with self.db.snapshot() as snapshot:
            self.db[b"a"] = b"3"
            self.assertEqual(bytes(self.db.get_pinned(b"a", snapshot=snapshot)), b"2")

    def test_a_key_or_value_again(self):
        self.db[b"a"] = b"b"
        self.db[self.db.get_pinned(b"a")] = self.db.get_pinned(b"a")
        self.assertEqual(self.db[b"b"], b"b")

    def test_release(self):
        self.db[b"a"] = b"value"
        value = self.db.get_pinned(b"a")
        view = memoryview(value)
        with self.assertRaises(BufferError):
            value.release()
        view.release()
        value.release()
        value.release()
        for use in (lambda: memoryview(value), lambda: bytes(value), lambda: len(value),
                    lambda: value.pinned):
            with self.assertRaises(dlsm.Closed):
                use()

    def test_close_waits_for_nobody(self):
        self.db[b"a"] = b"value"
        value, other = self.db.get_pinned(b"a"), self.db.get_pinned(b"a")
        view = memoryview(value)
        with self.assertRaises(BufferError) as raised:
            self.db.close()
        self.assertIn("1 buffer", str(raised.exception))
        self.assertEqual((self.db[b"a"], bytes(view)), (b"value", b"value"))
        del view
        self.db.close()
        for pinned in (value, other):
            with self.assertRaises(dlsm.Closed):
                memoryview(pinned)

    def test_the_value_keeps_the_database_open(self):
        db = in_memory()
        db[b"a"] = b"value"
        view = memoryview(db.get_pinned(b"a"))
        del db
        gc.collect()
        self.assertEqual(view, b"value")

    def test_the_interpreter_ends_with_buffers(self):
        with tempfile.TemporaryDirectory() as folder:
            script = """
import sys, dlsm
db = dlsm.open(sys.argv[1])
db[b"a"] = b"value"
view = memoryview(db.get_pinned(b"a"))
"""
            subprocess.run([sys.executable, "-c", script, folder + "/db"], check=True, timeout=60)
            with dlsm.open(folder + "/db") as db:
                self.assertEqual(db[b"a"], b"value")

    @unittest.skipUnless(os.environ.get("DLSM_SERVER"), "DLSM_SERVER is not set")
    def test_over_a_network_and_shared_memory(self):
        with server() as node:
            for fabric in ("tcp", "shm"):
                with dlsm.open(fabric, memory_nodes=node, fabric=fabric, open_timeout_ms=30000) as db:
                    db[b"small"], db[b"large"] = b"1", b"2" * 100_000
                    db.flush()
                    small, large = db.get_pinned(b"small"), db.get_pinned(b"large")
                    self.assertEqual((bytes(small), bytes(large)), (b"1", b"2" * 100_000))
                    self.assertEqual((fabric, small.pinned), (fabric, fabric == "shm"))
                    self.assertTrue(large.pinned)


def address(value):
    """Of the bytes that the buffer of `value` shows."""
    import ctypes  # pylint: disable=import-outside-toplevel

    class Buffer(ctypes.Structure):
        _fields_ = [("buf", ctypes.c_void_p), ("rest", ctypes.c_char * 200)]

    buffer = Buffer()
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    release.argtypes = [ctypes.c_void_p]
    get(value, ctypes.byref(buffer), 0)
    release(ctypes.byref(buffer))
    return buffer.buf


if __name__ == "__main__":
    unittest.main()
