#!/usr/bin/env python3
"""Limits the members of a class: data and functions, an overload set counted once.

Not counted are constructors, destructors, operators, nested types and their members, enumerators, and members declared
by X-macros (proxy/gpu/driver_functions.def). Universal Ctags reads the sources, without preprocessing them.

Usage: classes_test.py ROOT_OF_THE_REPOSITORY CTAGS
       classes_test.py ROOT_OF_THE_REPOSITORY CTAGS --report    prints the largest classes
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from sources import LAYERS, sources

ROOT, CTAGS = pathlib.Path(sys.argv.pop(1)).resolve(), sys.argv.pop(1)

FOLDERS = (*LAYERS, "bench")
MAX_MEMBERS = 40
# Larger classes with their numbers of members, and the reason. A number is a cap: lower it if the class becomes smaller.
LARGE = {
    "cuspan::softgpu::emit::FunctionEmitter": (152, "state of one function's translation, used by all instructions"),
    "cuspan::softgpu::Block": (96, "scheduler of a block's threads with its barriers; one object for speed"),
    "cuspan::DeviceProperties12": (94, "layout of cudaDeviceProp of CUDA 12"),
    "cuspan::Mirrors": (89, "fetching, posting and ordering of stores share one table of ranges and one lock"),
    "cuspan::proxy::ShareGate": (78, "decisions about time slices, with their samples and marks"),
    "cuspan::proxy::Communicator": (65, "life of an NCCL communicator; its operations and its failures depend on it"),
    "cuspan::Channel": (62, "both ends of one shared mapping: rings, staging slots, marks and wake-ups"),
    "cuspan::Connection": (56, "calls, posts and failures of one connection, public for all of interpose/calls"),
    "cuspan::UcxTransport": (57, "implements Transport over one UCX worker: frames, bulk data, losses"),
    "cuspan::proxy::SessionSwap": (57, "states of one swap; each function is a transition"),
    "cuspan::proxy::StreamQueues": (53, "order of all streams' work, with the legacy stream's barriers"),
    "cuspan::Devices": (51, "connections and contexts of all devices under one lock order"),
    "cuspan::Relay": (50, "frames, bulk data and credits over one transport"),
    "cuspan::AgentCluster": (50, "start, messages and end of a run's agents"),
    "cuspan::DeviceMemory": (50, "own, imported and mapped blocks of a device's memory"),
    "cuspan::cufile::Statistics1": (55, "layout of CUfileStatsLevel1_t"),
    "cuspan::SharedRegion": (50, "pinned and managed memory in one window"),
    "cuspan::proxy::Completer": (50, "data of its thread and of the threads submitting to it"),
    "cuspan::AgentNode": (48, "owns all parts of an agent and joins them"),
    "cuspan::Session": (48, "owns all parts of the client: one accessor and one member each"),
    "cuspan::ClientSession": (47, "one process and its contexts, each with a proxy here or at another agent"),
    "cuspan::OrderedStores": (45, "stores executed in signal handlers one at a time, with their log and open pages"),
    "cuspan::VirtualMemory": (45, "one function per call of CUDA's virtual memory management"),
    "cuspan::softgpu::LoadedProgram": (45, "compilation of a module: quick, thread and warp code, and their cache"),
    "cuspan::softgpu::emit::WarpAccess": (43, "all forms of one access: each for loads and for stores"),
    "cuspan::LeaseKeeper": (42, "states of a run's leases, with their timers"),
    "cuspan::MpiTransport": (42, "implements Transport over MPI, most functions in a line or two"),
    "cuspan::Python": (42, "functions of Python's C API, looked up at run time"),
}
# Classes without public data.
PRIVATE_DATA = ("cuspan::proxy::DeviceSession",)

# Values as in "int a = ~Type{0};": ctags does not find the member.
VALUE = re.compile(r"= ~?[\w:<>*, ]+\{[^{};]*\}[^{};]*;")
ANNOTATIONS = "common/mutex.h"
SCOPES = ("class", "struct")
MEMBERS = {"function", "prototype", "member"}


def annotations(root):
    """Names of the macros annotating members, with a plus as ctags expects for macros with arguments."""
    text = pathlib.Path(root, ANNOTATIONS).read_text(encoding="utf-8")
    return [name + ("+" if arguments else "") for name, arguments in re.findall(r"^# *define (CUSPAN_\w+)(\()?", text,
                                                                               re.MULTILINE)]


def tags(root, folders):
    """The tags of all types and members in the folders, as dictionaries."""
    with tempfile.TemporaryDirectory() as copy:
        for path in sources(root, folders):
            if path.suffix in (".h", ".cc"):
                target = pathlib.Path(copy, path.relative_to(root))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(VALUE.sub("= 0;", path.read_text(encoding="utf-8")), encoding="utf-8")
        command = [CTAGS, "--options=NONE", "--quiet", "-f", "-", "--output-format=json", "--languages=C++",
                   "--langmap=C++:.h.cc", "--kinds-C++=cspmf", "--fields=+aKSZ",
                   *(f"-I{name}" for name in annotations(root)), "--recurse", "."]
        run = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def name_of(scope):
    """A type's name, without unnamed namespaces."""
    return re.sub(r"__anon\w+::", "", scope)


