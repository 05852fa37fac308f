"""What keeps a command from its end: causes outside of it, and signals."""

import contextlib
import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Failure(Exception):
    """What a user, a host or the network has caused. Its text names the cause and the remedy."""


class Interrupted(BaseException):
    """A signal asked the command to end. Not an Exception, so that only cleaning up catches it."""

    def __init__(self, number):
        super().__init__(f"signal {number}")
        self.number = number


def raise_interrupted(number, _):
    """The first time only. Whoever presses ^C again would cut off the wait for what has begun on other hosts, and
    cleaning up go on beside it: a Server that is started after it was to be stopped stays."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(number)


def raise_on_signals():
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # As SIGHUP is under nohup.
            signal.signal(number, raise_interrupted)


def hold_signals():
    """Until the process ends: what it did is done, and an interruption could not undo it any more."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


@contextlib.contextmanager
def deferred_signals():
    """They come after the block. Not around what starts processes, which would inherit it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def uninterrupted():
    """What cleans up must not be cut off, even where no signal has come before."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
