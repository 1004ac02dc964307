"""CUSPAN_LOG_FORMAT=json: each line printed by cuspan, from any of its processes, is a JSON object."""
import datetime
import json

from harness import SystemTest, app

ALWAYS = {"time": str, "level": str, "name": str, "component": str, "process": str, "pid": int, "host": str,
          "message": str}
SOMETIMES = {"run": str, "session": int, "device": int, "omitted": int}


class JsonLog(SystemTest):
    def objects(self, result):
        lines = [json.loads(line) for line in result.stderr.splitlines()]
        for line in lines:
            for key, kind in ALWAYS.items():
                self.assertIsInstance(line[key], kind, line)
            for key, value in line.items():
                self.assertIsInstance(value, (ALWAYS | SOMETIMES)[key], line)
            self.assertIn(line["level"], ("error", "warn", "info", "debug"))
            self.assertEqual(datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).utcoffset(),
                             datetime.timedelta(0))
        return lines

    def test_each_process_says_who_it_is(self):
        for same_node in ("auto", "never"):
            with self.subTest(same_node):
                command = self.cuspan("run", "--same-node", same_node, "--", app("errors", "shared"), "reset")
                result = self.run_command(command, self.environment(CUSPAN_LOG="debug", CUSPAN_LOG_FORMAT="json"))
                self.assertIn("PASS", result.stdout)
                lines = self.objects(result)
                by = {}
                for line in lines:
                    by.setdefault(line["component"], []).append(line)
                self.assertEqual(len({line["run"] for line in lines if "run" in line}), 1)
                self.assertTrue(by["agent"])
                self.assertEqual({(line["process"], line["session"], line["device"]) for line in by["proxy"]},
                                 {("cuspan-proxy", 1, 0)})

    def test_the_programs_own_lines_stay_as_they_are(self):
        script = "echo from the program >&2; exec \"$1\" reset"
        result = self.run_command(self.cuspan("run", "--", "sh", "-c", script, "sh", app("errors", "shared")),
                                  self.environment(CUSPAN_LOG_FORMAT="json"))
        own = [line for line in result.stderr.splitlines() if line.startswith("{")]
        self.assertIn("from the program", result.stderr.splitlines())
        self.assertTrue(own, result.stderr)
        for line in map(json.loads, own):
            self.assertIn(line["level"], ("warn", "error"))
            self.assertRegex(line["run"], "^[0-9a-f]{16}$")

    def test_what_ends_the_run_is_an_object(self):
        result = self.run_command(self.cuspan("run", "--device", "cuda", "--", "true"),
                                  self.environment(CUSPAN_LOG_FORMAT="json", LD_LIBRARY_PATH=""), None)
        lines = self.objects(result)
        self.assertEqual((lines[-1]["level"], lines[-1]["component"]), ("error", "launcher"))
        self.assertNotIn("{", lines[-1]["message"])

    def test_wrong_settings_are_named(self):
        for name, value, allowed in (("CUSPAN_LOG_FORMAT", "xml", "text or json"),
                                     ("CUSPAN_LOG", "loud", "error, warn, info or debug")):
            result = self.run_command(self.cuspan("run", "--", "true"), self.environment(**{name: value}), 2)
            self.assertEqual(result.stderr, f"cuspan: {name} must be {allowed}, not '{value}'\n")
