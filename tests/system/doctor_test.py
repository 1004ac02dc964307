"""`cuspan doctor` on this machine alone; cluster_doctor_test has other hosts."""
import json
import pathlib

from harness import OWN_FAILURE, SystemTest

FOUND = 1


class Alone(SystemTest):
    def test_healthy(self):
        result = self.run_command(self.cuspan("doctor"), self.environment(2))
        lines = result.stdout.splitlines()
        self.assertRegex(lines[0], r"cuspan [0-9.]+  2 x cuspan software GPU  this host$")
        self.assertEqual(lines[1:], ["no problems found: cuspan run can use 2 GPUs on 1 host"])
        self.assertEqual(result.stderr, "")
        self.assert_nothing_left()

    def test_json(self):
        report = json.loads(self.run_command(self.cuspan("doctor", "--json")).stdout)
        self.assertEqual((report["healthy"], report["findings"]), (True, []))
        host, = report["hosts"]
        self.assertEqual([gpu["software"] for gpu in host["gpus"]], [True])
        result = self.run_command(self.cuspan("doctor", "--json", "--hosts", "no-such-host.invalid"), status=FOUND)
        report = json.loads(result.stdout)
        finding, = report["findings"]
        self.assertEqual((report["healthy"], finding["id"], finding["severity"], finding["host"]),
                         (False, "name-unresolved", "error", "no-such-host.invalid"))
        self.assertTrue(finding["message"] and finding["action"])
        self.assertEqual([host["reached"] for host in report["hosts"]], [True, False])

    def test_text(self):
        result = self.run_command(self.cuspan("doctor"), self.environment(CUSPAN_LANE="2"))
        *_, finding, last = result.stdout.splitlines()
        self.assertRegex(finding, r"^warning  [^ ]+: .*CUSPAN_LANE .*did you mean CUSPAN_LANES.*; correct .* \[setting-unknown\]$")
        self.assertEqual(last, "1 warning: cuspan run can use 1 GPU on 1 host")
        result = self.run_command(self.cuspan("doctor", "--hosts", "no-such-host.invalid"), status=FOUND)
        *_, finding, last = result.stdout.splitlines()
        self.assertTrue(finding.startswith("error  no-such-host.invalid: "), finding)
        self.assertEqual(last, "1 error, 0 warnings: a run would not work")

    def test_command_line(self):
        for words in (["--timeout", "0"], ["--timeout", "soon"], ["--hosts", "a;b"], ["--", "/bin/true"], ["--gpus", "1"]):
            with self.subTest(words=words):
                result = self.run_command(self.cuspan("doctor", *words), status=OWN_FAILURE)
                self.assertEqual((result.stdout, len(result.stderr.splitlines())), ("", 1))
        text = self.run_command(self.cuspan("doctor", "--help")).stdout
        self.assertIn("--timeout", text)
        self.assertNotIn("--probe", text)
        for shell in ("bash", "zsh", "fish"):
            self.assertNotIn("probe", self.run_command(self.cuspan("completion", shell)).stdout)

    def test_facts(self):
        """A doctor's query of another host: one line, independent of the further input."""
        for said in ("", "no request\n"):
            with self.subTest(said=said):
                result = self.run_command(self.cuspan("doctor", "--probe"), input=said)
                self.assertEqual(len(result.stdout.splitlines()), 1)
                facts = json.loads(result.stdout)["cuspan_doctor"]
                # It does not listen before it has the key to identify its peers.
                self.assertEqual(facts["places"], [])
        self.assert_nothing_left()

    def test_memory(self):
        root = pathlib.Path("/sys/fs/cgroup")
        version = 2 if (root / "cgroup.controllers").exists() else 1
        group = (root if version == 2 else root / "memory") / f"cuspan-{self.mark}"
        limit = group / ("memory.max" if version == 2 else "memory.limit_in_bytes")
        try:
            group.mkdir()
            self.addCleanup(group.rmdir)
            if not limit.exists():
                self.skipTest("there is no memory controller of cgroups here")
            limit.write_text("96M", encoding="utf-8")
        except OSError as error:
            self.skipTest(f"this test may make no cgroup: {error}")
        inside = ["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec \"$@\"", "sh"]
        result = self.run_command([*inside, *self.cuspan("doctor", "--json")], self.environment(2), status=FOUND)
        self.assertEqual([finding["id"] for finding in json.loads(result.stdout)["findings"]], ["memory-low"])
        self.assert_nothing_left()
