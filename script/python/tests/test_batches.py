"""Write batches."""
import unittest

import dlsm
from databases import in_memory


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

    def test_update(self):
        with self.db.write_batch() as batch:
            batch.update({b"a": b"1", b"b": bytearray(b"2")})
            batch.update([(b"c", b"3"), [b"d", b"4"]])
            batch.update((b"%d" % i, b"") for i in range(2))
            self.assertEqual(len(batch), 6)
        self.assertEqual(self.db.multi_get([b"a", b"b", b"c", b"d", b"0", b"1"]),
                         [b"1", b"2", b"3", b"4", b"", b""])

    def test_a_refused_update_adds_nothing(self):
        batch = self.db.write_batch()
        batch[b"a"] = b"1"
        for wrong, error in (([(b"b", b""), (b"c", "text")], TypeError), ([(b"b", b"", b"")], ValueError),
                             ([b"b"], ValueError), ([5], TypeError), (5, TypeError)):
            with self.assertRaises(error):
                batch.update(wrong)
        batch.commit()
        self.assertEqual(list(self.db), [b"a"])

    def test_append(self):
        one, two = self.db.write_batch(), self.db.write_batch()
        one[b"a"] = b"1"
        two[b"b"] = b"2"
        size = one.approximate_size()
        one.append(two)
        self.assertGreater(one.approximate_size(), size)
        one.commit()
        self.assertEqual((list(self.db), len(two)), ([b"a", b"b"], 1))


if __name__ == "__main__":
    unittest.main()
