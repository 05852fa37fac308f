"""Medians, the best peer, ratios and verdicts. Computes; runs nothing."""

import dataclasses
import statistics


class Results:
    """What all runs gave. Each has the fields of db_bench's JSON, and size, threads, setup,
    benchmark and run."""

    def __init__(self, results):
        self.results = results

    def by_run(self, size, threads, setup, benchmark, figure):
        """{run: value}; figure: a function of a result. Unknown values are left out."""
        values = {r["run"]: figure(r) for r in self.results
                  if (tuple(r["size"]), r["threads"], r["setup"], r["benchmark"]) ==
                  (size, threads, setup, benchmark)}
        return {run: value for run, value in values.items() if value is not None}

    def median(self, *where):
        values = self.by_run(*where)
        return statistics.median(values.values()) if values else None


def half_spread(values):
    """Half the range, as a share of the median; None for fewer than two."""
    median = statistics.median(values) if values else 0
    return (max(values) - min(values)) / 2 / median if len(values) > 1 and median > 0 else None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Our median beside the best peer's. `lowest` and `highest`: the ratios within a run."""
    ours: float | None
    medians: dict  # Of each peer that was measured.
    best_peer: str | None
    ratio: float | None
    lowest: float | None
    highest: float | None
    target: float | None

    @property
    def met(self):
        """None where there is nothing to meet, or nothing to say."""
        return None if self.target is None or self.ratio is None else self.ratio >= self.target


def compare(ours, peers, target):
    """ours: {run: value}, the more the better; peers: {peer: {run: value}}. The best peer is the one
    with the highest median: it is the same for all runs, so that luck does not choose it."""
    medians = {peer: statistics.median(values.values()) for peer, values in peers.items() if values}
    best = max(medians, key=medians.get, default=None)
    median = statistics.median(ours.values()) if ours else None
    ratio, of_runs = None, []
    if best is not None and median is not None and medians[best] > 0:
        ratio = median / medians[best]
        of_runs = [ours[run] / peers[best][run] for run in ours if peers[best].get(run)]
    return Comparison(median, medians, best, ratio, min(of_runs, default=None),
                      max(of_runs, default=None), target)


def compare_row(results, row, size, threads, ours, peers):
    return compare(results.by_run(size, threads, ours, row.benchmark, row.figure),
                   {peer: results.by_run(size, threads, peer, row.benchmark, row.figure)
                    for peer in peers},
                   row.target(size, threads))


def verdict(met):
    return "-" if met is None else "yes" if met else "**no**"
