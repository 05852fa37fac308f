"""connection.conf: the first line names the compute nodes, the second the memory nodes.

The rules are those of util/cluster_config.h, which reads the same file in the library.
"""

import dataclasses
import ipaddress
import re

from cluster_lib.failure import Failure

DEFAULT_PORT = 19843
NODE = re.compile(r"""(?: \[ ([0-9A-Za-z.%_-]* : [0-9A-Za-z.:%_-]*) \]  # IPv6
                        | ([0-9A-Za-z._-]+) )                       # a name, or IPv4
                      (?: : ([0-9]{1,5}) )?                         # the port""", re.VERBOSE)


@dataclasses.dataclass(frozen=True)
class Address:
    host: str  # IPv6 without its brackets.
    port: int = DEFAULT_PORT

    def __str__(self):
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def numeric(self):
        """The host as an ipaddress, or None where it is a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    def is_here(self):
        """Whether it says by itself that it is this machine."""
        number = self.numeric()
        return self.host == "localhost" or number is not None and number.is_loopback


def parse_address(word, where):
    match = NODE.fullmatch(word)
    if not match:
        raise Failure(f"{where}: {word[:64]!r} is no node; write host or host:port, IPv6 as [address]:port")
    port = int(match[3]) if match[3] else DEFAULT_PORT
    if not 1 <= port <= 65535:
        raise Failure(f"{where}: the port of {word!r} is not a number from 1 to 65535")
    host = match[1] or match[2]
    if host.startswith("-"):  # To ssh it would be an option.
        raise Failure(f"{where}: {word!r} is no node: no host begins with '-'")
    return Address(host, port)


def parse(text, name):
    """The addresses of the compute nodes and of the memory nodes."""
    lists = []
    remedy = "the first line names the compute nodes, the second one the memory nodes"
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(lists) == 2:
            raise Failure(f"{name}:{number}: this line is one too many; {remedy}")
        addresses = [parse_address(word, f"{name}:{number}") for word in words]
        for address in addresses:
            if addresses.count(address) > 1:
                raise Failure(f"{name}:{number}: {address} is there twice; remove one")
        lists.append(addresses)
    if len(lists) < 2:
        missing = "memory" if lists else "compute and memory"
        raise Failure(f"{name} names no {missing} nodes: {remedy}")
    return lists


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"cannot read {path}: {error}; name a connection.conf with --config, or use "
                      "--namespaces") from error
    return parse(text, path)


def text_of(compute_nodes, memory_nodes):
    return "".join(" ".join(map(str, nodes)) + "\n" for nodes in (compute_nodes, memory_nodes))
