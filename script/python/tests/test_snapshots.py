"""Snapshots."""
import unittest

import dlsm
from databases import in_memory


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


if __name__ == "__main__":
    unittest.main()
