#!/usr/bin/env python3
"""Checks the direction of includes: common <- protocol <- {interpose, proxy, launcher}, and headers restricted to
certain folders.

Usage: includes_test.py ROOT_OF_THE_REPOSITORY
"""
import pathlib
import sys
import tempfile
import unittest

from sources import LAYERS, includes, sources

ROOT = pathlib.Path(sys.argv.pop(1))

# Allowed layers of included headers, by layer.
MAY_INCLUDE = {
    "common": {"common"},
    "protocol": {"common", "protocol"},
    "interpose": {"common", "protocol", "interpose"},
    "proxy": {"common", "protocol", "proxy"},
    "launcher": {"common", "protocol", "launcher"},
}

# Allowed folders of included headers inside interpose, by folder: client <- calls <- the API folders. The folder load
# includes none of them, and they include only its public header.
ROOMS_OF_INTERPOSE = {
    "client": {"client"},
    "calls": {"client", "calls", "load"},
    "runtime": {"client", "calls", "runtime", "load"},
    "driver": {"client", "calls", "driver", "load"},
    "nccl": {"client", "calls", "nccl", "load"},
    "nvml": {"client", "calls", "nvml"},
    "process": {"client", "process"},
    "load": {"load"},
}
DOOR_OF_LOAD = "interpose/load/load.h"

# The same for proxy: gpu <- streams <- objects <- bulk, nccl <- sharing <- session <- handlers <- files directly in
# proxy. Libraries beside them: ptx <- {kernel_class, slicing, softgpu}.
ROOMS_OF_PROXY = {
    "ptx": set(),
    "kernel_class": {"ptx"},
    "slicing": {"ptx"},
    "softgpu": {"ptx"},
    "softnccl": set(),
    "gpu": {"softgpu"},
    "streams": {"gpu"},
    "objects": {"gpu", "streams", "kernel_class", "slicing", "ptx"},
    "bulk": {"gpu", "streams", "objects"},
    "nccl": {"gpu", "streams"},
    "sharing": {"gpu", "streams", "objects", "bulk"},
    "session": {"gpu", "streams", "objects", "bulk", "nccl", "sharing"},
    "handlers": {"gpu", "streams", "objects", "bulk", "nccl", "sharing", "session", "kernel_class", "slicing"},
}

# The same for launcher: text, host, allocator <- run <- batch <- starter <- agent <- metrics, doctor <- command.
ROOMS_OF_LAUNCHER = {
    "text": set(),
    "host": {"text"},
    "allocator": set(),
    "run": {"text", "host", "allocator"},
    "batch": {"text", "host", "run"},
    "starter": {"text", "host", "run", "batch"},
    "agent": {"text", "host", "allocator", "run", "starter"},
    "metrics": {"text", "host", "run", "starter"},
    "doctor": {"text", "host", "allocator", "run", "batch", "starter", "agent"},
    "command": {"text", "host", "run", "batch", "starter", "metrics", "doctor"},
}
ROOMS = {"proxy": ROOMS_OF_PROXY, "launcher": ROOMS_OF_LAUNCHER}

# Generated headers.
GENERATED = (".gen.h", ".pb.h")

# External headers, by the start of their names, and the only folders allowed to include them.
LIVES_IN = {
    "mpi.h": ("launcher/agent/mpi", "bench", "tests"),
    "ucp/": ("launcher/agent/ucx", "bench/raw"),
    "openssl/": ("launcher/agent/meeting",),
    "google/protobuf/": ("launcher/agent/meeting",),
    "cuda_runtime_api.h": ("interpose/runtime", "interpose/load", "bench", "tests"),
    "cuda_runtime.h": ("interpose/runtime", "bench", "tests"),
    "llvm/": ("proxy/softgpu",),
    "llvm-c/": ("proxy/softgpu",),
}


def problems_of(root, path):
    """Problems of the includes of one file: a sentence each."""
    name = path.relative_to(root).as_posix()
    layer = name.split("/", 1)[0]
    for line, included, quoted in includes(path):
        target = included.split("/", 1)[0]
        if target in LAYERS and target not in MAY_INCLUDE.get(layer, LAYERS):
            yield f"{name}:{line}: {layer} must not include {included}"
        if layer == "interpose" and target == "interpose":
            room, other = name.split("/")[1], included.split("/")[1]
            if other not in ROOMS_OF_INTERPOSE.get(room, {other}):
                yield f"{name}:{line}: interpose/{room} must not include {included}"
            elif other == "load" != room and included != DOOR_OF_LOAD:
                yield f"{name}:{line}: {included} is only for interpose/load; others take {DOOR_OF_LOAD}"
        if layer in ROOMS and target == layer:
            room, other = (path_name.split("/")[1] if path_name.count("/") > 1 else None for path_name in (name, included))
            # Files directly in the layer's folder may include from all its folders.
            if room is not None and other != room and other not in ROOMS[layer].get(room, ()):
                yield f"{name}:{line}: {layer}/{room} must not include {included}"
        if quoted and layer in LAYERS and "/" not in included and not included.endswith(GENERATED):
            yield f'{name}:{line}: "{included}" is not written from the root of the repository'
        if ".." in included.split("/"):
            yield f"{name}:{line}: {included} goes up; write it from the root of the repository"
        for header, folders in LIVES_IN.items():
            matches = included.startswith(header) if header.endswith("/") else included == header
            if matches and not name.startswith(tuple(folder + "/" for folder in folders)):
                yield f"{name}:{line}: {included} is only for {', '.join(folders)}"
        if target in LAYERS and quoted and not included.endswith(GENERATED) and not (root / included).is_file():
            yield f"{name}:{line}: {included} does not exist"


