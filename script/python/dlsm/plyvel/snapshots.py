"""Snapshots, which have the reads of a database."""
from typing import Any, Optional

from .. import _dlsm
from .iterators import RawIterator, iterate


class Snapshot:
    """A database, or the keys of it that begin with a prefix, at one moment."""

    def __init__(self, *, db: Any, prefix: Optional[bytes] = None) -> None:
        self._db: _dlsm.DB = db._db  # pylint: disable=protected-access
        self._prefix = prefix
        self._snapshot = self._db.snapshot()

    def get(self, key: bytes, default: Any = None, *, verify_checksums: bool = False,
            fill_cache: bool = True) -> Any:
        """The value of the key, or `default` without one."""
        if self._prefix is not None:
            key = self._prefix + key
        return self._db.get(key, default, self._snapshot, verify_checksums=verify_checksums,
                            fill_cache=fill_cache)

    def __iter__(self) -> "_dlsm.Iterator[Any]":
        return self.iterator()

    def iterator(self, **arguments: Any) -> "_dlsm.Iterator[Any]":
        """The arguments are those of DB.iterator()."""
        return iterate(self._db, self._prefix, self._snapshot, **arguments)

    def raw_iterator(self, *, verify_checksums: bool = False, fill_cache: bool = True) -> RawIterator:
        """An iterator as LevelDB has it."""
        return RawIterator(self._db, self._snapshot, verify_checksums, fill_cache)

    def close(self) -> None:
        """Releases it."""
        self._snapshot.close()

    release = close

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *args: object) -> None:
        self.close()
