#!/usr/bin/env python3
"""Tests of bench/plot.py: its drawings, its refusals, and the results kept in the repository.

Usage: plot_test.py ROOT_OF_THE_REPOSITORY CUSPAN_BENCH_ALLOCATOR
"""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, ALLOCATOR = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)
RESULTS = ROOT / "bench/results"

BANDWIDTH = "# benchmark: bandwidth\n# machine: a small one\n"
COLUMNS = "direction,memory,placement,transfer_bytes,buffer_bytes,lanes,gbps,mpi_gbps,local_gbps\n"
COPIES = """\
to-device,pinned,agents,4096,262144,1,0.4,7.5,
to-device,pinned,agents,1048576,262144,1,5,7.5,
to-device,pinned,agents,1048576,1048576,1,5.5,8,
to-device,pinned,agents,1048576,1048576,2,9,15,
from-device,pageable,agents,4096,262144,1,0.5,7.5,
both,pinned,same-node,4096,262144,1,0.8,,0.9
device-to-device,device,same-node,4096,262144,1,0.7,,0.6
"""
OUTCOME = {"load": 0.9, "wait_mean_min": 0.02, "utilisation_percent": 87.2, "hosts": 2.79, "decision_p99_us": 40.9}


class PlotTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, text, name="results.csv"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def plot(self, *files, **options):
        output = self.folder / "plot.svg"
        return subprocess.run([sys.executable, "-B", ROOT / "bench/plot.py", *files, "-o", output], check=False,
                              capture_output=True, text=True, **options), output

    def drawn(self, *files):
        """Texts of the drawing."""
        ended, output = self.plot(*files)
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "", ""))
        return re.findall(r"<text>(?:<tspan[^>]*>)?([^<]+)", output.read_text(encoding="utf-8"))

    def refused(self, *files, **options):
        """Error message of a refused drawing."""
        ended, output = self.plot(*files, **options)
        self.assertNotEqual(ended.returncode, 0)
        self.assertFalse(output.exists())
        self.assertRegex(ended.stderr, r"^plot\.py: .*\n$")
        return ended.stderr

    def test_every_direction_and_every_line_is_named(self):
        texts = self.drawn(self.file(BANDWIDTH + COLUMNS + COPIES))
        for label in ("Host to device, pinned memory, over agents", "Device to host, pageable memory, over agents",
                      "Both directions at once, pinned memory, one node", "Device to device, device memory, one node",
                      "staging buffers of 256K, 1 lane", "staging buffers of 1M, 1 lane", "staging buffers of 1M, 2 lanes",
                      "raw MPI, as many buffers", "local GPU, without cuspan", "a small one"):
            self.assertIn(label, texts)

    def test_where_results_come_from_is_told(self):
        head = BANDWIDTH + "# date: 2026-11-21T10:00:00Z\n# version: 0.1.0\n# device: soft\n# rounds: 3\n"
        text = COLUMNS.replace("gbps,mpi", "gbps,gbps_low,gbps_high,mpi") + "to-device,pinned,agents,4096,262144,1,0.4,0.3,0.6,7.5,\n"
        self.assertIn("a small one, software GPU, cuspan 0.1.0, 2026-11-21, medians of 3 rounds, with the lowest and the highest",
                      " ".join(self.drawn(self.file(head + text))))
        older = self.file(BANDWIDTH + "# commit: abc\n# command: cuspan bench bandwidth --device soft\n" + COLUMNS + COPIES)
        self.assertIn("a small one, software GPU, commit abc", self.drawn(older))

    def test_links_and_transports_are_told_apart(self):
        self.assertIn("a link of 10 Gbit/s", self.drawn(RESULTS / "bandwidth-slow-link.csv"))
        self.assertIn("over tcp, staging buffers of 1M", " ".join(self.drawn(RESULTS / "bandwidth-soft.csv")))

    def test_json_is_drawn_as_csv_is(self):
        rows = [{**OUTCOME, "policy": policy} for policy in ("first-fit", "it's pack")]
        texts = self.drawn(self.file(json.dumps({"benchmark": "allocator", "machine": "one", "results": rows}), "a.json"))
        for label in ("first-fit", "it's pack", "Mean wait", "Utilisation", "Hosts of a request", "Decision, 99th percentile"):
            self.assertIn(label, texts)

    def test_lines_of_several_files_are_told_apart(self):
        texts = self.drawn(self.file(BANDWIDTH + COLUMNS + COPIES, "monday.csv"), self.file(BANDWIDTH + COLUMNS + COPIES, "friday.csv"))
        self.assertIn("monday, staging buffers of 1M, 2 lanes", texts)
        self.assertIn("friday, staging buffers of 1M, 2 lanes", texts)

    def test_what_a_benchmark_writes_is_drawn(self):
        for name, option in (("a.csv", "--csv"), ("a.json", "--json")):
            with self.subTest(name=name):
                subprocess.run([ALLOCATOR, "--nodes", "16", "--requests", "50", "--policies", "pack,spread", option, name],
                               check=True, cwd=self.folder, stdout=subprocess.DEVNULL)
                texts = self.drawn(self.folder / name)
                self.assertIn("pack", texts)
                self.assertIn("spread", texts)

    def test_the_command_is_in_the_file_as_it_was_typed(self):
        subprocess.run([ALLOCATOR, "--nodes", "16", "--requests", "50", "--policies", "pack", "--csv", "a b.csv"],
                       check=True, cwd=self.folder, stdout=subprocess.DEVNULL)
        self.assertIn("\n# command: cuspan bench allocator --nodes 16 --requests 50 --policies pack --csv 'a b.csv'\n",
                      (self.folder / "a b.csv").read_text(encoding="utf-8"))

    def test_bad_files(self):
        for text, words in (
                ("", ("empty",)),
                (BANDWIDTH + COLUMNS, ("no results",)),
                (COLUMNS + COPIES, ("no field 'benchmark'",)),
                ("# benchmark: calls\ncall\nlaunch\n", ("'calls'", "bandwidth", "allocator")),
                (BANDWIDTH + (COLUMNS + COPIES).replace("gbps,mpi", "mbps,mpi"), ("result 1", "no column gbps")),
                (BANDWIDTH + COLUMNS + "to-device,pinned\n", ("result 1", "no column", "gbps")),
                (BANDWIDTH + COLUMNS + COPIES.replace(",0.8,", ",fast,"), ("result 6", "gbps is 'fast'")),
                (BANDWIDTH + COLUMNS + COPIES.replace(",4096,", ",0,", 1), ("result 1", "transfer_bytes is '0'")),
                (BANDWIDTH + COLUMNS + COPIES.replace(",7.5,", ",nan,", 1), ("result 1", "mpi_gbps is 'nan'")),
                (BANDWIDTH + COLUMNS + COPIES + COPIES, ("two results of one size",)),
                ('{"benchmark": "bandwidth"', ("neither CSV nor JSON",)),
                ('{"benchmark": "bandwidth", "results": 1}', ("no list 'results'",)),
                ('{"benchmark": "bandwidth", "results": [{"gbps": 1}]}', ("no column direction",))):
            with self.subTest(text=text):
                line = self.refused(self.file(text))
                for word in ("results.csv" if "two results" not in words[0] else "", *words):
                    self.assertIn(word, line)

    def test_other_refusals(self):
        file = self.file(BANDWIDTH + COLUMNS + COPIES)
        outcomes = self.file(json.dumps({"benchmark": "allocator", "results": [{**OUTCOME, "policy": "pack"}]}), "a.json")
        self.assertIn("one benchmark", self.refused(file, outcomes))
        self.assertIn("missing.csv: No such file", self.refused(self.folder / "missing.csv"))
        self.assertIn("package gnuplot-nox", self.refused(file, env={**os.environ, "PATH": str(self.folder)}))

    def test_results_that_are_kept_say_where_they_come_from(self):
        for path in sorted(RESULTS.glob("*.csv")):
            with self.subTest(path=path.name):
                lines = path.read_text(encoding="utf-8").splitlines()
                head = [line for line in lines if line.startswith("#")]
                self.assertEqual([line.split(":")[0] for line in head[:5]],
                                 ["# benchmark", "# machine", "# date", "# commit", "# command"])
                columns, *rows = csv.reader(lines[len(head):])
                self.assertTrue(rows)
                for row in rows:
                    self.assertEqual(len(row), len(columns), row)


if __name__ == "__main__":
    unittest.main()