def all_problems(root):
    return [problem for path in sources(root, LAYERS + ("tests", "bench")) for problem in problems_of(root, path)]


class Includes(unittest.TestCase):
    def test_the_repository(self):
        self.assertGreater(sum(1 for _ in sources(ROOT, LAYERS)), 20, "the sources were not found")
        self.assertEqual(all_problems(ROOT), [])

    def test_headers_are_guarded_once(self):
        unguarded = [str(path.relative_to(ROOT)) for path in sources(ROOT, LAYERS + ("tests", "bench"))
                     if path.suffix == ".h" and "#pragma once" not in path.read_text(encoding="utf-8")]
        self.assertEqual(unguarded, [])


class TheTestItself(unittest.TestCase):
    """Checks that the test finds planted problems."""

    def found(self, name, text, others=()):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for file_name, content in ((name, text), *((other, "") for other in others)):
                path = root / file_name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
            return all_problems(root)

    def test_wrong_directions(self):
        for layer, target in (("common", "protocol"), ("protocol", "proxy"), ("interpose", "proxy"),
                              ("interpose", "launcher"), ("proxy", "interpose"), ("launcher", "proxy")):
            problems = self.found(f"{layer}/a.cc", f'int x;\n#include "{target}/b.h"\n', [f"{target}/b.h"])
            self.assertEqual(problems, [f"{layer}/a.cc:2: {layer} must not include {target}/b.h"])

    def test_right_directions(self):
        for layer, targets in MAY_INCLUDE.items():
            for target in targets:
                self.assertEqual(self.found(f"{layer}/a.cc", f'#include "{target}/b.h"\n', [f"{target}/b.h"]), [])

    def test_rooms_of_interpose(self):
        for room, target in (("client", "calls"), ("client", "runtime"), ("client", "load"), ("calls", "runtime"),
                             ("calls", "driver"), ("runtime", "driver"), ("driver", "runtime"), ("load", "client")):
            problems = self.found(f"interpose/{room}/a.cc", f'#include "interpose/{target}/b.h"\n',
                                  [f"interpose/{target}/b.h"])
            self.assertEqual(problems, [f"interpose/{room}/a.cc:1: interpose/{room} must not include "
                                        f"interpose/{target}/b.h"])
        for room, targets in ROOMS_OF_INTERPOSE.items():
            for target in targets:
                header = DOOR_OF_LOAD if target == "load" else f"interpose/{target}/b.h"
                self.assertEqual(self.found(f"interpose/{room}/a.cc", f'#include "{header}"\n', [header]), [])
        inner = "interpose/load/patch.h"
        self.assertEqual(len(self.found("interpose/calls/a.cc", f'#include "{inner}"\n', [inner])), 1)

    def test_rooms_of_proxy_and_launcher(self):
        for layer, rooms in ROOMS.items():
            for room in rooms:
                for other in rooms.keys() - {room}:
                    header = f"{layer}/{other}/b.h"
                    problems = self.found(f"{layer}/{room}/a.cc", f'#include "{header}"\n', [header])
                    wrong = [] if other in rooms[room] else [f"{layer}/{room}/a.cc:1: {layer}/{room} must not include {header}"]
                    self.assertEqual(problems, wrong)
            self.assertEqual(len(self.found(f"{layer}/{room}/a.cc", f'#include "{layer}/b.h"\n', [f"{layer}/b.h"])), 1)
            self.assertEqual(len(self.found(f"{layer}/new/a.cc", f'#include "{header}"\n', [header])), 1)

    def test_rooms_have_no_circle(self):
        for rooms in (ROOMS_OF_INTERPOSE, *ROOMS.values()):
            left = {room: others - {room} for room, others in rooms.items()}
            while lowest := [room for room, others in left.items() if not others & left.keys()]:
                for room in lowest:
                    del left[room]
            self.assertEqual(left, {})

    def test_headers_with_a_home(self):
        self.assertEqual(len(self.found("launcher/command/run.cc", "#include <mpi.h>\n")), 1)
        self.assertEqual(self.found("launcher/agent/mpi/a.cc", "#include <mpi.h>\n"), [])
        self.assertEqual(self.found("bench/a.cc", "#include <mpi.h>\n"), [])
        self.assertEqual(len(self.found("proxy/gpu/a.cc", "# include  <llvm/IR/Module.h>\n")), 1)
        self.assertEqual(self.found("proxy/softgpu/jit/a.cc", "#include <llvm/IR/Module.h>\n"), [])

    def test_relative_and_missing_ones(self):
        self.assertEqual(len(self.found("proxy/a.cc", '#include "b.h"\n', ["proxy/b.h"])), 1)
        self.assertGreaterEqual(len(self.found("proxy/a.cc", '#include "../proxy/b.h"\n', ["proxy/b.h"])), 1)
        self.assertEqual(len(self.found("proxy/a.cc", '#include "proxy/gone.h"\n')), 1)


if __name__ == "__main__":
    unittest.main()
