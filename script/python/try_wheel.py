"""Uses the package in a root directory that has it, an interpreter, and no libraries for RDMA."""
import os

import dlsm

found = [name for _, _, files in os.walk("/") for name in files if "ibverbs" in name or "rdmacm" in name]
assert not found, found
for path in (None, "/tmp/fruit"):
    with dlsm.open(path) as db:
        db[b"apple"] = b"red"
        db.put(b"plum", memoryview(b"blue"), sync=True)
        db.flush()
        assert db[b"apple"] == b"red"
with dlsm.open("/tmp/fruit") as db:
    assert list(db.iterator()) == [(b"apple", b"red"), (b"plum", b"blue")]
    assert bytes(db.get_pinned(b"plum")) == b"blue"
