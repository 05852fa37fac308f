"""What the package exports."""
import ast
import importlib.resources
import unittest
import warnings

import dlsm
from dlsm import _dlsm


class ErrorsTest(unittest.TestCase):
    def test_classes(self):
        for name in ("NotFound", "Corruption", "NotSupported", "InvalidArgument", "IOError_", "Busy",
                     "TimedOut", "Aborted", "IOFenced", "Incomplete"):
            self.assertTrue(issubclass(getattr(dlsm, name), dlsm.Error))
        self.assertTrue(issubclass(dlsm.IOFenced, dlsm.IOError_))
        self.assertTrue(issubclass(dlsm.TimedOut, TimeoutError))
        self.assertTrue(issubclass(dlsm.Closed, (dlsm.Error, RuntimeError)))

    def test_objects_come_from_the_package_only(self):
        uses = ((dlsm.DB, lambda made: made.get(b"a")), (dlsm.DB, lambda made: made.close()),
                (dlsm.Iterator, next), (dlsm.PinnedValue, memoryview), (dlsm.Snapshot, lambda made: made.close()),
                (dlsm.WriteBatch, lambda made: made.put(b"a", b"")))
        for kind, use in uses:
            with self.assertRaises(TypeError):
                kind()
            with self.assertRaises((TypeError, dlsm.Error)), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                use(kind.__new__(kind))

    def test_arguments(self):
        with dlsm.open(None, "arguments") as db:
            for call in (lambda: db.get(), lambda: db.put(b"a"), lambda: db.get(b"a", key=b"b"),
                         lambda: db.get(b"a", no_such=1), lambda: db.put(b"a", b"1", True),
                         lambda: db.get(b"a", None, None, True), lambda: db.get(b"a", snapshot=5)):
                with self.assertRaises(TypeError):
                    call()
            db.put(value=b"1", key=b"a")
            self.assertEqual(db.get(default=5, key=b"a", verify_checksums=True, fill_cache=False), b"1")


class StubTest(unittest.TestCase):
    def test_it_has_what_the_module_has(self):
        stub = ast.parse((importlib.resources.files("dlsm") / "_dlsm.pyi").read_text())
        self.assertTrue((importlib.resources.files("dlsm") / "py.typed").is_file())
        for node in stub.body:
            if not isinstance(node, ast.ClassDef):
                continue
            described = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
            there = {name for name, value in vars(getattr(_dlsm, node.name)).items()
                     if not name.startswith("_") or name in described}
            self.assertEqual(described, there, node.name)


if __name__ == "__main__":
    unittest.main()
