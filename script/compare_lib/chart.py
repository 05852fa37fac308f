"""Bar charts of ratios, as SVG, drawn by gnuplot."""

import shutil
import subprocess

from compare_lib import running

WIDTH, HEIGHT = 1100, 600
# Of the room between two groups of bars.
GAP = 0.8


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def script_text(title, labels, series):
    """series: {heading: [(ratio, target) for each label]}; either may be None.

    A bar for each ratio; a short line across it where the target is."""
    width = 1 / (len(series) + GAP)
    blocks, plots = [], []
    for index, (heading, values) in enumerate(series.items()):
        shift = (index - (len(series) - 1) / 2) * width
        bars = [f"{place + shift:.4f} {ratio:.4f}" for place, (ratio, _) in enumerate(values)
                if ratio is not None]
        marks = [f"{place + shift:.4f} {target:.4f} {width / 2:.4f}"
                 for place, (_, target) in enumerate(values) if target is not None]
        if bars:
            blocks.append(f"$bars{index} << EOD\n" + "\n".join(bars) + "\nEOD\n")
            plots.append(f"$bars{index} with boxes linecolor {index + 1} title {quoted(heading)}")
        if marks:
            blocks.append(f"$marks{index} << EOD\n" + "\n".join(marks) + "\nEOD\n")
            plots.append(f"$marks{index} with xerrorbars linecolor black linewidth 2 pointtype 0 " +
                         ("title 'target'" if index == len(series) - 1 else "notitle"))
    if not plots:
        return None
    # A label is a format there.
    tics = ", ".join(f"{quoted(label.replace('%', '%%'))} {place}"
                     for place, label in enumerate(labels))
    return "".join([
        *blocks,
        f"set terminal svg noenhanced size {WIDTH},{HEIGHT} background 'white'\n",
        f"set title {quoted(title)}\nset ylabel 'times as fast'\nset yrange [0:*]\n",
        f"set xrange [-0.6:{len(labels) - 0.4:.1f}]\nset xtics ({tics}) rotate by -30 left nomirror\n",
        "set grid ytics\nset key outside top center horizontal\nset style fill solid 0.7 noborder\n",
        f"set boxwidth {width * 0.92:.4f}\nset bars 0\nplot {', '.join(plots)}\n"])


def can_draw():
    return shutil.which("gnuplot") is not None


def draw(title, labels, series, path):
    """Writes the chart to `path`; returns whether there was anything to draw."""
    script = script_text(title, labels, series)
    if script is None:
        return False
    done = subprocess.run(["gnuplot", "-"], input=script.encode(), capture_output=True, timeout=300,
                          check=False)
    if done.returncode != 0 or b"<svg" not in done.stdout:
        raise running.Failure(f"gnuplot failed:\n{done.stderr.decode(errors='replace')}")
    try:
        with open(path, "wb") as file:
            file.write(done.stdout)
    except OSError as error:
        raise running.Failure(f"cannot write {path}: {error.strerror}") from error
    return True
