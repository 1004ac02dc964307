"""The rate of launches of a Triton kernel adding two vectors."""

import torch
import triton
import triton.language as tl

from report import measure, say_value


@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


COUNT = 4000
x, y = (torch.rand(COUNT, device="cuda", generator=torch.Generator("cuda").manual_seed(i)) for i in (1, 2))
out = torch.empty_like(x)
unit = lambda: add[(4,)](x, y, out, COUNT, BLOCK=1024)  # noqa: E731
measure("Triton vector add", unit, torch.cuda.synchronize, 2000)
say_value("Triton vector add", out.double().sum())
