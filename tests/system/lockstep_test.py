"""Warps relying on lock-step execution: the software GPU computes the same right numbers in all of its modes."""
import itertools

from harness import SystemTest, app, own_lines

PATHS = {"same-node": "auto", "agents": "never"}
TIERS, MODELS = ("first", "last"), ("vector", "thread", "auto")
SCHEDULES = ("barrier", "interleaved", "random:3")
KERNELS = ("Broadcast", "Mirror", "Relay", "ByFunctions", "ByGlobalMemory", "Scan", "Sum", "Uneven", "Skipping", "MakeLists")


class Lockstep(SystemTest):
    def environments(self):
        for tier, model, schedule in itertools.product(TIERS, MODELS, SCHEDULES):
            yield {"CUSPAN_SOFT_TIER": tier, "CUSPAN_SOFT_MODEL": model, "CUSPAN_SOFT_SCHEDULE": schedule}

    def run_once(self, path, **more):
        command = self.cuspan("run", "--same-node", PATHS[path], "--", app("lockstep", "shared"))
        result = self.run_command(command, self.environment(**more))
        self.assertEqual(result.stdout, "lockstep: PASS\n")
        return result.stderr

    def test_results_do_not_depend_on_tier_model_and_schedule(self):
        for settings in self.environments():
            with self.subTest(**settings):
                self.assertEqual(own_lines(self.run_once("same-node", CUSPAN_SOFT_CACHE="off", **settings)), [])

    def test_results_do_not_depend_on_the_path(self):
        for tier, model in itertools.product(TIERS, MODELS):
            with self.subTest(tier=tier, model=model):
                self.run_once("agents", CUSPAN_SOFT_CACHE="off", CUSPAN_SOFT_TIER=tier, CUSPAN_SOFT_MODEL=model)

    def test_results_do_not_depend_on_the_cache(self):
        """The cache fills from run to run."""
        cache = str(self.folder / "kernels")
        for tier in ("auto", "auto", "first", "auto", "last", "auto"):
            for path in PATHS:
                with self.subTest(tier=tier, path=path):
                    self.run_once(path, CUSPAN_SOFT_CACHE=cache, CUSPAN_SOFT_TIER=tier)

    def test_the_race_check_names_the_accesses_and_changes_no_result(self):
        for schedule in SCHEDULES:
            with self.subTest(schedule=schedule):
                errors = self.run_once("same-node", CUSPAN_SOFT_CHECK="races", CUSPAN_SOFT_SCHEDULE=schedule,
                                       CUSPAN_LOG="info")
                for kernel in KERNELS:
                    self.assertRegex(errors, rf"kernel .*::{kernel}\(.*\): race on (shared|global) memory")
