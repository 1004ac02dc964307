#!/usr/bin/env python3
"""Checks by clang: thread-safety annotations of locks (-Wthread-safety) and clang-tidy (.clang-tidy).

The sources of a part are compiled as one file: clang then parses each header once, not once per source. Sources with
the same names in their anonymous namespaces cannot share a file. They are compiled apart, taking longer.

Usage: clang_test.py ROOT_OF_THE_REPOSITORY COMPILE_COMMANDS CLANG_TIDY PART|rest
       clang_test.py parts

Each part is checked by a test of its own, in parallel with the others. "rest" runs the checks of all parts together;
"parts" lists the parts.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from sources import compile_commands, sources

# Folders compiled as one file, including their subfolders. The longest matching folder decides the part of a source.
# Fewer parts parse the libraries' headers less often. Each part has the name of its first folder.
PARTS = (
    ("bench", "common", "launcher", "protocol"),
    ("interpose/calls",),
    ("interpose/client",),
    ("interpose/driver", "interpose/nccl"),
    ("interpose/load", "interpose/nvml"),
    ("interpose/runtime",),
    ("proxy",),
)
# Sources of other targets, defining the same names as sources of their part. They form a part of their own.
APART = ("launcher/agent/mpi/elsewhere.cc", "launcher/agent/mpi/without_mpi.cc", "launcher/agent/ucx/elsewhere.cc")
PART_OF_NAME = {**{part[0]: part for part in PARTS}, "apart": APART}
# Left out: with LLVM's headers it would take as long as all other parts.
LEFT_OUT = "proxy/softgpu"
# Folders using only the mutexes of common/mutex.h. Others have no annotations for clang.
ANNOTATED = (
    "bench",
    "common",
    "interpose",
    "launcher",
    "protocol",
    "proxy/bulk",
    "proxy/gpu",
    "proxy/handlers",
    "proxy/kernel_class",
    "proxy/nccl",
    "proxy/objects",
    "proxy/ptx",
    "proxy/session",
    "proxy/sharing",
    "proxy/slicing",
    "proxy/softnccl",
    "proxy/streams",
)
ANNOTATED_FILES = "proxy"  # Only files directly in this folder.
UNANNOTATED = re.compile(r"\bstd::((?:recursive_|timed_|recursive_timed_|shared_|shared_timed_)?mutex"
                         r"|lock_guard|scoped_lock|shared_lock)\b")
FLAG = re.compile(r"-(?:[IDU]|isystem).+|-std=.*")
FINDING = re.compile(r"^(/[^:\n]+):(\d+):\d+: (?:warning|error): (.*) \[([^\]]+)\]$", re.MULTILINE)
BROKEN = "clang-diagnostic-error"


def flags_of(command):
    """The options of a compiler command with an effect on the preprocessor."""
    words = shlex.split(re.sub(r"(?<= )(-isystem|-[IDU]) +", r"\1", command))
    return [word for word in words if FLAG.fullmatch(word)]


def part_of(name):
    """The part of a source; None outside of all parts."""
    if name in APART:
        return APART
    within = [(folder, part) for part in (*PARTS, (LEFT_OUT,)) for folder in part if name.startswith(folder + "/")]
    folder, part = max(within, key=lambda found: len(found[0]), default=(LEFT_OUT, None))
    return None if folder == LEFT_OUT else part


def batches_of(root, entries, wanted=None):
    """Sources compiled as one file: [(flags, names)], of one part or of all. A part is compiled with the flags of all
    its sources. Sources giving a macro different values form separate batches."""
    batches = {}
    for entry in entries:
        path = pathlib.Path(entry["file"])
        if path.suffix != ".cc" or root not in path.parents:
            continue
        name = path.relative_to(root).as_posix()
        part = part_of(name)
        if part is None or wanted not in (None, part):
            continue
        flags = {flag.partition("=")[0]: flag for flag in flags_of(entry["command"])}
        of_part = batches.setdefault(part, [])
        batch = next((known for known in of_part
                      if all(known[0].get(flag, value) == value for flag, value in flags.items())), None)
        if batch is None:
            batch = ({}, set())
            of_part.append(batch)
        batch[0].update(flags)
        batch[1].add(name)
    return [(tuple(flags.values()), sorted(names)) for of_part in batches.values() for flags, names in of_part]


def count_of(batches):
    return sum(len(names) for _, names in batches)


def findings(root, flags, names):
    """Findings of clang-tidy in sources compiled as one file: (name, line, text, check) each, without repetitions."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as together:
        together.writelines(f'#define main main_{number}\n#include "{root / name}"\n#undef main\n'
                            for number, name in enumerate(names))
        together.flush()
        run = subprocess.run([CLANG_TIDY, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", together.name, "--",
                              *flags, "-Wno-everything", "-Wthread-safety", "-ferror-limit=0"],
                             capture_output=True, text=True, check=False)
    found = sorted({(os.path.relpath(path, root), int(line), text, check)
                    for path, line, text, check in FINDING.findall(run.stdout)})
    if run.returncode != 0 and not found:
        raise RuntimeError(f"clang-tidy failed on {names}:\n{run.stdout}{run.stderr}")
    return found


