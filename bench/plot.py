#!/usr/bin/env python3
"""Draws results of cuspan bench bandwidth or cuspan bench allocator as an SVG.

RESULTS are files written by --csv or --json of these benchmarks, or files of bench/results. All files of a plot must
be of the same benchmark. bandwidth: a panel for each direction, kind of memory and placement. allocator: a panel for
each figure.
"""
import argparse
import collections
import csv
import dataclasses
import itertools
import json
import math
import pathlib
import shutil
import subprocess
import sys
import textwrap

# Colours distinguishable without red and green.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
# Source of a line, as gnuplot's numbers of dashes and points.
CUSPAN, RAW_MPI, LOCAL = ("1", 7), ("(8,5)", 1), ("(2,4)", 6)
# Pixels: a panel with its title and labels, the area above the panels, distance between labels, a letter.
PANEL = (330, 260)
MARGINS = (60, 15)
HEAD = 55
SUBTITLE = 15
TIC = 30
LETTER = 6.5


class Failure(Exception):
    """Error shown to the user."""


@dataclasses.dataclass
class Results:
    path: pathlib.Path
    head: dict
    rows: list


@dataclasses.dataclass
class Line:
    colour: str
    look: tuple
    points: list
    scatter: list = dataclasses.field(default_factory=list)  # (x, lowest, highest)


@dataclasses.dataclass
class Panel:
    title: str
    x_label: str
    y_label: str
    lines: list
    sizes: bool = False  # x: size in bytes, logarithmic axis.


# Required columns.
COLUMNS = {
    "bandwidth": ("direction", "memory", "placement", "transfer_bytes", "buffer_bytes", "gbps"),
    "allocator": ("policy", "load", "wait_mean_min", "utilisation_percent", "hosts", "decision_p99_us"),
}
TEXT = ("direction", "memory", "placement", "policy")  # Text columns; all others hold numbers.
# Optional columns of bandwidth, empty if not measured, as in older files: raw MPI, the local GPU, the scatter.
REFERENCES = ("mpi_gbps", "local_gbps", "gbps_low", "gbps_high")
DEVICES = {"soft": "software GPU", "cuda": "GPU", "auto": "GPU or software GPU"}


def read_csv(lines):
    head = {}
    while lines and lines[0].startswith("#"):
        name, _, value = lines.pop(0)[1:].partition(":")
        head.setdefault(name.strip(), value.strip())
    return head, list(csv.DictReader(lines))


def read_json(text):
    head = json.loads(text)
    rows = head.pop("results", []) if isinstance(head, dict) else []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Failure("no list 'results' of objects")
    return head, rows


def value_of(row, column, at):
    """Text or number of a column. None if a reference was not measured."""
    value = row.get(column)
    if column in REFERENCES and value in (None, ""):
        return None
    if column in TEXT:
        return str(value)
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    lowest = 1 if column.endswith("_bytes") else 0
    if not (math.isfinite(found) and found >= lowest):
        raise Failure(f"result {at}: {column} is {value!r}, not a number from {lowest}")
    return found


def parse(text):
    """Head and rows of a file's text. Checks the drawn columns."""
    if not text.strip():
        raise Failure("the file is empty; its benchmark has not ended or has failed")
    head, rows = read_json(text) if text.lstrip().startswith("{") else read_csv(text.splitlines())
    benchmark = head.get("benchmark")
    if not isinstance(benchmark, str):
        raise Failure("no field 'benchmark' at its head; give a file written by --csv or --json of a benchmark")
    if benchmark not in COLUMNS:
        raise Failure(f"there are no plots of '{benchmark}', only of {' and '.join(COLUMNS)}")
    if not rows:
        raise Failure("no results after its head")
    for at, row in enumerate(rows, 1):
        missing = [column for column in COLUMNS[benchmark] if row.get(column) is None]
        if missing:
            raise Failure(f"result {at}: no column {', '.join(missing)}; {benchmark} needs {', '.join(COLUMNS[benchmark])}")
        row.update({column: value_of(row, column, at) for column in COLUMNS[benchmark] + REFERENCES})
    return head, rows


