"""Handles that only read what another one publishes."""
import os
import unittest

import dlsm
from databases import server


@unittest.skipUnless(os.environ.get("DLSM_SERVER"), "DLSM_SERVER is not set")
class FollowerTest(unittest.TestCase):
    def test_it_reads_what_was_published(self):
        with server() as node:
            place = {"memory_nodes": node, "open_timeout_ms": 30000}
            with dlsm.open("db", publish_interval_ms=10, **place) as db:
                db[b"a"] = b"1"
                with dlsm.open_follower("db", follow_interval_ms=0, **place) as follower:
                    self.catch_up(follower, b"a", b"1")
                    db[b"b"] = b"2"
                    self.assertIsNone(follower.get(b"b"))
                    self.catch_up(follower, b"b", b"2")
                    self.assertEqual(list(follower.iterator()), [(b"a", b"1"), (b"b", b"2")])
                    self.assertEqual(bytes(follower.get_pinned(b"a")), b"1")
                    with self.assertRaises(dlsm.NotSupported):
                        follower[b"a"] = b"3"
                db.try_catch_up()
            with self.assertRaises(dlsm.NotFound):
                dlsm.open_follower("none", **place)

    def catch_up(self, follower, key, value):
        for _ in range(100_000):
            follower.try_catch_up()
            if follower.get(key) == value:
                return
        self.fail(f"the follower did not get {key}")


if __name__ == "__main__":
    unittest.main()
