"""Arrays of numpy, which the package itself does not need, as keys and values."""
import unittest

from databases import in_memory

try:
    import numpy
except ImportError:
    numpy = None


@unittest.skipUnless(numpy, "numpy is not installed")
class ArrayTest(unittest.TestCase):
    def setUp(self):
        self.db = in_memory()
        self.addCleanup(self.db.close)

    def test_there_and_back(self):
        for dtype in ("float32", "int64", "uint8", "complex128"):
            array = numpy.arange(1000).astype(dtype).reshape(10, 100)
            self.db[b"a"] = array
            self.assertEqual(self.db[b"a"], array.tobytes())
            found = numpy.frombuffer(self.db.get_pinned(b"a"), dtype=dtype).reshape(10, 100)
            self.assertTrue((found == array).all())
            with self.assertRaises(ValueError):
                found[0, 0] = 1

    def test_nothing_is_copied(self):
        self.db[b"a"] = numpy.arange(100_000, dtype="float32")
        one, two = (numpy.frombuffer(self.db.get_pinned(b"a"), dtype="float32") for _ in range(2))
        self.assertFalse(one.flags.owndata)
        self.assertEqual(one.__array_interface__["data"][0], two.__array_interface__["data"][0])

    def test_keys(self):
        numbers = numpy.array([3, 1, 2], dtype=">u4")
        with self.db.write_batch() as batch:
            for i in range(3):
                batch[numbers[i:i + 1]] = numbers
        self.assertEqual(numpy.frombuffer(b"".join(self.db), dtype=">u4").tolist(), [1, 2, 3])
        self.assertEqual(self.db.multi_get([numbers[:1], b"none"]), [numbers.tobytes(), None])
        self.assertIn(numbers[1:2], self.db)

    def test_one_that_is_in_pieces(self):
        array = numpy.zeros((10, 10), dtype="float32")
        for pieces in (array[:, 1], array[::2], array.T):
            for call in (lambda: self.db.put(b"a", pieces), lambda: self.db.put(pieces, b""),
                         lambda: self.db.get(pieces), lambda: self.db.write_batch().put(b"a", pieces)):
                with self.assertRaises(BufferError) as raised:
                    call()
                self.assertIn("C-contiguous", str(raised.exception))
        self.assertEqual(list(self.db), [])
        self.db[b"a"] = array.reshape(100)[10:20]
        self.assertEqual(len(self.db[b"a"]), 40)

    def test_an_array_can_be_used_after_the_call(self):
        array = bytearray(b"1234")
        self.db[b"a"] = array
        self.db[array] = b""
        array.extend(b"5")  # A BufferError if somebody kept its buffer.
        array[0] = ord("9")
        self.assertEqual((self.db[b"a"], list(self.db)), (b"1234", [b"1234", b"a"]))


if __name__ == "__main__":
    unittest.main()
