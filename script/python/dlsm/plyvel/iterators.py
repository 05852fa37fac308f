"""Iterators. Those of DB.iterator() are made by the extension module."""
from typing import Any, Optional

from .. import _dlsm
from .errors import IteratorInvalidError


def iterate(db: _dlsm.DB, db_prefix: Optional[bytes], snapshot: Optional[_dlsm.Snapshot], *,
            reverse: bool = False, start: Optional[bytes] = None, stop: Optional[bytes] = None,
            include_start: bool = True, include_stop: bool = False, prefix: Optional[bytes] = None,
            include_key: bool = True, include_value: bool = True, verify_checksums: bool = False,
            fill_cache: bool = True) -> "_dlsm.Iterator[Any]":
    """An iterator over the keys that begin with `db_prefix`, which it leaves out."""
    if prefix is not None:
        if start is not None or stop is not None:
            raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
        include_start, include_stop = True, False
    return db._iterator(db_prefix or b"", start, stop, prefix,  # pylint: disable=protected-access
                        bool(include_start), bool(include_stop), bool(reverse), bool(include_key),
                        bool(include_value), bool(verify_checksums), bool(fill_cache), snapshot)


class RawIterator:
    """LevelDB's own: at an entry, or not valid()."""

    def __init__(self, db: _dlsm.DB, snapshot: Optional[_dlsm.Snapshot], verify_checksums: bool,
                 fill_cache: bool) -> None:
        self._cursor = db._cursor(bool(verify_checksums), bool(fill_cache),  # pylint: disable=protected-access
                                  snapshot)
        self.valid = self._cursor.valid
        self.seek_to_first = self._cursor.seek_to_first
        self.seek_to_last = self._cursor.seek_to_last
        self.seek = self._cursor.seek
        self.close = self._cursor.close

    def __enter__(self) -> "RawIterator":
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def next(self) -> None:
        """Goes to the next entry."""
        if not self._cursor.next():
            raise IteratorInvalidError()

    def prev(self) -> None:
        """Goes to the entry before."""
        if not self._cursor.prev():
            raise IteratorInvalidError()

    def key(self) -> bytes:
        """The key of the entry."""
        return self._of_entry(self._cursor.key())

    def value(self) -> bytes:
        """The value of the entry."""
        return self._of_entry(self._cursor.value())

    def item(self) -> "tuple[bytes, bytes]":
        """Both."""
        return self.key(), self.value()

    @staticmethod
    def _of_entry(part: Optional[bytes]) -> bytes:
        if part is None:
            raise IteratorInvalidError()
        return part
