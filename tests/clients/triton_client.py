"""Triton compiles kernels with masks, reductions, matrix products, atomics and a loop, and an autotuned one. Each is
also launched in a stream on the second device. Its ptxas is ptx_as_machine_code.py.
"""

import pathlib

import torch
import triton
import triton.language as tl
from triton import knobs

knobs.nvidia.ptxas = str(pathlib.Path(__file__).parent / "ptx_as_machine_code.py")


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns + at
    values = tl.load(x + row, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def multiply(a, b, out, N, K, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, STEP):
        inner = start + tl.arange(0, STEP)
        left = tl.load(a + rows[:, None] * K + inner[None, :])
        right = tl.load(b + inner[:, None] * N + columns[None, :])
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(out + rows[:, None] * N + columns[None, :], total)


def measure(call, quantiles):
    global calls
    call()
    calls += 1
    return [float(calls)] * len(quantiles)


@triton.autotune([triton.Config({"BLOCK": size}) for size in (64, 256)], key=["n"], do_bench=measure)
@triton.jit
def count(values, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.atomic_add(counts + tl.load(values + at, mask=inside, other=0), 1, mask=inside)


def close(result, expected, tolerance):
    assert torch.allclose(result.cpu(), expected, rtol=tolerance, atol=tolerance), (result.cpu() - expected).abs().max()


def run(device):
    global calls
    calls, n = 0, 1000
    numbers = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, n, generator=numbers).unbind()
    out = torch.empty(n, device=device)
    compiled = add[(triton.cdiv(n, 256),)](x.to(device), y.to(device), out, n, BLOCK=256)
    assert torch.equal(out.cpu(), x + y)
    assert compiled.n_regs >= 0 and "ptx" in compiled.asm

    x = torch.randn(8, 100, generator=numbers)
    out = torch.empty(8, 100, device=device)
    softmax[(8,)](x.to(device), out, 100, BLOCK=128)
    close(out, torch.softmax(x, 1), 1e-6)

    a, b = torch.randn(64, 32, generator=numbers), torch.randn(32, 96, generator=numbers)
    for kind, tolerance in ((torch.float32, 1e-5), (torch.float16, 1e-4), (torch.bfloat16, 1e-4)):
        out = torch.empty(64, 96, device=device)
        left, right = a.to(kind), b.to(kind)
        multiply[(2, 3)](left.to(device), right.to(device), out, 96, 32, BLOCK=32, STEP=16)
        close(out, left.float() @ right.float(), tolerance)

    values = torch.randint(0, 7, (n,), generator=numbers, dtype=torch.int32)
    counts = torch.tensor([0] * 7, dtype=torch.int32).to(device)
    count[lambda chosen: (triton.cdiv(n, chosen["BLOCK"]),)](values.to(device), counts, n)
    assert torch.equal(counts.cpu(), (calls + 1) * values.bincount(minlength=7).int())
    return calls


assert run("cuda:0") == 2, "each of both was not tried"
with torch.cuda.device(1), torch.cuda.stream(torch.cuda.Stream(1)):
    assert run("cuda:1") == 0, "what was tuned is not known"
print("right")
