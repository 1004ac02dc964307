"""Time from the start of Python to PyTorch's first result."""

import time

from report import say_time, say_value

start = time.clock_gettime(time.CLOCK_BOOTTIME)
import torch  # noqa: E402

say_value("import torch, first result", (torch.arange(64, device="cuda") * 2).sum().item())
# Start of this process, to include python3 and all imports: field 22 of proc(5)'s stat, in ticks.
import os  # noqa: E402

with open("/proc/self/stat", encoding="ascii") as stat:
    began = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
say_time("import torch, first result", time.clock_gettime(time.CLOCK_BOOTTIME) - began)
