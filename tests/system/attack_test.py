"""Hostile processes beside an honest program: all attacks at once, by another user and within the run."""
import os
import pathlib
import re

from hardening_test import NOBODY, attacker
from harness import SystemTest, own_lines, program

# Private memory of an agent, at most. Memory shared with sessions does not count.
MOST_MIB = 256
MOST_LINES = 100
# Largest allowed ratio of the honest program's times with and without attacks. By default it is not checked, since
# other work may use the processors. On a quiet machine CUSPAN_TEST_SLOWDOWN=1.2 checks it.
MOST_SLOWDOWN = float(os.environ.get("CUSPAN_TEST_SLOWDOWN", "inf"))
STEPS = 150
# Pairs of times, without and with attacks. The shortest time of each kind counts, since other processes of the machine
# only lengthen it.
PAIRS = 3

IN_THE_RUN = ("junk", "idle", "greets", "joins", "deaf", "scribbles", "shrinks", "forks", "holds")


class Attack(SystemTest):
    def own_memory(self, pid):
        status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:")) / 1024

    def steady(self, process):
        """The time of an honest program in the run, by its own clock."""
        answer = self.ask(process, "steady")
        if not re.fullmatch(r"\d+\.\d+", answer):
            process.kill()
            self.fail(f"the honest program fails, {answer}; stderr:\n{self.ends(process)[2]}")
        return float(answer)

    def through(self, path):
        # The run's program follows commands: starts the honest program, starts an attacker, ends the attackers.
        script = f"""
            while read order argument; do
              case $order in
                steady) {program('steady', 'shared')} {STEPS} || echo wrong ;;
                attack) {attacker()} $argument >/dev/null 2>&1 & attackers="$attackers $!" ; echo begun ;;
                # Some may have ended.
                peace) kill -9 $attackers 2>/dev/null; attackers= ; echo over ;;
              esac
            done"""
        process = self.start(self.cuspan("run", "--gpus", "2", "--same-node", path, "--", "sh", "-c", script),
                             self.environment(2))
        alone, beside = [], []
        self.steady(process)  # Warm-up: compiles the kernels.
        for _ in range(PAIRS):
            alone.append(self.steady(process))
            for attack in IN_THE_RUN:
                self.assertEqual(self.ask(process, f"attack {attack}"), "begun")
            if os.geteuid() == 0:
                stranger = self.start([attacker(), str(NOBODY), "sockets"])
                self.assertEqual(self.answer(stranger), "ready")
            beside.append(self.steady(process))
            for pid, _ in self.processes("cuspan-agent"):
                self.assertLess(self.own_memory(pid), MOST_MIB)
            self.assertEqual(self.ask(process, "peace"), "over")
            for pid, _ in self.processes("attacker"):
                os.kill(pid, 9)
        status, _, errors = self.ends(process)
        self.assertEqual(status, 0, errors)
        print(f"{path}: alone {alone}, beside {beside} s; {len(errors.splitlines())} lines")
        self.assertLess(len(errors.splitlines()), MOST_LINES, errors)
        self.assertEqual(own_lines(errors), errors.splitlines())
        self.assertLessEqual(min(beside), MOST_SLOWDOWN * min(alone))
        self.assert_nothing_left()

    def test_on_one_node(self):
        self.through("auto")

    def test_over_agents(self):
        self.through("never")
