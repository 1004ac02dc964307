"""CUSPAN_SOFT_CHECK=races: planted races are found and named, and correct programs cause no report."""
import collections
import re

from harness import SystemTest, program

PATHS = {"same-node": "auto", "agents": "never"}
REPORT = re.compile(r"cuspan.*: software GPU 0: kernel (\w+)\(int\*\): race on (shared|global) memory at 0x[0-9a-f]+: "
                    r"thread \(\d+,0,0\) of block \(\d,0,0\) (wrote|read) it \(PTX line \d+ \((\w+\.\w+):\d+\): '([a-z0-9_.]+)'\)"
                    r" and thread \(\d+,0,0\) of block \(\d,0,0\) (wrote|read) it \(PTX line \d+ \((\w+\.\w+):\d+\): "
                    r"'([a-z0-9_.]+)'\), and nothing orders the two$")


class Races(SystemTest):
    def look(self, check, *arguments, path="same-node", status=0, **more):
        """Runs the kernels; returns their names and the reports about each."""
        command = self.cuspan("run", "--same-node", PATHS[path], "--", program("races", "shared"), *arguments)
        result = self.run_command(command, self.environment(CUSPAN_SOFT_CHECK=check, **more), status)
        reports = collections.defaultdict(list)
        for line in result.stderr.splitlines():
            if "race on" in line:
                match = REPORT.match(line)
                self.assertTrue(match, line)
                reports[match[1]].append(match)
        return result.stdout.split(), reports

    def test_planted_races_are_found_and_nothing_else(self):
        for path, check in (("same-node", "races"), ("agents", "all")):
            with self.subTest(path=path, check=check):
                # This log level reports all races, without omitting similar lines.
                names, reports = self.look(check, path=path, CUSPAN_LOG="info")
                wrong = [name for name in names if name.startswith("wrong_")]
                self.assertGreaterEqual(len(wrong), 20)
                self.assertGreaterEqual(len(names) - len(wrong), 20)
                self.assertEqual(sorted(reports), sorted(wrong))
                for name, found in reports.items():
                    for report in found:
                        self.assertIn("wrote", (report[3], report[6]), "one of the two writes")
                        for access, instruction in ((report[3], report[5]), (report[6], report[8])):
                            of_access = ("ld.",) if access == "read" else ("st.", "atom.", "red.")
                            self.assertTrue(instruction.startswith(of_access), report[0])
                        self.assertEqual(report[2] == "global", "global" in name or "last_block" in name, report[0])
                        # Inlined code has another file name: atomics come from a header of CUDA.
                        self.assertIn("races.cu", (report[4], report[7]), report[0])

    def test_each_kernel_alone_is_found_too(self):
        """A few lines per kernel are also printed at the default log level."""
        for name in ("wrong_write_write", "wrong_single_buffer"):
            _, reports = self.look("races", name)
            self.assertEqual(list(reports), [name])

    def test_nothing_is_looked_for_unless_it_is_asked_for(self):
        for check in ("off", "memory"):
            _, reports = self.look(check)
            self.assertEqual(reports, {})

    def test_a_check_that_is_none_is_refused(self):
        command = self.cuspan("run", "--", program("races", "shared"))
        result = self.run_command(command, self.environment(CUSPAN_SOFT_CHECK="rases"), status=None)
        self.assertIn("CUSPAN_SOFT_CHECK='rases' is not memory, races, all or off", result.stderr)
