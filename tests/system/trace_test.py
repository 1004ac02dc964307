"""The timeline of a run: its events of each chunk are complete, consistent over all legs, and in order."""
import collections
import json

from harness import OWN_FAILURE, SystemTest, app, own_lines, program

MIB = 1 << 20
INLINE = 4096  # Smaller chunks from the device may travel in a frame, without a leg of their own.
COPY = 64 * MIB  # Size of a copy of `holds`.
TO_DEVICE = ("into staging", "network: send", "network: receive", "copy engine: to device")
FROM_DEVICE = ("copy engine: from device", "network: send", "network: receive", "out of staging")
BETWEEN = ("copy engine: to another device", "network: send", "network: receive",
           "copy engine: from another device")
STAGED = {"into staging": TO_DEVICE, "out of staging": FROM_DEVICE, "copy engine: to another device": BETWEEN}


class Trace(SystemTest):
    def read(self, path):
        """Checks the form of the file; returns its events, and its transfers: {(first leg, session, device, number):
        {leg: chunks}}."""
        trace = json.loads(path.read_text(encoding="utf-8"))
        events = trace["traceEvents"]
        self.assertEqual(trace["otherData"]["dropped"], 0)
        # Accuracy of the nodes' clocks, half a round trip each, in microseconds like the events.
        self.slack = 0.001 + sum(clock["round_trip_ns"] for clock in trace["otherData"]["clocks"]) / 1000
        named = {event["pid"] for event in events if event["name"] == "process_name" and event["args"]["name"]}
        tracks = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
        free = collections.defaultdict(float)
        legs = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "M":
                continue
            self.assertEqual(event["ph"], "X", event)
            self.assertIn(event["pid"], named)
            self.assertIn((event["pid"], event["tid"]), tracks)
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            # Events of a track are ordered by start, and do not overlap.
            track = (event["pid"], event["tid"])
            self.assertGreaterEqual(event["ts"] + 0.0005, free[track], event)
            free[track] = event["ts"] + event["dur"]
            if event["cat"] == "transfer" and event["args"]["transfer"] != 0:
                args = event["args"]
                # A copy between devices has one number in the whole session, without a device.
                place = None if "another device" in event["name"] or "join" in args else args["device"]
                legs[event["name"], args["session"], place, args["transfer"]].append(event)
        transfers = {}
        for (leg, *key), _ in legs.items():
            if leg in STAGED:
                transfers[(leg, *key)] = {name: legs[(name, *key)] for name in STAGED[leg] if (name, *key) in legs}
        return events, transfers

    def check_transfer(self, first, legs, agents):
        """Checks that all legs have the same contiguous chunks; returns the bytes."""
        wanted = [leg for leg in STAGED[first] if agents or not leg.startswith("network")]
        small = first == "out of staging" and all(chunk["args"]["bytes"] <= INLINE for chunk in legs[first])
        if small and "network: send" not in legs:
            wanted = [leg for leg in wanted if not leg.startswith("network")]
        self.assertEqual(sorted(legs), sorted(wanted))
        chunks = [[(chunk["args"]["offset"], chunk["args"]["bytes"]) for chunk in legs[leg]] for leg in wanted]
        begun = {leg: {chunk["args"]["offset"]: chunk["ts"] for chunk in legs[leg]} for leg in wanted}
        ended = {leg: {chunk["args"]["offset"]: chunk["ts"] + chunk["dur"] for chunk in legs[leg]} for leg in wanted}
        whole = sorted(chunks[0])
        offset = 0
        for start, size in whole:
            self.assertEqual(start, offset)
            offset += size
        for leg, those in zip(wanted, chunks):
            inline = set(whole) - set(those) if first == "out of staging" and leg.startswith("network") else set()
            self.assertEqual(sorted([*those, *inline]), whole, leg)
            self.assertTrue(all(size <= INLINE for _, size in inline), leg)
        # The device's clock is not compared: only the driver knows its accuracy.
        for start, sent in begun.get("network: send", {}).items():
            self.assertLessEqual(sent, ended["network: receive"][start] + self.slack)
        return offset

    def told_program(self, command, environment, lines):
        result = self.run_command([*command], environment, input="".join(line + "\n" for line in lines))
        self.assertNotIn("cudaError", result.stdout)
        return result

    def test_every_leg(self):
        path = self.folder / "trace.json"
        lines = ["send 0", "sync 0", "receive 0", "sync 0", "pass 0", "sync 0", "sync 1"]
        full = self.mpirun(2, "agents", [program("holds", "shared")])
        at = full.index("--stats")
        result = self.told_program([*full[:at], "--trace", str(path), *full[at:]], self.environment(1), lines)
        self.assertEqual(own_lines(result.stderr), [])
        events, transfers = self.read(path)
        sizes = collections.Counter()
        for (first, *_), legs in transfers.items():
            sizes[first, self.check_transfer(first, legs, agents=True)] += 1
        for first in STAGED:
            self.assertEqual(sizes[first, COPY], 1, sizes)
        names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(sum("agent" in name for name in names), 3, names)
        self.assertEqual(sum("holds" in name for name in names), 1, names)
        self.assertEqual(sum("GPU 0 for device" in name for name in names), 2, names)
        # All these hosts have the same clock.
        clocks = json.loads(path.read_text(encoding="utf-8"))["otherData"]["clocks"]
        self.assertEqual(len(clocks), 2)
        for clock in clocks:
            self.assertLessEqual(abs(clock["offset_ns"]), clock["round_trip_ns"])
        self.assert_nothing_left()

    def test_programs(self):
        """Kernels have their names; chunks of every kind of copy agree, on one node and over agents."""
        for same_node, agents in (("auto", False), ("never", True)):
            with self.subTest(same_node=same_node):
                path = self.folder / f"{same_node}.json"
                result = self.run_command(self.cuspan("run", "--gpus", "2", "--same-node", same_node, "--trace", path.name,
                                                      "--", app("transfers", "static")), self.environment(2))
                self.assertEqual(own_lines(result.stderr), [])
                events, transfers = self.read(path)
                for (first, *_), legs in transfers.items():
                    self.check_transfer(first, legs, agents)
                self.assertGreater(len(transfers), 20)
                self.assertTrue(any("Add(unsigned char*" in event["name"] for event in events))
                self.assert_nothing_left()

    def test_program_killed(self):
        """The file has all events recorded until then."""
        path = self.folder / "trace.json"
        script = f"echo send 0 | {program('holds', 'shared')} && kill -9 $$"
        self.run_command(self.cuspan("run", "--same-node", "never", "--trace", str(path), "--", "sh", "-c", script),
                         status=-9)
        _, transfers = self.read(path)
        self.assertIn("into staging", {first for first, *_ in transfers})
        self.assert_nothing_left()

    def test_several_programs(self):
        path = self.folder / "trace.json"
        script = f"{app('vector_add', 'shared')} && {app('vector_add', 'static')}"
        self.run_command(self.cuspan("run", "--trace", str(path), "--", "sh", "-c", script))
        events, _ = self.read(path)
        sessions = {event["args"]["session"] for event in events if event["ph"] == "X"}
        self.assertEqual(sessions, {1, 2})

    def test_a_file_that_can_not_be(self):
        result = self.run_command(self.cuspan("run", "--trace", "/no/such/folder/t.json", "--", "/bin/true"),
                                  status=OWN_FAILURE)
        self.assertIn("--trace: cannot write /no/such/folder/t.json: No such file or directory", result.stderr)
        result = self.run_command(self.cuspan("run", "--trace", str(self.folder), "--", "/bin/true"), status=OWN_FAILURE)
        self.assertIn(f"--trace: cannot write {self.folder}: Is a directory", result.stderr)

    def test_a_run_that_does_not_begin_changes_no_file(self):
        path = self.folder / "trace.json"
        path.write_text("older", encoding="utf-8")
        for options, command, status in ((["--dry-run"], "/bin/true", 0), ([], "/no/such/program", 127)):
            with self.subTest(options=options, command=command):
                self.run_command(self.cuspan("run", "--trace", str(path), *options, "--", command), status=status)
                self.assertEqual(path.read_text(encoding="utf-8"), "older")
        self.run_command(self.cuspan("run", "--trace", str(self.folder / "new"), "--dry-run", "--", "/bin/true"))
        self.assertFalse((self.folder / "new").exists())
