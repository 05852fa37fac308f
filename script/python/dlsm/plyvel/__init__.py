"""The interface of plyvel, for programs that were written for LevelDB.

    import dlsm.plyvel as plyvel

    db = plyvel.DB("/var/tmp/fruit", create_if_missing=True)
    db.put(b"apple", b"red")

A database is a directory, as of dlsm.open(path). doc/python.md lists what differs.
"""
from .. import _dlsm
from ..errors import Corruption as CorruptionError, Error, IOError_ as IOError  # pylint: disable=redefined-builtin
from .batches import WriteBatch
from .database import DB, PrefixedDB, destroy_db, repair_db
from .errors import IteratorInvalidError
from .iterators import RawIterator
from .snapshots import Snapshot

__all__ = ["CorruptionError", "DB", "Error", "IOError", "IteratorInvalidError", "PrefixedDB", "RawIterator",
           "Snapshot", "WriteBatch", "destroy_db", "repair_db"]

# That of the interface which is compatible.
__leveldb_version__ = "1.23"
__version__ = "1.5.1"
library_version = _dlsm._library_version  # pylint: disable=protected-access
