#!/usr/bin/env python3
"""Checks the direction of includes: common <- protocol <- {interpose, proxy, launcher}, with store beside
protocol, and headers restricted to certain folders.

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
    "store": {"common", "store"},
    "interpose": {"common", "protocol", "interpose", "store"},
    "proxy": {"common", "protocol", "proxy", "store"},
    "launcher": {"common", "protocol", "launcher", "store"},
}

# Allowed folders of included headers inside interpose, by folder: client <- calls <- the API folders. The folder load
# includes none of them, and they include only its public header.
FOLDERS_OF_INTERPOSE = {
    "client": {"client"},
    "calls": {"client", "calls", "load"},
    "runtime": {"client", "calls", "runtime", "load"},
    "driver": {"client", "calls", "driver", "load"},
    "nccl": {"client", "calls", "nccl", "load"},
    "nvml": {"client", "calls", "nvml"},
    "cufile": {"client", "calls", "cufile", "load"},
    "store": {"client", "calls", "store"},
    "process": {"client", "process"},
    "load": {"load"},
}
PUBLIC_HEADER_OF_LOAD = "interpose/load/load.h"
# The same inside interpose/calls: base <- graph <- files directly in calls <- execution.
FOLDERS_OF_CALLS = {
    "base": set(),
    "graph": {"base"},
    "": {"base", "graph"},
    "execution": {"base", "graph", ""},
}

# The same for proxy: gpu <- streams <- objects <- bulk <- files, nccl <- sharing <- session <- handlers <- files
# directly in proxy. Libraries beside them: ptx <- {kernel_class, slicing, softgpu}.
FOLDERS_OF_PROXY = {
    "ptx": set(),
    "kernel_class": {"ptx"},
    "slicing": {"ptx"},
    "softgpu": {"ptx"},
    "softnccl": set(),
    "gpu": {"softgpu"},
    "streams": {"gpu"},
    "objects": {"gpu", "streams", "kernel_class", "slicing", "ptx"},
    "bulk": {"gpu", "streams", "objects"},
    "files": {"gpu", "streams", "objects", "bulk"},
    "nccl": {"gpu", "streams"},
    "sharing": {"gpu", "streams", "objects", "bulk"},
    "session": {"gpu", "streams", "objects", "bulk", "files", "nccl", "sharing"},
    "handlers": {"gpu", "streams", "objects", "bulk", "files", "nccl", "sharing", "session", "kernel_class", "slicing"},
}

# The same for launcher: text, host, allocator <- run <- batch <- starter <- agent <- metrics, doctor <- command.
FOLDERS_OF_LAUNCHER = {
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
# The same for store: layout <- engine <- library.
FOLDERS_OF_STORE = {
    "layout": set(),
    "engine": {"layout"},
    "library": {"layout", "engine"},
}
FOLDERS = {"proxy": FOLDERS_OF_PROXY, "launcher": FOLDERS_OF_LAUNCHER, "store": FOLDERS_OF_STORE}
# Folders of store for the other layers.
STORE_FOR = {"interpose": "layout", "launcher": "layout", "proxy": "engine"}

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
            folder, other = name.split("/")[1], included.split("/")[1]
            if other not in FOLDERS_OF_INTERPOSE.get(folder, {other}):
                yield f"{name}:{line}: interpose/{folder} must not include {included}"
            elif other == "load" != folder and included != PUBLIC_HEADER_OF_LOAD:
                yield f"{name}:{line}: {included} is only for interpose/load; others take {PUBLIC_HEADER_OF_LOAD}"
        if name.startswith("interpose/calls/") and included.startswith("interpose/calls/"):
            own, other = ("/".join(path_name.split("/")[2:-1]) for path_name in (name, included))
            if other != own and other not in FOLDERS_OF_CALLS.get(own, ()):
                yield f"{name}:{line}: interpose/calls/{own} must not include {included}"
        if target == "store" and included.count("/") > 1 and layer in STORE_FOR and included.split("/")[1] != STORE_FOR[layer]:
            yield f"{name}:{line}: {layer} must not include {included}"
        if layer in FOLDERS and target == layer:
            folder, other = (path_name.split("/")[1] if path_name.count("/") > 1 else None for path_name in (name, included))
            # Files directly in the layer's folder may include from all its folders.
            if folder is not None and other != folder and other not in FOLDERS[layer].get(folder, ()):
                yield f"{name}:{line}: {layer}/{folder} must not include {included}"
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


def folders_by_include(root):
    """Folder of each source: {folder: {included folder: [(source, header)]}}, without the folder itself."""
    arrows = {}
    for path in sources(root, LAYERS):
        name = path.relative_to(root)
        to = arrows.setdefault(name.parent.as_posix(), {})
        for _, included, quoted in includes(path):
            folder = pathlib.PurePosixPath(included).parent.as_posix()
            if quoted and folder != name.parent.as_posix() and (root / included).is_file():
                to.setdefault(folder, []).append((name.as_posix(), included))
    return arrows


def circles(arrows):
    """Sets of folders including one another, directly or through others (strongly connected components)."""
    reached = {}
    for start in arrows:
        seen, unvisited = set(), list(arrows[start])
        while unvisited:
            folder = unvisited.pop()
            if folder not in seen:
                seen.add(folder)
                unvisited.extend(arrows.get(folder, ()))
        reached[start] = seen
    return sorted({tuple(sorted(other for other in reached[folder] if folder in reached.get(other, ())))
                   for folder in arrows if folder in reached[folder]})


def circle_problems(root):
    arrows = folders_by_include(root)
    for circle in circles(arrows):
        examples = [f"{source} includes {header}" for folder in circle for other in circle
                    for source, header in arrows[folder].get(other, ())[:1]]
        yield f"{', '.join(circle)} include one another: {'; '.join(examples)}"


def all_problems(root):
    return [problem for path in sources(root, LAYERS + ("tests", "bench")) for problem in problems_of(root, path)]


class Includes(unittest.TestCase):
    def test_the_repository(self):
        self.assertGreater(sum(1 for _ in sources(ROOT, LAYERS)), 20, "the sources were not found")
        self.assertEqual(all_problems(ROOT), [])

    def test_no_folders_include_one_another(self):
        arrows = folders_by_include(ROOT)
        problems = list(circle_problems(ROOT))
        print(f"{len(arrows)} folders, {sum(map(len, arrows.values()))} includes between folders, {len(problems)} circles")
        self.assertGreater(len(arrows), 50, "the folders were not found")
        self.assertEqual(problems, [])

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

    def test_folders_of_interpose(self):
        for folder, target in (("client", "calls"), ("client", "runtime"), ("client", "load"), ("calls", "runtime"),
                             ("calls", "driver"), ("runtime", "driver"), ("driver", "runtime"), ("load", "client")):
            problems = self.found(f"interpose/{folder}/a.cc", f'#include "interpose/{target}/b.h"\n',
                                  [f"interpose/{target}/b.h"])
            self.assertEqual(problems, [f"interpose/{folder}/a.cc:1: interpose/{folder} must not include "
                                        f"interpose/{target}/b.h"])
        for folder, targets in FOLDERS_OF_INTERPOSE.items():
            for target in targets:
                header = PUBLIC_HEADER_OF_LOAD if target == "load" else f"interpose/{target}/b.h"
                self.assertEqual(self.found(f"interpose/{folder}/a.cc", f'#include "{header}"\n', [header]), [])
        inner = "interpose/load/patch.h"
        self.assertEqual(len(self.found("interpose/calls/a.cc", f'#include "{inner}"\n', [inner])), 1)

    def test_folders_of_proxy_and_launcher(self):
        for layer, folders in FOLDERS.items():
            for folder in folders:
                for other in folders.keys() - {folder}:
                    header = f"{layer}/{other}/b.h"
                    problems = self.found(f"{layer}/{folder}/a.cc", f'#include "{header}"\n', [header])
                    wrong = [] if other in folders[folder] else [f"{layer}/{folder}/a.cc:1: {layer}/{folder} must not include {header}"]
                    self.assertEqual(problems, wrong)
            self.assertEqual(len(self.found(f"{layer}/{folder}/a.cc", f'#include "{layer}/b.h"\n', [f"{layer}/b.h"])), 1)
            self.assertEqual(len(self.found(f"{layer}/new/a.cc", f'#include "{header}"\n', [header])), 1)

    def test_folders_of_calls(self):
        for folder, others in FOLDERS_OF_CALLS.items():
            for other in FOLDERS_OF_CALLS.keys() - {folder}:
                name, header = (f"interpose/calls/{each}/{file}".replace("//", "/")
                                for each, file in ((folder, "a.cc"), (other, "b.h")))
                problems = self.found(name, f'#include "{header}"\n', [header])
                wrong = [] if other in others else [f"{name}:1: interpose/calls/{folder} must not include {header}"]
                self.assertEqual(problems, wrong)

    def test_circles(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, included in (("proxy/a/a.h", "proxy/b/b.h"), ("proxy/b/b.h", "proxy/c/c.h"), ("proxy/c/c.h", "proxy/d/d.h"),
                                   ("proxy/d/d.h", "proxy/e/e.h"), ("proxy/e/e.h", ""), ("proxy/c/d.cc", "proxy/b/b.h")):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(f'#include "{included}"\n' if included else "", encoding="utf-8")
            self.assertEqual(list(circle_problems(root)),
                             ["proxy/b, proxy/c include one another: proxy/b/b.h includes proxy/c/c.h; "
                              "proxy/c/d.cc includes proxy/b/b.h"])

    def test_tables_have_no_circle(self):
        for folders in (FOLDERS_OF_INTERPOSE, FOLDERS_OF_CALLS, *FOLDERS.values()):
            left = {folder: others - {folder} for folder, others in folders.items()}
            while lowest := [folder for folder, others in left.items() if not others & left.keys()]:
                for folder in lowest:
                    del left[folder]
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