def problems_of(root, flags, names):
    """Problems of these sources: a line each."""
    found = findings(root, flags, names)
    broken = {name for name, _, _, check in found if check.startswith(BROKEN)}
    apart = [name for name in names if name in broken]
    if 0 < len(apart) < len(names):
        print(f"read apart, for names that others have as well: {' '.join(apart)}", file=sys.stderr)
        together = [name for name in names if name not in broken]
        return problems_of(root, flags, together) + problems_of(root, flags, apart)
    return [f"{name}:{line}: {text} [{check}]" for name, line, text, check in found]


def all_problems(root, batches):
    # A problem of a header is found once per part including it.
    return sorted({line for batch in batches for line in problems_of(root, *batch)})


def unannotated_mutexes(root):
    problems = []
    for path in [*sources(root, ANNOTATED), *sorted(pathlib.Path(root, ANNOTATED_FILES).glob("*"))]:
        name = path.relative_to(root).as_posix()
        if path.suffix not in (".cc", ".h") or name == "common/mutex.h":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := UNANNOTATED.search(line):
                problems.append(f"{name}:{number}: {match.group(0)}; take one of common/mutex.h")
    return problems


class Part(unittest.TestCase):
    maxDiff = None

    def test_sources_pass(self):
        batches = batches_of(ROOT, compile_commands(COMMANDS), PART_OF_NAME[WHAT])
        self.assertGreater(count_of(batches), 0, "the sources were not found")
        self.assertEqual("\n".join(all_problems(ROOT, batches)), "")


class All(unittest.TestCase):
    def test_sources_are_found(self):
        self.assertGreater(count_of(batches_of(ROOT, compile_commands(COMMANDS))), 200)

    def test_mutexes_are_annotated(self):
        self.assertEqual(unannotated_mutexes(ROOT), [])


