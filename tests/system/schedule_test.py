"""CUSPAN_SOFT_SCHEDULE: order of execution of the software GPU's threads."""
from harness import SystemTest, app, program

LOCKSTEP = ["256 of 256 threads right", "32 of 32 elements of one warp"]


class Schedule(SystemTest):
    def order(self, schedule, **more):
        command = self.cuspan("run", "--", program("schedule", "shared"))
        return self.run_command(command, self.environment(CUSPAN_SOFT_SCHEDULE=schedule, **more)).stdout.splitlines()

    def test_interleaved_threads_behave_as_on_a_gpu_where_they_race(self):
        self.assertEqual(self.order("interleaved"), LOCKSTEP)

    def test_threads_from_barrier_to_barrier_show_such_races(self):
        for order in (self.order("barrier"), self.order("barrier", CUSPAN_SOFT_MODEL="thread")):
            self.assertNotEqual(order[0], LOCKSTEP[0])
            self.assertNotEqual(order[1], LOCKSTEP[1])

    def test_a_random_order_is_the_same_for_a_seed_and_others_for_others(self):
        orders = [self.order(f"random:{seed}") for seed in (1, 2, 3, 1)]
        self.assertEqual(orders[0], orders[3])
        self.assertGreater(len(set(map(tuple, orders))), 1)

    def test_right_programs_are_right_in_any_order(self):
        for schedule in ("interleaved", "random:7"):
            for name in ("reduction", "fft"):
                with self.subTest(schedule=schedule, name=name):
                    command = self.cuspan("run", "--", app(name, "shared"), *(["6", "4"] if name == "fft" else []))
                    self.run_command(command, self.environment(CUSPAN_SOFT_SCHEDULE=schedule))

    def test_an_order_that_is_none_is_refused(self):
        for schedule in ("random", "random:", "random:x", "fair"):
            with self.subTest(schedule=schedule):
                command = self.cuspan("run", "--", program("schedule", "shared"))
                result = self.run_command(command, self.environment(CUSPAN_SOFT_SCHEDULE=schedule), status=None)
                self.assertIn(f"CUSPAN_SOFT_SCHEDULE='{schedule}' is not barrier, interleaved or random:SEED",
                              result.stderr)
