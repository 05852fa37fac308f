"""Write batches."""
from typing import Any, Optional

from .. import _dlsm


class WriteBatch:
    """Updates that are written at once. A `with` writes them, after an exception too, unless the batch
    is a transaction."""

    def __init__(self, db: Any, prefix: Optional[bytes], transaction: bool, sync: bool) -> None:
        self._batch: _dlsm.WriteBatch = db._db.write_batch(sync=bool(sync))  # pylint: disable=protected-access
        self._db = db
        self._prefix = prefix
        self._transaction = transaction

    def put(self, key: bytes, value: Any) -> None:
        """Sets a key."""
        self._batch.put(key if self._prefix is None else self._prefix + key, value)

    def delete(self, key: bytes) -> None:
        """Deletes a key, which need not exist."""
        self._batch.delete(key if self._prefix is None else self._prefix + key)

    def clear(self) -> None:
        """Forgets all updates."""
        self._batch.clear()

    def write(self) -> None:
        """Writes the updates. The batch keeps them."""
        self._batch._write()  # pylint: disable=protected-access

    def append(self, source: "WriteBatch") -> None:
        """Adds the updates of another batch."""
        if not isinstance(source, WriteBatch):
            raise TypeError("append() takes a WriteBatch")
        self._batch.append(source._batch)

    def approximate_size(self) -> int:
        """How many bytes the updates take."""
        return self._batch.approximate_size()

    def __enter__(self) -> "WriteBatch":
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._transaction and kind is not None:
            self.clear()
            return
        self._batch.commit()
