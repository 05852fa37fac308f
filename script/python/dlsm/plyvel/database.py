"""Databases."""
import fcntl
import os
import sqlite3
from typing import Any, Callable, Optional, Union

from .. import _dlsm, destroy as _destroy, open as _open
from ..errors import Busy, Error, IOError_
from .batches import WriteBatch
from .iterators import RawIterator, iterate
from .snapshots import Snapshot

_Name = Union[str, bytes]

# LevelDB takes any number, and uses the nearest of these.
_BOUNDS = {"write_buffer_size": (64 << 10, 1 << 30), "max_open_files": (74, 50000),
           "block_size": (1 << 10, 4 << 20), "block_restart_interval": (1, 1_000_000),
           "max_file_size": (1 << 20, 1 << 30)}


def _options(*, paranoid_checks: Optional[bool] = None, lru_cache_size: Optional[int] = None,
             compression: Optional[str] = "snappy", bloom_filter_bits: int = 0,
             comparator: Optional[Callable[[bytes, bytes], int]] = None,
             comparator_name: Optional[bytes] = None, **others: Any) -> "dict[str, Any]":
    """Those of plyvel as dlsm.open() has them. `others` with other names are dLSM's own."""
    options = {name: value for name, value in others.items() if name not in _BOUNDS}
    for name, (smallest, largest) in _BOUNDS.items():
        if others.get(name) is not None:
            options[name] = min(max(others[name], smallest), largest)
    if paranoid_checks is not None:
        options["paranoid_checks"] = bool(paranoid_checks)
    if lru_cache_size is not None:
        options["lru_cache_size"] = lru_cache_size
    if bloom_filter_bits > 0:
        options["bloom_filter_bits"] = min(bloom_filter_bits, 40)
    if isinstance(compression, bytes):
        compression = compression.decode()
    if compression is not None and not isinstance(compression, str):
        raise TypeError("'compression' must be None or a string")
    if compression not in (None, "snappy"):
        raise ValueError("'compression' must be None or 'snappy'")
    if compression and options.get("table_format") == "block_based":
        options["compression"] = compression
    if (comparator is None) != (comparator_name is None):
        raise ValueError("'comparator' and 'comparator_name' must be specified together")
    if comparator is not None:
        if not isinstance(comparator_name, bytes):
            raise TypeError("'comparator_name' must be bytes")
        options["comparator"] = (comparator_name, comparator)
    return options


def _open_at(name: _Name, **options: Any) -> _dlsm.DB:
    if not isinstance(name, (str, bytes)):
        raise TypeError("'name' must be a str or bytes")
    try:
        return _open(name, **options)
    except Busy as error:  # LevelDB finds a lock that it cannot have.
        raise IOError_(str(error)) from error


class DB:
    """A database in the directory `name`."""

    def __init__(self, name: _Name, *, create_if_missing: bool = False, error_if_exists: bool = False,
                 **options: Any) -> None:
        self._db = _open_at(name, create_if_missing=bool(create_if_missing),
                            error_if_exists=bool(error_if_exists), **_options(**options))
        self._name = name

    @property
    def name(self) -> _Name:
        """As it was opened."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._db.closed

    def __repr__(self) -> str:
        return f"<dlsm.plyvel.DB with name {self._name!r}{' (closed)' if self.closed else ''} at 0x{id(self):x}>"

    def close(self) -> None:
        """Every later call raises a RuntimeError."""
        self._db.close()

    def __enter__(self) -> "DB":
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def get(self, key: bytes, default: Any = None, *, verify_checksums: bool = False,
            fill_cache: bool = True) -> Any:
        """The value of the key, or `default` without one."""
        return self._db.get(key, default, verify_checksums=verify_checksums, fill_cache=fill_cache)

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """Sets a key."""
        self._db.put(key, value, sync=sync)

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Deletes a key, which need not exist."""
        self._db.delete(key, sync=sync)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """See WriteBatch."""
        return WriteBatch(self, None, transaction, sync)

    def __iter__(self) -> "_dlsm.Iterator[Any]":
        return self.iterator()

    def iterator(self, **arguments: Any) -> "_dlsm.Iterator[Any]":
        """reverse, start, stop, include_start, include_stop, prefix, include_key, include_value,
        verify_checksums, fill_cache"""
        return iterate(self._db, None, None, **arguments)

    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> RawIterator:
        """An iterator as LevelDB has it."""
        return RawIterator(self._db, None, verify_checksums, fill_cache)

    def snapshot(self) -> Snapshot:
        """The database as of now."""
        return Snapshot(db=self)

    def get_property(self, name: bytes) -> Optional[bytes]:
        """Properties begin with "leveldb." or "dlsm."."""
        if not isinstance(name, bytes):
            raise TypeError("'name' must be bytes")
        value = self._db.property(name.decode("latin-1"))
        return None if value is None else value.encode()

    def compact_range(self, *, start: Optional[bytes] = None, stop: Optional[bytes] = None) -> None:
        """Merges the tables of these keys."""
        self._db.compact_range(start, stop)

    def approximate_size(self, start: bytes, stop: bytes) -> int:
        """About how many bytes of tables the keys in [start, stop) take."""
        return self.approximate_sizes((start, stop))[0]

    def approximate_sizes(self, *ranges: "tuple[bytes, bytes]") -> "list[int]":
        """The same of each range."""
        return self._db.approximate_sizes(ranges)

    def prefixed_db(self, prefix: bytes) -> "PrefixedDB":
        """The keys that begin with `prefix`."""
        return PrefixedDB(db=self, prefix=prefix)


