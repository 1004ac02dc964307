"""cuspan run --metrics and cuspan metrics: texts read by Prometheus. cluster_metrics_test uses Prometheus itself."""
import http.client
import os
import shutil
import signal
import socket
import stat
import threading
import unittest

from harness import OWN_FAILURE, SystemTest, app, program, wait_until
from metrics_case import OPENMETRICS, Samples, UnixConnection, check_by_promtool, get


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class MetricsOfRuns(SystemTest):
    def held(self, where, *options, devices=1, **more):
        """Starts a run of `holds` with metrics at `where`."""
        command = self.cuspan("run", "--metrics", where, *options, "--", program("holds", "shared"))
        return self.start(command, self.environment(devices, **more))

    def scrape(self):
        status, kind, text = get(UnixConnection(self.folder / "socket"))
        self.assertEqual((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"), text)
        return text

    def device_at_rest(self):
        """The samples, if the proxy of device 1 has received all data sent by the program."""
        samples = Samples(self.scrape())
        return samples if samples.value("cuspan_device_queued_bytes", device="1") == 0 else None


class Run(MetricsOfRuns):
    def test_what_a_program_does(self):
        for same_node in ("auto", "never"):
            with self.subTest(same_node):
                # A new cache: kernels from an earlier run would not be compiled again.
                process = self.held(f"unix:{self.folder}/socket", "--same-node", same_node, devices=2,
                                    CUSPAN_SOFT_CACHE=str(self.folder / same_node))
                self.assertEqual(self.ask(process, "use 1"), "right")
                before = wait_until(self.device_at_rest, "the proxy has taken all")
                self.assertEqual(sum(value for _, value in before.of("cuspan_sessions")), 1)
                device, = before.of("cuspan_launches_total", device="1")
                self.assertEqual(device[0]["path"], "same-node" if same_node == "auto" else self.relay)
                self.assertEqual({has["host"] for has, _ in before.of("cuspan_device_info")}, {os.uname().nodename})
                self.assertEqual(before.value("cuspan_device_sessions", device="1"), 1)
                self.assertEqual(self.ask(process, "use 1"), "right")
                after = wait_until(self.device_at_rest, "the proxy has taken all")
                # The second call doubles the counters.
                for name, labels in (("cuspan_launches_total", {"device": "1"}),
                                     ("cuspan_copied_bytes_total", {"device": "1", "direction": "from_device"})):
                    self.assertGreater(before.value(name, **labels), 0)
                    self.assertEqual(after.value(name, **labels), 2 * before.value(name, **labels), name)
                launches = sum(value for _, value in after.of("cuspan_ops_total", op="Launch")
                               + after.of("cuspan_ops_total", op="LaunchShaped"))
                self.assertEqual(launches, after.value("cuspan_launches_total", device="1"))
                self.assertEqual({has["class"] for has, _ in after.of("cuspan_ops_total")}, {"posted", "waited_for"})
                self.assertEqual({value for _, value in after.of("cuspan_agent_up")}, {1})
                self.assertEqual({value for _, value in after.of("cuspan_errors_total")}, {0})
                self.assertEqual(len(after.of("cuspan_errors_total")), 5 * len(after.of("cuspan_agent_up")))
                for _, value in after.of("cuspan_agent_resident_memory_bytes"):
                    self.assertGreater(value, 1 << 20)
                self.assertGreater(after.value("cuspan_compiled_seconds_total", device="1"), 0)
                self.assertEqual({has["program"] for has, _ in after.of("cuspan_run_info")}, {"holds"})
                process.stdin.close()
                self.assertEqual(process.wait(), 0)
                self.assert_nothing_left()
                self.assertFalse((self.folder / "socket").exists())

    def test_of_processes_that_have_ended(self):
        # Each process has its own session; the sums include ended sessions.
        process = self.start(self.cuspan("run", "--metrics", f"unix:{self.folder}/socket", "--", "sh", "-c",
                                         f"{app('vector_add', 'shared')}; {app('vector_add', 'static')}; echo done; read end"),
                             self.environment())
        wait_until(lambda: self.answer(process) == "done", "both have ended")

        def left_alone():
            samples = Samples(self.scrape())
            return samples if samples.value("cuspan_sessions") == 0 else None
        samples = wait_until(left_alone, "no session is left")
        self.assertEqual(samples.value("cuspan_sessions_started_total"), 2)
        self.assertEqual(samples.value("cuspan_device_sessions"), 0)
        self.assertEqual(samples.value("cuspan_launches_total"), 2)

    def test_openmetrics(self):
        process = self.held(f"unix:{self.folder}/socket")
        self.assertEqual(self.ask(process, "use 0"), "right")
        status, kind, text = get(UnixConnection(self.folder / "socket"), accept=OPENMETRICS)
        self.assertEqual((status, kind), (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
        lines = text.splitlines()
        self.assertEqual(lines[-1], "# EOF")
        self.assertIn("# TYPE cuspan_copied_bytes counter", lines)
        self.assertIn("# UNIT cuspan_copied_bytes bytes", lines)
        # Each sample follows the header of its family, and has its name.
        family = None
        for line in lines[:-1]:
            if line.startswith("# TYPE "):
                family, kind = line.split()[2:]
            elif line.startswith("# "):
                self.assertEqual(line.split()[2], family)
            else:
                self.assertEqual(line.split("{")[0], family + "_total" * (kind == "counter"))
        self.assertEqual(Samples("\n".join(lines)).names(), Samples(self.scrape()).names())

    def test_a_device_that_is_lost_is_counted(self):
        process = self.held(f"unix:{self.folder}/socket")
        self.assertEqual(self.ask(process, "use 0"), "right")
        (proxy, _), = self.processes("cuspan-proxy")
        os.kill(proxy, signal.SIGKILL)
        self.assertEqual(self.ask(process, "use 0"), "cudaErrorDevicesUnavailable")
        self.assertEqual(Samples(self.scrape()).value("cuspan_errors_total", kind="device_lost"), 1)

    def test_agents_that_are_killed(self):
        process = self.held(f"unix:{self.folder}/socket", "--same-node", "never")
        self.assertEqual(self.ask(process, "use 0"), "right")
        launches = Samples(self.scrape()).value("cuspan_launches_total")
        for pid, _ in self.processes("cuspan-agent"):
            os.kill(pid, signal.SIGKILL)

        def gone():
            samples = Samples(self.scrape())
            return samples if {value for _, value in samples.of("cuspan_agent_up")} == {0} else None
        # The last reported values remain.
        self.assertEqual(wait_until(gone, "the agents are seen to be gone").value("cuspan_launches_total"), launches)

    def test_over_tcp_many_at_once(self):
        port = free_port()
        process = self.held(str(port))
        self.assertEqual(self.ask(process, "use 0"), "right")
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(get(http.client.HTTPConnection("127.0.0.1", port))))
                   for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([status for status, _, _ in answers], [200] * 16)
        self.assertEqual({Samples(text).value("cuspan_launches_total") for _, _, text in answers}, {1})
        self.assertEqual(get(http.client.HTTPConnection("127.0.0.1", port), "/other")[0], 404)
        for wrong, answer in ((b"POST /metrics HTTP/1.1\r\n\r\n", b"405 "), (b"\0" * 9216, b"431 "),
                              (b"GET /metrics\r\n\r\n", b"405 "), (b"HEAD /metrics HTTP/1.0\r\n\r\n", b"200 ")):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(wrong)
                said = connection.makefile("rb").read()
                self.assertTrue(said.startswith(b"HTTP/1.1 " + answer), (wrong[:40], said))
        # A connection with no request or an incomplete one does not delay the end of the run.
        with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            process.stdin.close()
            self.assertEqual(process.wait(), 0)

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = self.run_command(self.cuspan("run", "--metrics", str(port), "--", "true"), status=OWN_FAILURE)
            self.assertEqual(result.stderr,
                             f"cuspan: --metrics: cannot listen at 127.0.0.1:{port}: Address already in use: choose another one\n")
        self.assert_nothing_left()

    def test_a_socket_that_a_killed_run_has_left(self):
        where = f"unix:{self.folder}/socket"
        first = self.held(where)
        self.assertEqual(self.ask(first, "use 0"), "right")
        # A socket in use is not replaced.
        result = self.run_command(self.cuspan("run", "--metrics", where, "--", "true"), status=OWN_FAILURE)
        self.assertIn("Address already in use", result.stderr)
        self.assertEqual(stat.S_IMODE((self.folder / "socket").stat().st_mode), 0o600)
        first.kill()
        first.wait()
        self.assertTrue((self.folder / "socket").exists())
        second = self.held(where)
        self.assertEqual(self.ask(second, "use 0"), "right")
        self.assertEqual(Samples(self.scrape()).value("cuspan_launches_total"), 1)

    def test_a_file_for_each_run(self):
        for _ in range(2):
            self.run_command(self.cuspan("run", "--", app("vector_add", "shared")),
                             self.environment(CUSPAN_METRICS=f"{self.folder}/cuspan-%r.prom"))
        files = list(self.folder.glob("cuspan-*"))
        self.assertEqual(len(files), 2)
        for file in files:
            self.assertRegex(file.name, "^cuspan-[0-9a-f]{16}[.]prom$")
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o644)
            samples = Samples(file.read_text())
            self.assertEqual({has["run"] for _, has, _ in samples.all}, {file.name[7:-5]})
            # Values at the end of the run.
            self.assertEqual(samples.value("cuspan_launches_total"), 1)

    def test_what_is_no_plain_file_stays(self):
        for path in (self.folder, "/dev/null"):
            result = self.run_command(self.cuspan("run", "--metrics", str(path), "--", "true"), status=OWN_FAILURE)
            self.assertEqual(result.stderr, f"cuspan: --metrics: {path} is not a regular file: name another one\n")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_what_a_site_wants_and_can_not_be_ends_no_run(self):
        result = self.run_command(self.cuspan("run", "--", app("vector_add", "shared")),
                                  self.environment(CUSPAN_METRICS="/no/such/folder/%r.prom"))
        self.assertIn("PASS", result.stdout)
        self.assertIn("cuspan: CUSPAN_METRICS: --metrics: cannot write /no/such/folder/", result.stderr)

    def test_a_file_while_the_run_goes_on(self):
        file = self.folder / "run.prom"
        process = self.held(str(file))
        wait_until(lambda: file.exists() and "cuspan_run_info" in file.read_text(), "it is written at once")
        process.stdin.close()
        self.assertEqual(process.wait(), 0)


class Node(SystemTest):
    def environment(self, devices=1, **more):
        return super().environment(devices, CUSPAN_LEASES="on", CUSPAN_LEASE_FOLDER=str(self.leases), **more)

    def setUp(self):
        super().setUp()
        # A folder of leases must be directly in a sticky folder of root.
        self.leases = self.folder / "leases"
        self.leases.mkdir()
        self.leases.chmod(0o1777)

    def test_gpus_and_runs(self):
        empty = Samples(self.run_command(self.cuspan("metrics"), self.environment(2)).stdout)
        self.assertEqual((empty.value("cuspan_gpus", state="free"), empty.value("cuspan_gpus", state="leased")), (2, 0))
        self.assertEqual((empty.value("cuspan_runs", state="running"), empty.value("cuspan_runs", state="waiting")), (0, 0))
        run = self.start(self.cuspan("run", "--gpus", "1", "--", program("holds", "shared")), self.environment(2))
        self.assertEqual(self.ask(run, "use 0"), "right")
        samples = Samples(self.run_command(self.cuspan("metrics"), self.environment(2)).stdout)
        self.assertEqual((samples.value("cuspan_gpus", state="free"), samples.value("cuspan_gpus", state="leased")), (1, 1))
        self.assertEqual(sum(value for _, value in samples.of("cuspan_gpu_leased")), 1)
        (labels, gpus), = samples.of("cuspan_run_gpus")
        self.assertEqual((labels["program"], gpus), ("holds", 1))
        self.assertEqual(samples.value("cuspan_gpu_memory_bytes", gpu="0"), 512 << 20)

    def test_an_exporter(self):
        exporter = self.start(self.cuspan("metrics", f"unix:{self.folder}/socket"), self.environment(2))
        wait_until((self.folder / "socket").exists, "it listens")

        def leased():
            status, _, text = get(UnixConnection(self.folder / "socket"))
            self.assertEqual(status, 200, text)
            return Samples(text).value("cuspan_gpus", state="leased")
        self.assertEqual(leased(), 0)
        run = self.start(self.cuspan("run", "--gpus", "all", "--", program("holds", "shared")), self.environment(2))
        self.assertEqual(self.ask(run, "use 0"), "right")
        self.assertEqual(leased(), 2)
        run.stdin.close()
        run.wait()
        wait_until(lambda: leased() == 0, "they are free again")
        exporter.send_signal(signal.SIGTERM)
        self.assertEqual(exporter.wait(), -signal.SIGTERM)
        self.assertFalse((self.folder / "socket").exists())
        self.assert_nothing_left()


@unittest.skipUnless(shutil.which("promtool"), "no promtool: install prometheus (tests/run.sh --monitoring)")
class Promtool(MetricsOfRuns):
    """promtool finds no fault in any text."""

    def test_of_a_run(self):
        process = self.held(f"unix:{self.folder}/socket", "--same-node", "never")
        self.assertEqual(self.ask(process, "use 0"), "right")
        check_by_promtool(self.scrape())

    def test_of_a_file(self):
        file = self.folder / "run.prom"
        self.run_command(self.cuspan("run", "--metrics", str(file), "--", app("vector_add", "shared")))
        check_by_promtool(file.read_text())

    def test_of_a_host(self):
        check_by_promtool(self.run_command(self.cuspan("metrics"), self.environment(2)).stdout)