def members_of(found):
    """Names of the members by their class, {scope: {name}}."""
    classes = {}
    for tag in found:
        name, scope = tag["name"], tag.get("scope", "")
        if tag["kind"] not in MEMBERS or tag.get("scopeKind") not in SCOPES:
            continue
        own = scope.rpartition("::")[2]
        # Lambdas are functions with names of ctags.
        if name != own and not re.match(r"~|operator\b|__anon", name):
            classes.setdefault(scope, set()).add(name)
    return classes


def size_problems(found, large):
    """Too large classes, and entries of `large` no longer needed."""
    sizes = {}
    for scope, members in members_of(found).items():
        name = name_of(scope)
        sizes[name] = max(sizes.get(name, 0), len(members))
    for name, size in sorted(sizes.items()):
        cap, _ = large.get(name, (MAX_MEMBERS, ""))
        if size > cap:
            yield f"{name}: {size} members, at most {cap}: split it"
    for name, (cap, _) in large.items():
        size = sizes.get(name, 0)
        if size <= MAX_MEMBERS:
            yield f"{name}: {size} members: remove it from the list of large classes"
        elif size < cap:
            yield f"{name}: {size} members: lower its cap of {cap} to this number"


def data_problems(found, classes):
    """Public data members of the classes, and classes not found."""
    scopes = {tag.get("scope") for tag in found}
    yield from (f"{name}: not found" for name in classes if name not in scopes)
    for tag in found:
        if tag["kind"] == "member" and tag.get("scope") in classes and tag.get("access") != "private":
            yield f"{tag['scope']}::{tag['name']}: a data member that is not private"


class Classes(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.found = tags(ROOT, FOLDERS)

    def test_classes_have_one_subject(self):
        self.assertGreater(len(members_of(self.found)), 1000, "the classes were not found")
        self.assertEqual(list(size_problems(self.found, LARGE)), [])

    def test_data_are_private(self):
        self.assertEqual(list(data_problems(self.found, PRIVATE_DATA)), [])


class TheTestItself(unittest.TestCase):
    """Checks that the test finds planted problems."""

    OTHERS = """  Large();
  ~Large();
  Large& operator=(const Large&);
  void Overloaded(int a) const CUSPAN_REQUIRES(mutex_, other_);
  void Overloaded(const char* text) { Call([] { return 1; }); }
  enum class Kind { kOne, kTwo };
  struct Nested {
    int value;
    int Method();
  };
  using Type = int;
 private:
"""

    def found(self, data, functions, others=OTHERS, end=""):
        """Tags of a class with so many members, and with other declarations, among them one more member."""
        members = [f"  static constexpr int kValue{i} = 1;\n  std::uint64_t data_{i} CUSPAN_GUARDED_BY(mutex_) = ~std::uint64_t{{0}};"
                   for i in range(data // 2)]
        members += [f"  template <typename T> T Function{i}(T value) CUSPAN_EXCLUDES(mutex_);" for i in range(functions)]
        text = f"namespace cuspan {{\nnamespace {{\nclass Large final : public Base {{\n public:\n{others}"
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "common").mkdir()
            (root / ANNOTATIONS).write_text((ROOT / ANNOTATIONS).read_text(encoding="utf-8"), encoding="utf-8")
            (root / "common/large.h").write_text(text + "\n".join(members) + f"\n{end}}};\n}}\n}}\n", encoding="utf-8")
            (root / "common/large.cc").write_text("void cuspan::Large::Overloaded(int a) const { Function1(a); }\n",
                                                  encoding="utf-8")
            return tags(root, ["common"])

    def test_a_class_of_40_members(self):
        self.assertEqual(list(size_problems(self.found(20, 19), {})), [])

    def test_a_class_of_41_members(self):
        found = self.found(20, 20)
        self.assertEqual(list(size_problems(found, {})), ["cuspan::Large: 41 members, at most 40: split it"])
        self.assertEqual(list(size_problems(found, {"cuspan::Large": (41, "")})), [])
        self.assertEqual(list(size_problems(found, {"cuspan::Large": (42, "")})),
                         ["cuspan::Large: 41 members: lower its cap of 42 to this number"])

    def test_a_listed_class(self):
        large = {"cuspan::Large": (41, "")}
        self.assertEqual(list(size_problems(self.found(20, 21), large)), ["cuspan::Large: 42 members, at most 41: split it"])
        self.assertEqual(list(size_problems(self.found(20, 19), large)),
                         ["cuspan::Large: 40 members: remove it from the list of large classes"])
        self.assertEqual(list(size_problems([], large)),
                         ["cuspan::Large: 0 members: remove it from the list of large classes"])

    def test_public_data(self):
        def problems(**parts):
            found = self.found(2, 2, **parts)
            scope = next(tag["scope"] for tag in found if tag["name"] == "Function1")
            return list(data_problems(found, [scope]))
        self.assertEqual(problems(), [])
        for end in (" public:\n  int value = 1;\n", " protected:\n  std::vector<int> value CUSPAN_GUARDED_BY(mutex_);\n"):
            self.assertRegex(problems(end=end)[0], r"Large::value: a data member that is not private$")
            self.assertEqual(len(problems(end=end)), 1)
        self.assertEqual(list(data_problems([], ["cuspan::Large"])), ["cuspan::Large: not found"])


if __name__ == "__main__":
    if "--report" in sys.argv:
        for size, scope in sorted(((len(members), scope) for scope, members in members_of(tags(ROOT, FOLDERS)).items()),
                                  reverse=True)[:60]:
            print(f"{size:4} {name_of(scope)}")
    else:
        unittest.main()
