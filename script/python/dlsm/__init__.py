"""dLSM, an ordered key-value index for machines whose memory lives elsewhere.

    with dlsm.open("/var/tmp/fruit") as db:
        db[b"apple"] = b"red"
"""
import atexit
import os
from typing import Any, Iterable, Optional, Union

from . import _dlsm
from ._dlsm import DB, Iterator, PinnedValue, Snapshot, WriteBatch
from .errors import (Aborted, Busy, Closed, Corruption, Error, InvalidArgument, IOError_, IOFenced,
                     Incomplete, NotFound, NotSupported, TimedOut)

__all__ = ["Aborted", "Busy", "Closed", "Corruption", "DB", "Error", "IOError_", "IOFenced", "Incomplete",
           "InvalidArgument", "Iterator", "NotFound", "NotSupported", "PinnedValue", "Snapshot", "TimedOut",
           "WriteBatch", "destroy", "open", "open_follower"]

PathOrName = Union[str, bytes, "os.PathLike[Any]", None]

# Threads of a database must not outlive the interpreter.
atexit.register(_dlsm._close_all)  # pylint: disable=protected-access


def _place(path_or_name: PathOrName, name: Optional[str], memory_nodes: Union[str, Iterable[str]],
           options: "dict[str, Any]") -> "tuple[Any, str, str]":
    """The directory or None, the name, and the memory nodes, as text."""
    if not isinstance(memory_nodes, str):
        memory_nodes = ",".join(memory_nodes)
    elsewhere = bool(memory_nodes or options.get("config"))
    if elsewhere and name is None and isinstance(path_or_name, str):
        return None, path_or_name, memory_nodes
    return path_or_name, "db" if name is None else name, memory_nodes


def open(path_or_name: PathOrName = None,  # pylint: disable=redefined-builtin
         name: Optional[str] = None, *, memory_nodes: Union[str, Iterable[str]] = "",
         create_if_missing: bool = True, **options: Any) -> DB:
    """Opens a database, and makes it if it is missing.

    path_or_name: without memory nodes, a directory that keeps the database, which is made if its parent
        is there. One process at a time has it open. With None the database is in the memory of this
        process, and ends with it. With memory nodes it is the name of the database there.
    name: tells several databases of one directory, or of this process, apart. By default "db".
    memory_nodes: "host:port" of each Server that holds the database.
    options: those of include/dLSM/options.h, by their names; enumerators as text, such as
        log="disk" or compaction_style="leveled". Also lru_cache_size, in bytes, and bloom_filter_bits,
        for a block cache and a filter of these sizes, and comparator, a pair of a name and a function.

    Raises Busy if the database is open already, InvalidArgument if an option cannot be, and
    TypeError if there is no such option.
    """
    path, name, nodes = _place(path_or_name, name, memory_nodes, options)
    return _dlsm._open(path, name, nodes, create_if_missing,  # pylint: disable=protected-access
                       False, options)


def open_follower(path_or_name: PathOrName = None, name: Optional[str] = None, *,
                  memory_nodes: Union[str, Iterable[str]] = "", **options: Any) -> DB:
    """Opens a database for reading that another process, or another handle of this one, has open with
    publish_interval_ms. It shows what was published last, and goes on by itself, or in try_catch_up().

    The arguments are those of open(). What would change the database raises NotSupported.
    """
    path, name, nodes = _place(path_or_name, name, memory_nodes, options)
    return _dlsm._open(path, name, nodes, False, True, options)  # pylint: disable=protected-access


def destroy(path_or_name: PathOrName = None, name: Optional[str] = None, *,
            memory_nodes: Union[str, Iterable[str]] = "", **options: Any) -> None:
    """Deletes a database, and gives its memory back. Not an error if there is none; Busy while it is
    open. The arguments are those of open()."""
    path, name, nodes = _place(path_or_name, name, memory_nodes, options)
    _dlsm._destroy(path, name, nodes, options)  # pylint: disable=protected-access
