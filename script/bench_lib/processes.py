"""Runs programs that must not outlive a script: a Server or a store has memory that nobody else gives back."""

import contextlib
import signal
import subprocess
import sys

# with-server gives its command ten seconds, in which db_bench removes its folder, and its Server as many.
SECONDS_TO_END = 30
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def end_in_order():
    """From now on the first signal that would end the script raises SystemExit, unless it is to be ignored, as
    SIGHUP is under nohup. Further ones, as of whoever presses ^C again, would cut off the ending of what runs."""
    def end(number, _):
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


@contextlib.contextmanager
def ended(process):
    """If it still runs at the end of the block, it is asked to end and then made to."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run(words, **how):
    """As subprocess.run() without a check, which kills what it runs when it is interrupted."""
    with ended(subprocess.Popen(words, **how)) as process:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, output, errors)
