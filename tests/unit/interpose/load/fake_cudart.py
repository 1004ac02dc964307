"""Writes the assembly of a fake CUDA runtime, for the search for functions in a stripped file.

  fake_cudart.py EXPORTS.txt OUTPUT.S [pointers] [release11] [seed=N] [DEFECT]

Its functions are those of EXPORTS.txt in a random order. Each has just the code needed to recognise it. With
`pointers` they refer to pointers to their names, as before CUDA 12.8. With `release11` the runtime has the unnamed
functions of CUDA 11. A DEFECT occurs in no real runtime (see the calls of defect()).
"""

import random
import sys

NAMELESS_BEFORE = ["cudaGetExportTable", "__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd",
                   "__cudaUnregisterFatBinary", "__cudaRegisterVar", "__cudaRegisterManagedVar",
                   "__cudaRegisterHostVar", "__cudaRegisterTexture", "__cudaRegisterSurface", "__cudaRegisterFunction"]
ONLY_11 = ["__cudaRegisterTexture", "__cudaRegisterSurface"]
NAMELESS_BEHIND = ["__cudaPushCallConfiguration", "__cudaPopCallConfiguration"]
SINCE_12 = ["__cudaGetKernel", "__cudaLaunchKernel", "__cudaLaunchKernel_ptsz", "__cudaRegisterUnifiedTable"]
ABSENT = ["__cudaGetProcAddress"]

sys.path.insert(0, sys.argv[1].rsplit("/", 1)[0])
import exports_list  # noqa: E402

options = sys.argv[3:]


def defect(name):
    return name in options


def function(name, *body):
    lines.extend([".p2align 4", f".globl {name}", f".hidden {name}", f".type {name}, @function", f"{name}:",
                  ".cfi_startproc", *body, ".cfi_endproc", f".size {name}, . - {name}"])


def refer(name):
    return f"movq pointer_{name}(%rip), %xmm0" if "pointers" in options else f"leaq name_{name}(%rip), %r8"


def named(name):
    function(name, "pushq %rbp", "call common", refer(name), "popq %rbp", "ret")


def calling(name, *called, padding=0):
    function(name, "pushq %rbp", *[f"call {one}" for one in called], *["nop"] * padding, "popq %rbp", "ret")


def nameless_before(name):
    if name == "cudaGetExportTable":
        calling(name, "thread_state")
    else:
        calling(name, "common", padding=20 if defect("twins") and name == "__cudaRegisterVar" else 3)
    if defect("guest") and name == "__cudaUnregisterFatBinary":
        calling("guest", "common")


def nameless_behind(name):
    if name.startswith("__cudaLaunchKernel"):
        to = name.removeprefix("__")
        if defect("launches"):
            to = {"cudaLaunchKernel": "cudaLaunchKernel_ptsz"}.get(to, "cudaLaunchKernel")
        function(name, "pushq %rbp", "popq %rbp", f"jmp {to}")
    elif name == "__cudaRegisterUnifiedTable":
        calling(name, "common")
    elif name == "__cudaPopCallConfiguration" and defect("state"):
        calling(name, "other_state")
    else:
        calling(name, "thread_state")


lines = [".text"]
old = "release11" in options
before = [name for name in NAMELESS_BEFORE if old or name not in ONLY_11]
behind = NAMELESS_BEHIND + ([] if old else SINCE_12)
names = [export.name for export in exports_list.read(sys.argv[1])]
apart = {*NAMELESS_BEFORE, *NAMELESS_BEHIND, *SINCE_12, *ABSENT, "__cudaInitModule"}
names = [name for name in names if name not in apart]
random.Random(next((one for one in options if one.startswith("seed=")), "seed=0")).shuffle(names)

function("common", "pushq %rbp", "call dlsym@PLT", "popq %rbp", "ret")
function("thread_state", "ret")
function("other_state", "ret")
half = len(names) // 2
for name in names[:half]:
    named(name)
for name in before:
    nameless_before(name)
named("__cudaInitModule")
for name in behind:
    nameless_behind(name)
function("constant", "movl $36, %eax", "ret")
for name in names[half:]:
    named(name)
# Functions outside the runtime with the same names in messages.
function("outsider", "pushq %rbp", refer("cudaMalloc"), "call outsider", "popq %rbp", "ret")
function("other_outsider", "pushq %rbp", refer("cudaFree"), refer("cudaMalloc"), "popq %rbp", "ret")
if defect("claimed"):
    function("claimant", "pushq %rbp", "call common", refer("cudaMalloc"), "popq %rbp", "ret")
if defect("several"):
    function("several", "pushq %rbp", "call common", refer("cudaFree"), refer("cudaMalloc"), "popq %rbp", "ret")
lines += [".globl main", ".type main, @function", "main:", "xorl %eax, %eax", "ret", ".size main, . - main"]
lines += [".section .rodata"]
lines += [f'name_{name}: .asciz "{name}"' for name in [*names, "__cudaInitModule"]]
lines += ['.section .data.rel.ro, "aw"', ".p2align 3"]
if "pointers" in options:
    lines += [f"pointer_{name}: .quad name_{name}" for name in [*names, "__cudaInitModule"]]
lines += ['.section .note.GNU-stack, "", @progbits']
with open(sys.argv[2], "w", encoding="ascii") as output:
    output.write("\n".join(lines) + "\n")
