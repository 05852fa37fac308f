"""A cluster's folder: what was started, the cluster's secret, and a folder for each node.

It lies under a folder of the user alone, as files in /tmp must, and doubles as the lock that keeps two
commands from working on one cluster. It is written before the first thing is made, so that `stop` can
clean up after a command that was killed.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import secrets
import shutil
import tempfile

from cluster_lib import connection_conf, hosts, network
from cluster_lib.failure import Failure, deferred_signals

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
FORMAT = 2


@dataclasses.dataclass
class Node:
    name: str  # m0, m1, ..., c0, c1, ...
    index: int
    address: connection_conf.Address
    host: hosts.LocalHost
    folder: str  # On its host.


@dataclasses.dataclass
class Shape:
    """What `start` was asked for."""
    namespaces: bool
    compute_nodes: list
    memory_nodes: list
    delay: str
    rate: str
    build: str
    remote_build: str
    ssh: str
    memory_gb: float
    server_flags: str
    tls: bool


class Cluster:
    def __init__(self, name, shape, folder, id_=None):
        """`id_`: of one that is there already. It tells the cluster from others of its name."""
        self.id = id_ or secrets.token_hex(8)
        self.name = name
        self.shape = shape
        self.folder = folder
        self.memory_nodes = self._nodes("m", shape.memory_nodes)
        self.compute_nodes = self._nodes("c", shape.compute_nodes)
        self.network = None
        if shape.namespaces:
            nodes = {node.name: node.address for node in self.nodes()}
            self.network = network.Network(name, nodes, shape.delay, shape.rate)

    def nodes(self):
        return self.memory_nodes + self.compute_nodes

    def _nodes(self, letter, addresses):
        return [Node(f"{letter}{i}", i, address, self._host(f"{letter}{i}", address),
                     os.path.join(self.folder, f"{letter}{i}"))
                for i, address in enumerate(addresses)]

    def _host(self, node_name, address):
        if self.shape.namespaces:
            return hosts.NamespaceHost(network.namespace_of(self.name, node_name))
        if address.is_here():
            return hosts.LocalHost()
        return hosts.SshHost(self.shape.ssh, address.host)

    def program(self, node, name):
        """The path of a program on the node's host."""
        remote = isinstance(node.host, hosts.SshHost)
        return os.path.join(self.shape.remote_build if remote else self.shape.build, name)

    def tls_flags(self):
        """What Servers and their clients take alike."""
        return ["--tls"] if self.shape.tls else []

    def config_text(self):
        return connection_conf.text_of(self.shape.compute_nodes, self.shape.memory_nodes)

    def secret(self):
        with open(os.path.join(self.folder, "secret"), encoding="ascii") as file:
            return file.read()

    def write(self):
        """Makes the secret, and keeps what `read` needs."""
        with open(os.path.join(self.folder, "secret"), "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        shape = dataclasses.asdict(self.shape)
        with open(os.path.join(self.folder, "cluster.json"), "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "id": self.id, "shape": shape}, file, indent=2)

    def remove_folder(self):
        """All that this cluster has in it."""
        for entry in os.scandir(self.folder):
            if not entry.is_dir(follow_symlinks=False):
                os.remove(entry)
            elif not self._is_of_another(entry):
                shutil.rmtree(entry)
        for folder in (self.folder, os.path.dirname(self.folder)):
            with contextlib.suppress(OSError):  # Others may have theirs there.
                os.rmdir(folder)

    def _is_of_another(self, folder):
        """Whether it is that of a node which another cluster of this name has on this machine."""
        try:
            with open(os.path.join(folder, "cluster"), encoding="ascii") as file:
                return file.read().strip() != self.id
        except FileNotFoundError:
            return False


def folder_of(name):
    return os.path.join(tempfile.gettempdir(), f"dlsm-cluster-{os.getuid()}", name)


def read(name):
    """The cluster of that name, or None where there is none."""
    path = os.path.join(folder_of(name), "cluster.json")
    try:
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        if kept["format"] != FORMAT:
            raise Failure(f"{path} is of another version of script/cluster: stop it with that one")
        shape = Shape(**kept["shape"])
        for role in ("compute_nodes", "memory_nodes"):
            setattr(shape, role, [connection_conf.Address(**a) for a in getattr(shape, role)])
        return Cluster(name, shape, folder_of(name), kept["id"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failure(f"cannot read {path}: {error}; end what it started by hand, then delete "
                      f"{os.path.dirname(path)}") from error


def _own_folder(path):
    os.makedirs(path, mode=0o700, exist_ok=True)
    status = os.lstat(path)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise Failure(f"{path} is not this user's alone; delete it, or set TMPDIR to a folder of your own")


class Lock:
    """Holds the cluster's folder, which is made if it is missing, until the end of the block. A folder
    in which nothing was kept goes away again."""

    def __init__(self, name):
        self.folder = folder_of(name)
        self.descriptor = None

    def __enter__(self):
        try:
            while self.descriptor is None:
                with deferred_signals():  # No empty folder stays behind.
                    _own_folder(os.path.dirname(self.folder))
                    _own_folder(self.folder)
                    self._try()
        except OSError as error:
            raise Failure(f"cannot use {self.folder}: {error}; set TMPDIR to a folder of your own") from error
        return self

    def _try(self):
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise Failure("another script/cluster is at work on this cluster; wait for it, end it, or use "
                          "another --name") from error
        # Whoever held it may have deleted it meanwhile.
        if os.path.exists(self.folder) and os.stat(self.folder).st_ino == os.fstat(descriptor).st_ino:
            self.descriptor = descriptor
        else:
            os.close(descriptor)

    def __exit__(self, *_):
        for folder in (self.folder, os.path.dirname(self.folder)):
            try:
                os.rmdir(folder)
            except OSError:
                pass  # There is a cluster in it, or it is gone.
        os.close(self.descriptor)