class PrefixedDB:
    """The keys of a database that begin with a prefix, which they do not have here."""

    def __init__(self, *, db: DB, prefix: bytes) -> None:
        if not isinstance(prefix, bytes):
            raise TypeError("'prefix' must be bytes")
        self.db = db
        self.prefix = prefix

    def __repr__(self) -> str:
        return f"<dlsm.plyvel.PrefixedDB with prefix {self.prefix!r} at 0x{id(self):x}>"

    def get(self, key: bytes, default: Any = None, *, verify_checksums: bool = False,
            fill_cache: bool = True) -> Any:
        """As DB.get()."""
        return self.db.get(self.prefix + key, default, verify_checksums=verify_checksums, fill_cache=fill_cache)

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """As DB.put()."""
        self.db.put(self.prefix + key, value, sync=sync)

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """As DB.delete()."""
        self.db.delete(self.prefix + key, sync=sync)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """As DB.write_batch()."""
        return WriteBatch(self.db, self.prefix, transaction, sync)

    def __iter__(self) -> "_dlsm.Iterator[Any]":
        return self.iterator()

    def iterator(self, **arguments: Any) -> "_dlsm.Iterator[Any]":
        """As DB.iterator()."""
        return iterate(self.db._db, self.prefix, None, **arguments)

    def snapshot(self) -> Snapshot:
        """As DB.snapshot()."""
        return Snapshot(db=self.db, prefix=self.prefix)

    def prefixed_db(self, prefix: bytes) -> "PrefixedDB":
        """The keys of these that begin with another prefix."""
        return PrefixedDB(db=self.db, prefix=self.prefix + prefix)


def repair_db(name: _Name, **options: Any) -> None:
    """Opens the database without what is damaged at the end of its log, and closes it. Other damage is an
    error that names the file and the remedy: tables are not salvaged."""
    _open_at(name, create_if_missing=False, accept_log_loss=True, **_options(**options)).close()


def destroy_db(name: _Name) -> None:
    """Deletes the database, and its directory if nothing else is in it. Not an error without one."""
    if not isinstance(name, (str, bytes)):
        raise TypeError("'name' must be a str or bytes")
    if not os.path.isdir(name):
        return
    try:
        _destroy(name)
    except Busy as error:
        raise IOError_(str(error)) from error
    _remove_memory_node(os.fsdecode(name))


def _remove_memory_node(path: str) -> None:
    """Removes the files of a memory node that has no database, and that nobody has open."""
    accounts = os.path.join(path, "accounts.db")
    if not os.path.exists(accounts):
        return
    with open(os.path.join(path, "LOCK"), "r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with sqlite3.connect(accounts) as rows:
                found = rows.execute("SELECT COUNT(*) FROM rows WHERE kind = 2").fetchone()
            rows.close()
        except (OSError, sqlite3.Error):
            return
        if found != (0,):
            return
        for file in os.listdir(path):
            if file.startswith("accounts.db") or file in ("LOCK", "dlsm-memory"):
                os.remove(os.path.join(path, file))
    try:
        os.rmdir(path)
    except OSError:
        pass
