"""Brings a cluster up and takes it down."""

from cluster_lib import memory_nodes, state
from cluster_lib.failure import Failure, hold_signals, uninterrupted


def say(text):
    print(text, flush=True)


def start(name, shape, start_timeout, is_all=False):
    """Brings the cluster up, or leaves nothing of it. `is_all`: nothing comes after it."""
    there = state.read(name)
    if there is not None:
        if there.shape != shape:
            raise Failure(f"the cluster {name} is there, and is another one; script/cluster stop "
                          f"--name={name} first, or choose another --name")
        if all(up for up, _ in memory_nodes.look_at_all(there)):
            say(f"cluster {name} is up already")
            return there
        raise Failure(f"the cluster {name} is there, but not whole: see script/cluster status --name={name}; "
                      "stop it first")
    cluster = state.Cluster(name, shape, state.folder_of(name))
    if cluster.network:
        cluster.network.check()
    problems = memory_nodes.on_all(lambda node: memory_nodes.find_programs(cluster, node), cluster.nodes())
    for node, problem in zip(cluster.nodes(), problems):
        if problem:  # Nothing is begun that could not be undone there, or that could not be asked how it is.
            raise Failure(f"{node.name} ({node.host.describe()}): {problem}")
    try:
        cluster.write()
        if cluster.network:
            cluster.network.make()
        memory_nodes.on_all(lambda node: memory_nodes.launch(cluster, node), cluster.memory_nodes)
        memory_nodes.on_all(lambda node: memory_nodes.prepare(cluster, node), cluster.compute_nodes)
        for node in cluster.memory_nodes:
            memory_nodes.wait_until_ready(node, start_timeout)
        say(f"cluster {name} is up: {describe(cluster)}")
        if is_all:
            hold_signals()
    except BaseException:
        for problem in tear_down(cluster):
            say(f"script/cluster: {problem}")
        raise
    return cluster


def tear_down(cluster, forget=False):
    """Everything that there may be of it. Returns what went wrong; what is left can be stopped again then,
    unless it is to be forgotten."""
    with uninterrupted():
        problems, left = [], False
        for problem, done in memory_nodes.on_all(
                lambda node: memory_nodes.stop(cluster, node), cluster.nodes()):
            if problem:
                problems.append(problem)
            left = left or not done
        try:
            if cluster.network:
                cluster.network.remove()
        except Failure as failure:
            problems.append(str(failure))
            left = True
        if left and not forget:
            problems.append("something is left; try script/cluster stop again, or with --forget if it is "
                            "gone for good")
        else:
            cluster.remove_folder()
        return problems


def count(nodes, what):
    return f"{len(nodes)} {what}{'' if len(nodes) == 1 else 's'}"


def describe(cluster):
    shape = cluster.shape
    where = "in namespaces" if shape.namespaces else "on the hosts of connection.conf"
    network = {"delay": shape.delay, "rate": shape.rate}
    network_text = "".join(f", {name} {value}" for name, value in network.items() if value)
    return (f"{count(cluster.memory_nodes, 'memory node')}, {count(cluster.compute_nodes, 'compute node')}, "
            f"{where}{network_text}{', TLS' if shape.tls else ''}")