class TheTestItself(unittest.TestCase):
    """Checks that the test finds planted problems."""

    COUNTER = """#include "common/mutex.h"
namespace {{
class {name} {{
 public:
  int Next() {{
    {lock}
    return ++count_;
  }}

 private:
  cuspan::Mutex mutex_;
  int count_ CUSPAN_GUARDED_BY(mutex_) = 0;
}};
}}  // namespace
int NextOf{name}() {{ return {name}().Next(); }}
"""
    LOCK = "const cuspan::MutexLock lock(mutex_);"
    MOVED = """#include <string>
#include <utility>
std::size_t Length(std::string text) {{
  const std::string other = std::move(text);
  return other.size() + {what}.size();
}}
"""

    # Accesses by threads: `use` in the loop of a role, in a task of another, and in a function of its own.
    ROLES = """#include <functional>
#include "launcher/agent/base/roles.h"
#include "proxy/streams/roles.h"
namespace {{
using namespace cuspan;
using namespace cuspan::proxy;
int count CUSPAN_GUARDED_BY({role}) = 0;
int Loop() {{
  const decltype({role})::Scope scope({role});
  return {loop};
}}
std::function<int()> Task() {{ return []() CUSPAN_REQUIRES({other}) {{ return {task}; }}; }}
int Any() {{ return {any}; }}
}}  // namespace
int All() {{ return Loop() + Task()() + Any(); }}
"""
    USE = "++count"
    ROLE_PAIRS = (("receiving_thread", "worker_thread"), ("worker_thread", "receiving_thread"),
                  ("agent_thread", "worker_thread"))

    def found(self, **files):
        """Names of the checks failed by a source common/NAME.cc."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            (root / "common").mkdir()
            entries = []
            for name, text in files.items():
                path = root / "common" / f"{name}.cc"
                path.write_text(text, encoding="utf-8")
                entries.append({"file": str(path), "command": f"c++ -O1 -I{ROOT} -std=c++20 -o a.o -c {path}"})
            batches = batches_of(root, entries)
            self.assertEqual(count_of(batches), len(files))
            problems = all_problems(root, batches)
            return [re.sub(r":\d+: .* \[([\w-]+).*", r" \1", problem) for problem in problems]

    def test_nothing(self):
        self.assertEqual(self.found(a=self.COUNTER.format(name="A", lock=self.LOCK), b=self.MOVED.format(what="other")),
                         [])

    def test_faults(self):
        self.assertEqual(self.found(a=self.COUNTER.format(name="A", lock=""), b=self.MOVED.format(what="text")),
                         ["common/a.cc clang-diagnostic-thread-safety-analysis", "common/b.cc bugprone-use-after-move"])

    def test_a_role_of_another_thread(self):
        fault = ["common/a.cc clang-diagnostic-thread-safety-analysis"]
        for role, other in self.ROLE_PAIRS:
            for used, expected in (("loop", []), ("task", fault), ("any", fault)):
                parts = {name: self.USE if name == used else "0" for name in ("loop", "task", "any")}
                found = self.found(a=self.ROLES.format(role=role, other=other, **parts))
                self.assertEqual(found, expected, (role, used))

    def test_a_fault_beside_a_source_with_the_same_names(self):
        same = self.COUNTER.format(name="A", lock="").replace("NextOf", "Other")
        self.assertEqual(self.found(a=self.COUNTER.format(name="A", lock=self.LOCK), b=same),
                         ["common/b.cc clang-diagnostic-thread-safety-analysis"])

    def test_a_source_that_does_not_compile(self):
        self.assertEqual(self.found(a="int x = y;\n", b="int z;\n"), ["common/a.cc clang-diagnostic-error"])

    def test_mutexes_of_the_standard_library(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "proxy/gpu").mkdir(parents=True)
            for name in ("proxy/a.cc", "proxy/gpu/b.h"):
                (root / name).write_text("std::shared_mutex a;\nstd::unique_lock b;\n", encoding="utf-8")
            self.assertEqual(sorted(problem.split()[0] for problem in unannotated_mutexes(root)),
                             ["proxy/a.cc:1:", "proxy/gpu/b.h:1:"])


if __name__ == "__main__":
    if sys.argv[1:] == ["parts"]:
        sys.exit(print(*PART_OF_NAME, sep=";", end=""))
    if len(sys.argv) != 5 or sys.argv[4] not in (*PART_OF_NAME, "rest"):
        sys.exit(__doc__)
    ROOT, COMMANDS = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    CLANG_TIDY, WHAT = sys.argv[3:]
    if not os.access(CLANG_TIDY, os.X_OK):
        sys.exit("clang_test.py: there is no clang-tidy-16 here; run deploy/install-dependencies.sh, "
                 "and configure the build again")
    unittest.main(argv=sys.argv[:1], defaultTest=["All", "TheTestItself"] if WHAT == "rest" else "Part")