def read(path):
    try:
        head, rows = parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error, json.JSONDecodeError) as error:
        raise Failure(f"{path}: neither CSV nor JSON: {error}") from error
    except Failure as failure:
        raise Failure(f"{path}: {failure}") from failure
    return Results(path, head, rows)


def size_text(size):
    units = ["", "K", "M", "G"]
    while size and size % 1024 == 0 and len(units) > 1:
        size //= 1024
        units.pop(0)
    return f"{size:g}{units[0]}"


def count_text(one, many):
    return lambda value: f"{value} {one if value == '1' else many}"


# Properties distinguishing the lines of a panel. The legend has only the varying ones.
VARIANTS = {
    "relay": lambda value: f"over {value.upper()}",
    "transport": lambda value: f"over {value}",
    "link_gbit_per_s": lambda value: f"a link of {value} Gbit/s",
    "file": str,
    "buffer_bytes": lambda value: f"staging buffers of {size_text(int(float(value)))}",
    "buffers": count_text("buffer", "buffers"),
    "proxies": count_text("device", "devices"),
    "lanes": count_text("lane", "lanes"),
    "sends": count_text("send", "sends"),
    "pipelined": lambda value: "pipelined" if value.lower() == "true" else "not pipelined",
}
DIRECTIONS = {"to-device": "Host to device", "from-device": "Device to host", "both": "Both directions at once",
              "device-to-device": "Device to device"}
MEMORIES = {"pinned": "pinned memory", "pageable": "pageable memory", "device": "device memory"}
PLACEMENTS = {"same-node": "one node", "agents": "over agents"}


def ordered(known, found):
    """Entries of `found`: the known ones first, in their order."""
    return [one for one in known if one in found] + sorted(set(found) - set(known))


def points_of(rows, column):
    """(size, value) of all rows with a value, sorted by size."""
    return sorted((row["transfer_bytes"], row[column]) for row in rows if row[column] is not None)


def bandwidth(rows):
    """Panels and legend for copies: cuspan, raw MPI and the local GPU over the transfer size."""
    by_panel = collections.defaultdict(list)
    for row in rows:
        by_panel[row["placement"], row["memory"], row["direction"]].append(row)
    varying = [name for name in VARIANTS
               if any(len({str(row.get(name, "")) for row in members}) > 1 for members in by_panel.values())]

    def label(row):
        return ", ".join(VARIANTS[name](str(row[name])) for name in varying if str(row.get(name, ""))) or "cuspan"

    colours = dict(zip(dict.fromkeys(label(row) for row in rows), itertools.cycle(COLOURS)))
    legend = [(name, Line(colour, CUSPAN, [])) for name, colour in colours.items()]
    if any(row.get("mpi_gbps") for row in rows):
        legend.append(("raw MPI, as many buffers", Line("#000000", RAW_MPI, [])))
    if any(row.get("local_gbps") for row in rows):
        legend.append(("local GPU, without cuspan", Line("#000000", LOCAL, [])))
    panels = []
    for placement, memory, direction in itertools.product(
            *(ordered(known, {panel[at] for panel in by_panel})
              for at, known in enumerate((PLACEMENTS, MEMORIES, DIRECTIONS)))):
        members = by_panel.get((placement, memory, direction))
        if not members:
            continue
        title = ", ".join((DIRECTIONS.get(direction, direction), MEMORIES.get(memory, memory),
                           PLACEMENTS.get(placement, placement)))
        lines = []
        for name, colour in colours.items():
            own = [row for row in members if label(row) == name]
            if len({row["transfer_bytes"] for row in own}) < len(own):
                raise Failure(f"{title}: two results of one size for the line '{name}'; give the results of one run in a file")
            scatter = sorted((row["transfer_bytes"], row["gbps_low"], row["gbps_high"]) for row in own
                             if row["gbps_low"] is not None and row["gbps_high"] is not None)
            lines += [Line(colour, CUSPAN, points_of(own, "gbps"), scatter),
                      Line(colour, RAW_MPI, points_of(own, "mpi_gbps"))]
        # The local GPU has no staging: any line has its points.
        lines.append(Line("#000000", LOCAL, sorted(dict(points_of(members, "local_gbps")).items())))
        panels.append(Panel(title, "transfer size, bytes", "GB/s", lines, sizes=True))
    return panels, legend, min(3, len({row["direction"] for row in rows}))


