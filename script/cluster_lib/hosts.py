"""Where a node runs: on this machine, in a network namespace of it, or on a machine behind ssh.

All three run the same commands. A command that is a script is one for sh, with positional arguments.
"""

import shlex
import subprocess

from cluster_lib.failure import Failure

COMMAND_SECONDS_MAX = 120  # Of what only prepares, asks or stops: far more than ten seconds of grace.


class LocalHost:
    def command(self, words):
        return words

    def describe(self):
        return "this machine"

    def of_processes(self):
        """The host as its processes are seen and ended."""
        return self

    def explain(self, done):
        """Why a command could not even be tried, or None."""
        return None


class NamespaceHost(LocalHost):
    def __init__(self, namespace):
        self.namespace = namespace

    def command(self, words):
        return ["ip", "netns", "exec", self.namespace, *words]

    def describe(self):
        return f"namespace {self.namespace}"

    def of_processes(self):
        return LocalHost()  # They are there even if the namespace has lost its name.

    def explain(self, done):
        if done.returncode and "Cannot open network namespace" in done.stderr:
            return (f"the namespace {self.namespace} is gone; `script/cluster stop` removes what is "
                    "left, then start again")
        return None


class SshHost(LocalHost):
    EXIT_OF_SSH = 255

    def __init__(self, ssh, host):
        self.ssh = shlex.split(ssh)
        self.host = host

    def command(self, words):
        return [*self.ssh, "--", self.host, shlex.join(words)]

    def describe(self):
        return self.host

    def explain(self, done):
        if done.returncode != self.EXIT_OF_SSH:
            return None
        return (f"ssh does not get to {self.host}: {done.stderr.strip() or 'no reason given'}; "
                f"`{shlex.join([*self.ssh, self.host])} true` must work without a question: set key, "
                "user and port in ~/.ssh/config, or give --ssh")


def run_script(host, script, *arguments, text="", seconds_max=COMMAND_SECONDS_MAX):
    """Runs a script for sh; it gets `text` on its standard input. Its exit code is the caller's to
    judge; only what kept it from running at all is a Failure."""
    words = host.command(["sh", "-c", script, "cluster", *map(str, arguments)])
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, errors="replace",
                              timeout=seconds_max, check=False)
    except FileNotFoundError as error:
        raise Failure(f"there is no program {error.filename}; script/install-deps installs it") from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{host.describe()} has not answered for {seconds_max:g} s; is it up, "
                      "and the way to it open?") from error
    explanation = host.explain(done)
    if explanation:
        raise Failure(explanation)
    return done
