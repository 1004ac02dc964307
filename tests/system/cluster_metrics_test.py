"""Metrics scraped by Prometheus itself: from exporters on two hosts, and from a run with agents there."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
from urllib.parse import quote

from box import Box, BoxTest
from harness import program, wait_until

DASHBOARD = pathlib.Path(__file__).resolve().parents[2] / "deploy/grafana/cuspan.json"
RUN, EXPORTER, PROMETHEUS = 9400, 9401, 9090
# Queries Prometheus from its own host in the box; others cannot reach it.
ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


def setUpModule():
    if shutil.which("prometheus") is None:
        raise unittest.SkipTest("no prometheus (tests/run.sh --monitoring installs it)")
    BoxTest.box = Box([0, 2, 2])


def tearDownModule():
    BoxTest.box.down()
    BoxTest.box = None


class Prometheus(BoxTest):
    def setUp(self):
        super().setUp()
        config = self.folder / "prometheus.yml"
        config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [
            {"job_name": "run", "static_configs": [{"targets": [f"n0:{RUN}"]}]},
            {"job_name": "hosts", "static_configs": [{"targets": [f"n1:{EXPORTER}", f"n2:{EXPORTER}"]}]}]}))
        self.server = self.start(self.box.on(
            "n0", "prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{PROMETHEUS}", "--log.level=error"), stderr=None, stdout=None)

    def environment(self, devices=1, **more):
        leases = self.folder / "leases"
        leases.mkdir(exist_ok=True)
        leases.chmod(0o1777)
        return super().environment(devices, CUSPAN_LEASES="on", CUSPAN_LEASE_FOLDER=str(leases), **more)

    def api(self, path):
        """Data of Prometheus's reply; None without a reply."""
        result = self.run_on_host("n0", sys.executable, "-c", ASK, f"http://127.0.0.1:{PROMETHEUS}/api/v1/{path}")
        return json.loads(result.stdout)["data"] if result.returncode == 0 else None

    def run_on_host(self, host, *command):
        return subprocess.run(self.box.on(host, *command), capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)

    def query(self, expression):
        """Result of a query, a list of (labels, value)."""
        data = self.api("query?query=" + quote(expression))
        return data and [(one["metric"], float(one["value"][1])) for one in data["result"]]

    def test_two_exporters_and_a_run(self):
        for host in ("n1", "n2"):
            self.start(self.box.on(host, *self.cuspan("metrics", f":{EXPORTER}")), self.environment())
        run = self.start_on("n0", "--hosts", "n1,n2", "--gpus", "3", "--metrics", f":{RUN}", "--",
                            program("holds", "shared"))
        for device in range(3):
            self.assertEqual(self.ask(run, f"use {device}"), "right")
        wait_until(lambda: sum(value for _, value in self.query("up") or []) == 3,
                   lambda: f"all three answer: {self.api('targets')}")
        wait_until(lambda: self.query('sum(cuspan_gpus{state="leased"})') == [({}, 3)],
                   lambda: f"3 GPUs are leased: {self.query('cuspan_gpus')}")
        self.assertEqual({labels["host"] for labels, _ in self.query("cuspan_agent_up == 1")}, {"n0", "n1", "n2"})
        self.assertEqual({labels["path"] for labels, _ in self.query("cuspan_copied_bytes_total")}, {self.relay})
        self.assertEqual({(labels["program"], value) for labels, value in self.query("sum by (program) (cuspan_run_gpus)")},
                         {("holds", 3)})
        # Further launches must become visible.
        self.tell(run, "loop 0")
        wait_until(lambda: self.query("sum(rate(cuspan_launches_total[10s])) > 0"), "launches a second")
        self.check_metadata()
        self.check_dashboard()
        run.kill()
        run.wait()
        wait_until(lambda: self.query('up{job="run"}') == [({"__name__": "up", "instance": f"n0:{RUN}", "job": "run"}, 0)],
                   "the run is gone")
        wait_until(lambda: self.query('sum(cuspan_gpus{state="free"})') == [({}, 4)], "all GPUs are free")

    def check_metadata(self):
        """Each metric has a help text, a type, and the unit in its name."""
        known = {name: entries[0] for name, entries in self.api("metadata").items() if name.startswith("cuspan_")}
        self.assertGreater(len(known), 20)
        for name, entry in known.items():
            self.assertIn(entry["type"], ("counter", "gauge"), name)
            self.assertTrue(entry["help"].endswith("."), (name, entry))
            unit = re.search("_(seconds|bytes)(_total)?$", name)
            self.assertEqual(entry["unit"], unit.group(1) if unit else "", name)

    def check_dashboard(self):
        """Each query of the dashboard has a result."""
        dashboard = json.loads(DASHBOARD.read_text())
        queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
        self.assertGreater(len(queries), 15)
        for expression in queries:
            real = re.sub(r"\$(host|run)", ".*", expression).replace("$__rate_interval", "10s")
            wait_until(lambda real=real: self.query(real), lambda real=real: f"{real} finds something: {self.query(real)}")