def allocator(rows):
    """Panels and legend for the policies: four figures over the load."""
    several = len({row["file"] for row in rows}) > 1

    def label(row):
        return f"{row['file']}, {row['policy']}" if several else row["policy"]

    colours = dict(zip(dict.fromkeys(label(row) for row in rows), itertools.cycle(COLOURS)))
    panels = []
    for title, y_label, column in (("Mean wait", "minutes", "wait_mean_min"), ("Utilisation", "%", "utilisation_percent"),
                                   ("Hosts of a request", "hosts, mean", "hosts"),
                                   ("Decision, 99th percentile", "µs", "decision_p99_us")):
        lines = [Line(colour, CUSPAN, sorted((row["load"], row[column]) for row in rows if label(row) == name))
                 for name, colour in colours.items()]
        panels.append(Panel(title, "offered load, of all GPUs", y_label, lines))
    return panels, [(name, Line(colour, CUSPAN, [])) for name, colour in colours.items()], 2


def quoted(text):
    return "'" + str(text).replace("'", "''") + "'"


def style(line):
    dashes, point = line.look
    return f"with linespoints pointtype {point} pointsize 0.45 linewidth 1.6 linecolor rgb '{line.colour}' dashtype {dashes}"


def tics_of(xs, places, text):
    """A tic at each of `xs`, labelled if there is room after the previous label. `places`: their positions in pixels."""
    tics, last = [], -math.inf
    for x, place in zip(xs, places):
        named = place - last >= TIC
        last = place if named else last
        tics.append(f"{quoted(text(x) if named else '')} {x!r}")
    return ", ".join(tics)


def panel_script(panel, left, top, width, height):
    """Script of one panel. Its position is in pixels, from the upper left."""
    lines = [line for line in panel.lines if line.points]
    xs = sorted({x for line in lines for x, _ in line.points})
    low, high = (xs[0] / 1.5, xs[-1] * 1.5) if panel.sizes else (xs[0] - 0.01, xs[-1] + 0.01)
    scale = math.log2 if panel.sizes else float
    inner = PANEL[0] - sum(MARGINS)
    places = [inner * (scale(x) - scale(low)) / (scale(high) - scale(low)) for x in xs]
    text = (lambda x: size_text(int(x))) if panel.sizes else "{:g}".format
    highest = max([y for line in lines for _, y in line.points] + [y for line in lines for _, _, y in line.scatter])
    script = [
        f"set lmargin at screen {(left + MARGINS[0]) / width}",
        f"set rmargin at screen {(left + PANEL[0] - MARGINS[1]) / width}",
        f"set tmargin at screen {1 - (top + 30) / height}", f"set bmargin at screen {1 - (top + PANEL[1] - 52) / height}",
        f"set title {quoted(panel.title)}", f"set xlabel {quoted(panel.x_label)}", f"set ylabel {quoted(panel.y_label)}",
        "set logscale x 2" if panel.sizes else "unset logscale", f"set xrange [{low!r}:{high!r}]",
        f"set yrange [0:{highest * 1.08 or 1!r}]", f"set xtics ({tics_of(xs, places, text)})"]
    for at, line in enumerate(lines):
        script += [f"$line{at} << END", *(f"{x!r} {y!r}" for x, y in line.points), "END"]
    plots = [f"$line{at} notitle {style(line)}" for at, line in enumerate(lines)]
    for at, line in enumerate(lines):
        if line.scatter:
            script += [f"$scatter{at} << END", *(f"{x!r} {low!r} {low!r} {high!r}" for x, low, high in line.scatter), "END"]
            plots.append(f"$scatter{at} notitle with yerrorbars pointtype 0 linewidth 0.8 linecolor rgb '{line.colour}'")
    script.append("plot " + ", ".join(plots))
    return script


