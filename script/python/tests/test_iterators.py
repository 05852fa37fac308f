"""Iterators."""
import random
import unittest

import dlsm
from databases import in_memory


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

    def test_a_walk_forward_and_back(self):
        """Any walk is that of an index into the list of keys: whatever was read ahead."""
        walk = random.Random(1)
        for reverse in (False, True):
            keys = self.keys[100:400][::-1 if reverse else 1]
            with self.db.iterator(b"0100", b"0400", include_value=False, reverse=reverse) as iterator:
                place = 0
                for step in range(3000):
                    choice = walk.randrange(100)
                    if choice == 0:
                        target = walk.randrange(50, 450)
                        iterator.seek(b"%04d" % target)
                        place = min(max(399 - target if reverse else target - 100, 0), 300)
                    elif choice < 3:
                        to_start = walk.random() < 0.5
                        (iterator.seek_to_start if to_start else iterator.seek_to_stop)()
                        place = 0 if to_start != reverse else 300
                    else:
                        forward = walk.random() < (0.8 if step % 1000 < 500 else 0.2)
                        expected = keys[place:place + 1] if forward else keys[max(place - 1, 0):place]
                        try:
                            found = [next(iterator) if forward else iterator.prev()]
                        except StopIteration:
                            found = []
                        self.assertEqual(found, expected, (reverse, step, place))
                        place += len(found) if forward else -len(found)

    def test_prev_without_keys_and_values(self):
        iterator = self.db.iterator(include_key=False)
        self.assertEqual([next(iterator) for _ in range(3)], [b"v0000", b"v0001", b"v0002"])
        self.assertEqual([iterator.prev() for _ in range(3)], [b"v0002", b"v0001", b"v0000"])
        with self.assertRaises(StopIteration):
            iterator.prev()


if __name__ == "__main__":
    unittest.main()
