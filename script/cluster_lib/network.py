"""The network of a cluster on one machine: a namespace for each node and one for a bridge between
them. The machine's own network is not touched, and nothing outside reaches the nodes.

      namespace m0              namespace of the switch             namespace c0
      eth0 10.77.0.1  ── veth ──  m0 ── bridge ── c0  ── veth ──  eth0 10.77.0.101

Delay and rate are those of each node's eth0 as it sends: a round trip has the delay twice.
"""

import contextlib
import os
import re
import signal
import subprocess

from cluster_lib.connection_conf import Address
from cluster_lib.failure import Failure

NODES_MAX = 99
DELAY = re.compile(r"\d+(\.\d+)?(us|ms|s)")
RATE = re.compile(r"\d+(\.\d+)?(kbit|mbit|gbit)")
NETEM_PACKETS = 100_000  # What may be under way: a delay of 100 ms at 10 Gb/s fits.


def memory_address(index):
    return Address(f"10.77.0.{1 + index}")


def compute_address(index):
    return Address(f"10.77.0.{101 + index}")


def namespace_of(cluster, node):
    return f"dlsm-{cluster}-{node}"


def run(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError as error:
        raise Failure(f"there is no program {words[0]}: script/install-deps installs iproute2") from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"`{' '.join(words)}` has not ended for 60 s") from error


def must(*words):
    done = run(*words)
    if done.returncode:
        cause = (done.stderr or done.stdout).strip()
        remedy = "namespaces need root: use sudo" if os.geteuid() else (
            "this kernel or container may not allow namespaces, veth pairs or bridges")
        raise Failure(f"`{' '.join(words)}` failed: {cause}; {remedy}")
    return done.stdout


def existing():
    """The named namespaces of this machine."""
    return {line.split()[0] for line in run("ip", "netns", "list").stdout.splitlines() if line.strip()}


class Network:
    def __init__(self, cluster, nodes, delay="", rate=""):
        """`nodes`: their names and their addresses."""
        self.cluster = cluster
        self.nodes = nodes
        self.delay = delay
        self.rate = rate
        self.switch = namespace_of(cluster, "switch")
        self.namespaces = [self.switch, *(namespace_of(cluster, name) for name in nodes)]

    def check(self):
        """That it can be made, before anything is."""
        if os.geteuid():
            raise Failure("network namespaces need root: run it with sudo")
        taken = existing().intersection(self.namespaces)
        if taken:
            raise Failure(f"the namespace {min(taken)} is there already, and not by this command; choose "
                          f"another --name, or remove it: ip netns del {min(taken)}")

    def make(self):
        must("ip", "netns", "add", self.switch)
        must("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge")
        must("ip", "-n", self.switch, "link", "set", "bridge", "up")
        for name, address in self.nodes.items():
            namespace = namespace_of(self.cluster, name)
            must("ip", "netns", "add", namespace)
            must("ip", "-n", namespace, "link", "add", "eth0", "type", "veth",
                 "peer", "name", name, "netns", self.switch)
            must("ip", "-n", self.switch, "link", "set", name, "master", "bridge", "up")
            must("ip", "-n", namespace, "addr", "add", f"{address.host}/24", "dev", "eth0")
            must("ip", "-n", namespace, "link", "set", "lo", "up")
            must("ip", "-n", namespace, "link", "set", "eth0", "up")
            self._shape(namespace)

    def _shape(self, namespace):
        qdisc = ("tc", "-n", namespace, "qdisc", "add", "dev", "eth0", "root")
        if self.delay:
            rate = ("rate", self.rate) if self.rate else ()
            words = (*qdisc, "netem", "limit", str(NETEM_PACKETS), "delay", self.delay, *rate)
        elif self.rate:
            words = (*qdisc, "tbf", "rate", self.rate, "burst", "1mb", "latency", "50ms")
        else:
            return
        done = run(*words)
        if done.returncode == 0:
            return
        cause = (done.stderr or done.stdout).strip()
        if "qdisc kind is unknown" in cause or "No such file" in cause:
            kind = "netem" if self.delay else "tbf"
            raise Failure(f"this kernel has no {kind} ({cause}): load it (modprobe sch_{kind}), use a kernel "
                          f"with CONFIG_NET_SCH_{kind.upper()}, or leave out "
                          f"--{'delay' if self.delay else 'rate'}; db_bench can simulate both, with "
                          "--simulated_rtt_ns and --simulated_gbit_per_second")
        raise Failure(f"`{' '.join(words)}` failed: {cause}")

    def remove(self):
        """Whatever is there of it, with the processes in it."""
        for namespace in existing().intersection(self.namespaces):
            for pid in run("ip", "netns", "pids", namespace).stdout.split():
                with contextlib.suppress(ProcessLookupError):  # It has ended since.
                    os.kill(int(pid), signal.SIGKILL)
            must("ip", "netns", "del", namespace)
