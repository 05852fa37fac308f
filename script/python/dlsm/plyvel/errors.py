"""The exception that plyvel has and dlsm has not."""
from ..errors import Error


class IteratorInvalidError(Error):
    """A RawIterator is at no entry."""
