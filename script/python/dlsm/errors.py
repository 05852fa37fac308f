"""What calls raise: a class for each code of a dlsm::Status (include/dLSM/status.h)."""


class Error(Exception):
    """The base of all; by itself a use that is wrong, as of an iterator by two threads at once."""


class Closed(Error, RuntimeError):
    """The use of a database, or of something that it has made, after its close()."""


class NotFound(Error):
    """There is no such thing. Of a key, `db[key]` raises a KeyError instead."""


class Corruption(Error):
    """Data is damaged."""


class NotSupported(Error):
    """The call is not possible here."""


class InvalidArgument(Error, ValueError):
    """An argument or an option cannot be."""


class IOError_(Error, OSError):  # pylint: disable=invalid-name
    """A memory node cannot be reached or used, or there is no memory for the call."""


class IOFenced(IOError_):
    """Another process has taken the database over, for good."""


class Busy(Error):
    """In use or full for now. The same call may succeed later."""


class TimedOut(Error, TimeoutError):
    """The call took too long."""


class Incomplete(Error):
    """The call may not do all that its answer needs."""


class Aborted(Error):
    """The call was given up."""
