"""dLSM, an ordered key-value index for machines whose memory lives elsewhere.

    import dlsm
    with dlsm.open("/var/tmp/fruit") as db:
        db[b"apple"] = b"red"
        print(db[b"apple"])
"""
import atexit
import os
from typing import Any, Iterable, Optional, Union

from dlsm import _dlsm
from dlsm._dlsm import DB, Iterator, Snapshot, WriteBatch
from dlsm.errors import (Aborted, Busy, Corruption, Error, InvalidArgument, IOError_, IOFenced,
                         Incomplete, NotFound, NotSupported, TimedOut)

__all__ = ["Aborted", "Busy", "Corruption", "DB", "Error", "IOError_", "IOFenced", "Incomplete",
           "InvalidArgument", "Iterator", "NotFound", "NotSupported", "Snapshot", "TimedOut", "WriteBatch", "open"]

# Threads of a database must not outlive the interpreter.
atexit.register(_dlsm._close_all)  # pylint: disable=protected-access


def open(path: Union[str, bytes, "os.PathLike[Any]", None] = None,  # pylint: disable=redefined-builtin
         name: str = "db", *, memory_nodes: Union[str, Iterable[str]] = "",
         create_if_missing: bool = True, **options: Any) -> DB:
    """Opens the database `name`, and makes it if it is missing.

    path: a directory that keeps the database, which is made if its parent is there. One process at a
        time has it open. With None, and without memory nodes, the database is in the memory of this
        process, and ends with it.
    memory_nodes: "host:port" of each Server that holds the database; without a path.
    options: those of include/dLSM/options.h, by their names; enumerators as text, such as
        log="disk" or compaction_style="leveled".

    Raises Busy if the database is open already, InvalidArgument if an option cannot be, and
    TypeError if there is no such option.
    """
    if not isinstance(memory_nodes, str):
        memory_nodes = ",".join(memory_nodes)
    return _dlsm._open(path, name, memory_nodes, create_if_missing,  # pylint: disable=protected-access
                       options)
