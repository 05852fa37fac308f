"""What plyvel's own tests, which script/python-test runs, do not ask of dlsm.plyvel."""
import os
import pathlib
import tempfile
import unittest

import dlsm
from dlsm import plyvel


class PlyvelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(pathlib.Path(folder.name) / "db")

    def test_a_database_that_is_open(self):
        with plyvel.DB(self.path, create_if_missing=True):
            for call in (plyvel.DB, plyvel.destroy_db, plyvel.repair_db):
                with self.assertRaises(plyvel.IOError) as raised:
                    call(self.path)
                self.assertIsInstance(raised.exception, OSError)

    def test_destroy_leaves_what_is_not_its_own(self):
        plyvel.DB(self.path, create_if_missing=True).close()
        with dlsm.open(self.path, "other") as other:
            other[b"a"] = b"1"
        plyvel.destroy_db(self.path)
        with dlsm.open(self.path, "other", create_if_missing=False) as other:
            self.assertEqual(other[b"a"], b"1")
        dlsm.destroy(self.path, "other")
        note = pathlib.Path(self.path) / "note"
        note.write_text("mine", encoding="utf-8")
        plyvel.destroy_db(self.path)
        self.assertEqual(os.listdir(self.path), ["note"])
        plyvel.destroy_db(self.path + "/never there")

    def test_numbers_out_of_leveldbs_bounds(self):
        with plyvel.DB(self.path, create_if_missing=True, write_buffer_size=1, max_file_size=1 << 50, block_size=1,
                       max_open_files=1, block_restart_interval=0, bloom_filter_bits=100) as db:
            db.put(b"a", b"1")
        with self.assertRaises(TypeError):
            plyvel.DB(self.path, no_such_option=1)

    def test_blocks(self):
        with plyvel.DB(self.path, create_if_missing=True, table_format="block_based", block_size=4096) as db:
            db.put(b"a", b"1" * 1000)
            db.compact_range()
            self.assertEqual(db.get(b"a", verify_checksums=True, fill_cache=False), b"1" * 1000)

    def test_a_batch_keeps_what_it_wrote(self):
        with plyvel.DB(self.path, create_if_missing=True) as db:
            batch = db.write_batch()
            batch.put(b"a", b"1")
            batch.write()
            db.delete(b"a")
            batch.write()
            self.assertEqual(db.get(b"a"), b"1")

    def test_parts(self):
        with plyvel.DB(self.path, create_if_missing=True) as db:
            for key in (b"a", b"p1", b"p2", b"p3", b"p\xff", b"q"):
                db.put(key, b"")
            part = db.prefixed_db(b"p")
            for arguments, expected in (({}, [b"1", b"2", b"3", b"\xff"]), ({"start": b"2"}, [b"2", b"3", b"\xff"]),
                                        ({"start": b"1", "stop": b"3", "include_start": False}, [b"2"]),
                                        ({"stop": b"2", "include_stop": True}, [b"1", b"2"]),
                                        ({"prefix": b"\xff", "include_start": False}, [b"\xff"])):
                for reverse in (False, True):
                    found = list(part.iterator(include_value=False, reverse=reverse, **arguments))
                    self.assertEqual(found, expected[::-1] if reverse else expected, arguments)
            with part.iterator(include_value=False, reverse=True) as iterator:
                iterator.seek(b"2")
                self.assertEqual((next(iterator), iterator.prev(), iterator.prev()), (b"1", b"1", b"2"))


if __name__ == "__main__":
    unittest.main()