def script_of(panels, legend, columns, title, origins):
    """Script for gnuplot: the title, the origin of the results, the panels in rows, and the legend to their right."""
    rows = math.ceil(len(panels) / columns)
    beside = 60 + LETTER * max(len(name) for name, _ in legend)
    width = int(columns * PANEL[0] + beside)
    told = [line for one in origins for line in textwrap.wrap(one, int((width - 30) / LETTER))]
    head = HEAD + SUBTITLE * (len(told) - 1)
    height = head + rows * PANEL[1]
    script = [
        "set encoding utf8",
        f"set terminal svg size {width},{height} font 'sans-serif,11' background '#ffffff' noenhanced",
        "set grid linetype 1 linecolor rgb '#e4e4e4'", "set border 3", "set tics nomirror out scale 0.5", "unset key",
        "set title font ',12' offset 0,-0.6", "set xlabel offset 0,0.7", "set ylabel offset 1.5,0", "set multiplot",
        f"set label 1 {quoted(title)} at screen {15 / width}, screen {1 - 16 / height} font ',14'",
        *(f"set label {at + 2} {quoted(line)} at screen {15 / width}, screen {1 - (36 + SUBTITLE * at) / height} "
          "textcolor rgb '#555555'" for at, line in enumerate(told))]
    for at, panel in enumerate(panels):
        row, column = divmod(at, columns)
        script += [*panel_script(panel, column * PANEL[0], head + row * PANEL[1], width, height), "unset label"]
    # Legend: a panel without axes, with lines without points.
    script += ["unset border", "unset tics", "unset title", "unset xlabel", "unset ylabel", "unset logscale",
               "set xrange [0:1]", "set yrange [0:1]", "set tmargin at screen 1", "set bmargin at screen 0",
               f"set key at screen {(columns * PANEL[0] + 5) / width}, screen {1 - (head + 25) / height} left top Left "
               "reverse samplen 2.5 spacing 1.4",
               "plot " + ", ".join(f"NaN {style(line)} title {quoted(name)}" for name, line in legend)]
    return "\n".join(script) + "\n"


def origin(head):
    """Origin of the results: machine, device, version, date, and number of rounds."""
    parts = [head.get("machine", "unknown machine")]
    device = head.get("device")
    if device is None and "--device soft" in head.get("command", ""):
        device = "soft"
    if device is not None:
        parts.append(DEVICES.get(device, str(device)))
    if "version" in head:
        parts.append(f"cuspan {head['version']}")
    elif "commit" in head:
        parts.append(f"commit {head['commit']}")
    if "date" in head:
        parts.append(str(head["date"])[:10])
    if "rounds" in head:
        parts.append(f"medians of {head['rounds']} rounds, with the lowest and the highest")
    return ", ".join(parts)


def draw(paths, output):
    results = [read(path) for path in paths]
    kinds = {one.head["benchmark"] for one in results}
    if len(kinds) > 1:
        raise Failure(f"a plot shows one benchmark, but the files are of {' and '.join(sorted(kinds))}: draw them one by one")
    kind = kinds.pop()
    rows = [{**row, "file": one.path.stem} for one in results for row in one.rows]
    panels, legend, columns = {"bandwidth": bandwidth, "allocator": allocator}[kind](rows)
    origins = dict.fromkeys(origin(one.head) for one in results)
    script = script_of(panels, legend, columns, f"cuspan bench {kind}", origins)
    gnuplot = shutil.which("gnuplot")
    if gnuplot is None:
        raise Failure("gnuplot is not installed; on Debian and Ubuntu it is in the package gnuplot-nox")
    ended = subprocess.run([gnuplot], input=script.encode(), capture_output=True, check=False)
    if ended.returncode != 0 or not ended.stdout.rstrip().endswith(b"</svg>"):
        raise Failure(f"gnuplot failed (status {ended.returncode}): {ended.stderr.decode(errors='replace').strip()}")
    try:
        output.write_bytes(ended.stdout)
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error.strerror}") from error


def main():
    parser = argparse.ArgumentParser(prog="cuspan bench plot", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", metavar="RESULTS", nargs="+", type=pathlib.Path, help="a file of results, CSV or JSON")
    parser.add_argument("-o", "--output", metavar="OUT.svg", required=True, type=pathlib.Path, help="the SVG to write")
    options = parser.parse_args()
    try:
        draw(options.results, options.output)
    except Failure as failure:
        sys.exit(f"plot.py: {failure}")


if __name__ == "__main__":
    main()
