"""Sorted streams that become tables."""
import unittest

import dlsm
from databases import in_memory


class IngestTest(unittest.TestCase):
    def setUp(self):
        self.db = in_memory()
        self.addCleanup(self.db.close)

    def test_pairs_become_tables(self):
        self.db[b"00500"] = b"old"
        entries = self.db.ingest_sorted((b"%05d" % i, bytearray(b"v%d" % i)) for i in range(1000))
        self.assertEqual(entries, 1000)
        self.assertEqual(self.db[b"00500"], b"v500")
        self.assertEqual(len(list(self.db)), 1000)
        self.assertEqual(self.db.statistics()["dlsm.ingests"], 1)
        self.assertEqual(self.db.ingest_sorted([]), 0)

    def test_what_cannot_be(self):
        with self.assertRaisesRegex(dlsm.InvalidArgument, "entry 2 of the sorted stream"):
            self.db.ingest_sorted([(b"b", b"1"), (b"a", b"2")])
        for wrong in (7, [b"a"], [(b"a", "text")], [(b"a", b"b", b"c")]):
            with self.assertRaises(TypeError):
                self.db.ingest_sorted(wrong)

        def failing():
            yield b"a", b"1"
            raise KeyError("the reader's own")

        with self.assertRaisesRegex(KeyError, "the reader's own"):
            self.db.ingest_sorted(failing())
        self.assertEqual(list(self.db), [])

    def test_the_iterable_may_use_the_database(self):
        def pairs():
            for i in range(300):
                self.db[b"beside%03d" % i] = b"2"
                yield b"key%03d" % i, b"1"

        self.assertEqual(self.db.ingest_sorted(pairs()), 300)
        self.assertEqual(len(list(self.db)), 600)


if __name__ == "__main__":
    unittest.main()
