"""Output of cuspan bench, from the measurement to the plot."""
import json
import os
import time

from harness import USAGE, SystemTest


class Bandwidth(SystemTest):
    def test_every_direction_is_in_the_plot(self):
        self.run_command(self.cuspan("bench", "bandwidth", "--device", "soft", "--transfers", "4K,64K", "--buffers", "64K",
                                     "--rounds", "1", "--seconds", "0.001", "--relay", "mpi,ucx",
                                     "--csv", "results.csv", "--json", "results.json"))
        rows = json.loads((self.folder / "results.json").read_text(encoding="utf-8"))["results"]
        self.assertEqual({(row["placement"], row["relay"]) for row in rows},
                         {("same-node", ""), ("agents", "mpi"), ("agents", "ucx")})
        for row in rows:
            self.assertLessEqual(row["gbps_low"], row["gbps"], row)
            self.assertLessEqual(row["gbps"], row["gbps_high"], row)
            for reference in ("mpi_gbps", "mpi_memory_gbps", "ucx_gbps", "ucx_memory_gbps"):
                self.assertEqual(row[reference] is not None, row["placement"] == "agents", row)
        for results in ("results.csv", "results.json"):
            with self.subTest(results=results):
                self.run_command(self.cuspan("bench", "plot", results, "-o", "plot.svg"))
                plot = (self.folder / "plot.svg").read_text(encoding="utf-8")
                for direction in ("Host to device", "Device to host", "Both directions at once"):
                    for memory in ("pinned memory", "pageable memory"):
                        for placement in ("one node", "over agents"):
                            self.assertIn(f"{direction}, {memory}, {placement}", plot)
                self.assertIn("over UCX", plot)
                for told in ("software GPU", "cuspan 0", "medians of 1 rounds", time.strftime("%Y-%m", time.gmtime())):
                    self.assertIn(told, plot)
        self.assert_nothing_left()


class CommandLine(SystemTest):
    NAMES = ("agents", "allocator", "apps", "bandwidth", "calls", "share", "soft", "store")

    def test_mistakes_are_one_line(self):
        for name in self.NAMES:
            with self.subTest(name=name):
                result = self.run_command(self.cuspan("bench", name, "--nonsense"), status=USAGE)
                self.assertEqual(result.stderr, f"cuspan: unknown option '--nonsense'; see cuspan bench {name} --help\n")

    def test_help_fits_80_columns(self):
        for name in self.NAMES:
            with self.subTest(name=name):
                text = self.run_command(self.cuspan("bench", name, "--help")).stdout
                self.assertTrue(text.startswith(f"Usage: cuspan bench {name} [OPTIONS]\n"), text)
                self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])


class Store(SystemTest):
    @staticmethod
    def serving_threads():
        """Numbers of serving threads that are measured on this machine."""
        cores = len(os.sched_getaffinity(0))
        return [threads for threads in (4, 8, 14) if threads <= max(cores, 4)]

    def check_served(self, rows):
        counts = [f"served, {threads} threads" for threads in self.serving_threads()]
        self.assertEqual([row["figure"] for row in rows[::2]],
                         [*counts, "bytes read per byte of lines", "served, 512 B", "served, 64 KiB",
                          "auto, all lines touched", "served, cold"])
        for row in rows:
            self.assertEqual(row["ratio_plain"] is not None, row["figure"].startswith("served"), row)
            self.assertIsNone(row["ratio_local"], row)
            if row["unit"] == "ratio":
                self.assertEqual(row["value"], 1, "whole lines of the file are read, each once")

    def test_each_way(self):
        self.run_command(self.cuspan("bench", "store", "--device", "soft", "--relay", self.relay, "--folder", str(self.folder),
                                     "--mebibytes", "2", "--rounds", "1", "--csv", "results.csv", "--json", "results.json"))
        rows = json.loads((self.folder / "results.json").read_text(encoding="utf-8"))["results"]
        bulk = [*[("same-node", "", "GB/s")] * 3, *[("agents", self.relay, "GB/s")] * 4, ("same-node", "", "GB/s"),
                ("agents", self.relay, "GB/s"), *[("same-node", "", "us")] * 2, *[("agents", self.relay, "us")] * 2]
        engine = [(*place, unit) for place in (("same-node", ""), ("agents", self.relay))
                  for unit in ("GB/s", "M/s", "GB/s", "GB/s", "G/s")]
        served = [(*place, unit) for unit in (*["M/s"] * len(self.serving_threads()), "ratio", "M/s", "GB/s", "M/s", "k/s")
                  for place in (("same-node", ""), ("agents", self.relay))]
        self.assertEqual([(row["place"], row["relay"], row["unit"]) for row in rows], bulk + engine + served)
        for row in rows:
            self.assertGreater(row["value"], 0, row)
        lines = (self.folder / "results.csv").read_text(encoding="utf-8").splitlines()
        for scenario, wanted in (("bulk", bulk), ("engine", engine), ("served", served)):
            self.assertEqual(len([line for line in lines if line.startswith(f"{scenario},")]), len(wanted))
        self.check_served([row for row in rows if row["scenario"] == "served"])
        self.assertEqual(list(self.folder.glob("cuspan-bench-*")), [])
        self.assert_nothing_left()


class Agents(SystemTest):
    def test_each_number(self):
        self.run_command(self.cuspan("bench", "agents", "--agents", "2,4", "--rounds", "1", "--seconds", "0.1",
                                     "--relay", self.relay, "--json", "results.json"))
        rows = json.loads((self.folder / "results.json").read_text(encoding="utf-8"))["results"]
        self.assertEqual([(row["relay"], row["agents"]) for row in rows], [(self.relay, 2), (self.relay, 4)])
        for row in rows:
            self.assertGreater(row["home_private_bytes"], 0, row)
            self.assertGreater(row["home_sockets"], 0, row)
            self.assertEqual(row["peer_bytes"] is not None, row["agents"] == 4, row)
        self.assertEqual(rows[0]["other_sockets"], rows[1]["other_sockets"],
                         "an agent connects to those it talks to alone")
        self.assert_nothing_left()


class Share(SystemTest):
    def test_nothing_is_left_of_what_is_killed(self):
        self.run_command(self.cuspan("bench", "share", "--device", "soft", "--scenario", "faults", "--kills", "12",
                                     "--json", "results.json"))
        rows = json.loads((self.folder / "results.json").read_text(encoding="utf-8"))["results"]
        figures = {row["figure"]: row["value"] for row in rows}
        self.assertEqual(sum(value for figure, value in figures.items() if figure.endswith(" killed")), 12, figures)
        for figure in ("others that ended", "processes left", "files left"):
            self.assertEqual(figures[figure], 0, figures)
        self.assert_nothing_left()
