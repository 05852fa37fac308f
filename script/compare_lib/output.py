"""The files of a comparison: PREFIX.md, PREFIX.json and the charts PREFIX-*.svg. What an earlier one has left
there is kept as PREFIX.old.* from the first result on."""

import json
import os
import re
import tempfile

from compare_lib import chart, figures, remote, remote_rows, report, rows, running


def comparison_object(comparison):
    return {"dlsm": comparison.ours, "peers": comparison.medians, "best_peer": comparison.best_peer,
            "ratio": comparison.ratio, "ratio_lowest": comparison.lowest,
            "ratio_highest": comparison.highest, "target": comparison.target, "met": comparison.met}


def summary(results, medians, arguments):
    """What the tables say, for programs."""
    engine_rows = [
        {"row": row.label, "size": list(size), "threads": threads, **comparison_object(
            figures.compare_row(results, row, size, threads, rows.OURS, report.peers_of(arguments)))}
        for size in arguments.sizes for threads in arguments.threads for row in rows.ROWS]
    remote_comparisons = [
        {"row": row.label, "way": way.label, **comparison_object(remote.compare(medians, row, way))}
        for row in remote_rows.ROWS for way in row.ways]
    return {"rows": engine_rows if results.results else [],
            "limits": [{"limit": limit.label, "size": list(limit.size), "threads": threads,
                        "most": limit.most, "medians": setups, "met": met}
                       for limit, threads, setups, met in report.limits_met(results, arguments)],
            "redis": remote_comparisons if medians.results else []}


def files_at(prefix):
    """What follows the prefix in the names of a comparison's files that are there."""
    folder, name = os.path.split(os.path.abspath(prefix))
    pattern = re.compile(re.escape(name) + r"(\.md|\.json|-(?:\d+|redis)\.svg)")
    return [match[1] for match in map(pattern.fullmatch, os.listdir(folder)) if match]


class Output:
    def __init__(self, arguments, notes, about):
        """about: a report.About."""
        self.arguments = arguments
        self.prefix = arguments.output
        self.notes = notes
        self.about = about
        self.is_begun = False

    def check(self):
        """That there can be files, without touching those that are there."""
        try:
            with tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(self.prefix))):
                pass
        except OSError as error:
            raise self._cannot_write(self.prefix + ".md", error) from error

    def _cannot_write(self, path, error):
        return running.Failure(f"cannot write {path}: {error.strerror}; --output names another place")

    def _begin(self):
        """Keeps what is there by another name; what was kept before goes."""
        old = self.prefix + ".old"
        there = files_at(self.prefix)
        for rest in files_at(old) if there else ():
            os.remove(old + rest)
        for rest in there:
            os.replace(self.prefix + rest, old + rest)
        self.is_begun = True

    def _write(self, rest, text):
        path = self.prefix + rest
        try:
            if not self.is_begun:
                self._begin()
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise self._cannot_write(path, error) from error

    def text(self, results, medians):
        return report.markdown(results, medians, self.arguments, self.notes, self.about)

    def write_tables(self, results, medians):
        self._write(".json", json.dumps(
            {**self.about.to_json(), "arguments": vars(self.arguments), "notes": self.notes,
             **summary(results, medians, self.arguments), "runs": results.results,
             "redis_runs": medians.results}, indent=1) + "\n")
        self._write(".md", self.text(results, medians))

    def draw_charts(self, results, medians):
        """Those for which there is a ratio."""
        if not chart.can_draw():
            return
        arguments = self.arguments
        for threads in arguments.threads:
            found = {report.size_text(size): [
                figures.compare_row(results, row, size, threads, rows.OURS, report.peers_of(arguments))
                for row in rows.ROWS] for size in arguments.sizes}
            self._draw(f"dLSM beside the best peer, {report.threads_text(threads)}",
                       [row.label for row in rows.ROWS], found, threads)
        pairs = [(row, way) for row in remote_rows.ROWS for way in row.ways]
        self._draw("dLSM over tcp beside Redis",
                   [f"{way.label} (-c{row.clients} -P{row.pipelined})" for row, way in pairs],
                   {"dLSM / Redis": [remote.compare(medians, row, way) for row, way in pairs]}, "redis")

    def _draw(self, title, labels, comparisons, name):
        if any(c.ratio is not None for found in comparisons.values() for c in found):
            series = {heading: [(c.ratio, c.target) for c in found] for heading, found in comparisons.items()}
            chart.draw(title, labels, series, f"{self.prefix}-{name}.svg")
