"""CuPy's NCCL module: two devices of one process sum an array and gather their parts."""

import cupy
from cupy.cuda import nccl

from report import measure, say_value

ROW, COUNT, CALLS = "CuPy, 100 all-reduces on two devices", 1 << 16, 100
DEVICES = (0, 1)

communicators = nccl.NcclCommunicator.initAll(list(DEVICES))
streams, given, sums = [], [], []
for device in DEVICES:
    with cupy.cuda.Device(device):
        streams.append(cupy.cuda.Stream(non_blocking=True))
        given.append(cupy.arange(COUNT, dtype=cupy.float32) * (device + 1))
        sums.append(cupy.zeros(COUNT, dtype=cupy.float32))
        cupy.cuda.Device(device).synchronize()


def unit():
    for _ in range(CALLS):
        nccl.groupStart()
        for device, communicator in enumerate(communicators):
            communicator.allReduce(
                given[device].data.ptr, sums[device].data.ptr, COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, streams[device].ptr
            )
        nccl.groupEnd()


def wait():
    for device, stream in zip(DEVICES, streams):
        with cupy.cuda.Device(device):
            stream.synchronize()


unit()
wait()
for device in DEVICES:
    with cupy.cuda.Device(device):
        assert bool((sums[device] == cupy.arange(COUNT, dtype=cupy.float32) * 3).all()), device
with cupy.cuda.Device(0):
    say_value(ROW, float(sums[0].sum()))
measure(ROW, unit, wait, 3)
