"""The figure of the scale-out: the same benchmark for every number of memory and compute nodes. What an
operation costs must stay what it is as nodes are added."""

import statistics

from cluster_lib.summary import columns_text, number

HEADING = ["memory x compute", "kops/s", "CPU us/op", "vs first", "of it memory", "wire B/op", "vs first",
           "trips/op", "max/mean"]


def figures(workload):
    total = workload.total
    return {"kops": total["kops/s"],
            "cpu": total["compute CPU us/op"] + total["memory CPU us/op"],
            "memory_cpu": total["memory CPU us/op"], "wire": total["wire B/op"],
            "trips": total["trips/op"], "balance": workload.balance}


def medians(runs):
    """Of a list of figures; and the spread of the CPU, in percent of its median to either side."""
    of = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    cpu = [run["cpu"] for run in runs]
    of["cpu_spread"] = 50 * (max(cpu) - min(cpu)) / of["cpu"] if of["cpu"] else 0.0
    return of


def relative(value, first):
    return f"{100 * (value / first - 1):+.0f}%" if first else "-"


def text(cells):
    """`cells`: (memory nodes, compute nodes) -> a list of Summary, a run each; the last may have fewer."""
    out = []
    runs = max(map(len, cells.values()))
    names = [workload.name for workload in next(iter(cells.values()))[0].measured()]
    for place, name in enumerate(names):
        rows, first = [], None
        for (memory, compute), summaries in cells.items():
            at = medians([figures(summary.measured()[place]) for summary in summaries])
            first = first or at
            spread = f" ±{at['cpu_spread']:.0f}%" if len(summaries) > 1 else ""
            of_runs = f", {len(summaries)} of {runs} runs" if len(summaries) < runs else ""
            rows.append([f"{memory} x {compute}{of_runs}", number(at["kops"]), number(at["cpu"]) + spread,
                         relative(at["cpu"], first["cpu"]), number(at["memory_cpu"]), number(at["wire"]),
                         relative(at["wire"], first["wire"]), number(at["trips"]), f"{at['balance']:.3f}"])
        out.append(f"{name}{f', medians of {runs} runs' if runs > 1 else ''}\n" + columns_text(HEADING, rows))
    return "\n".join(out)
