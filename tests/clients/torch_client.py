"""PyTorch without kernels of its own, since the software GPU cannot run them: devices, memory, copies, pinned memory,
streams, events, DataLoader with workers, tensors saved, loaded and sent to another process. Two devices.

Usage: torch_client.py native|expandable|async: PyTorch's default allocator, expandable segments, or cudaMallocAsync.
"""

import os
import sys
import tempfile

ALLOCATORS = {"native": "", "expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}
allocator = sys.argv[1]
os.environ["PYTORCH_ALLOC_CONF"] = ALLOCATORS[allocator]

import torch  # noqa: E402  It reads the variable.
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

NUMBERS = torch.arange(1 << 20, dtype=torch.float32)


def same(tensor, expected):
    assert torch.equal(tensor.cpu(), expected)


def devices():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2
    properties = torch.cuda.get_device_properties(1)
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability(1)
    assert properties.total_memory == torch.cuda.mem_get_info(1)[1]
    assert torch.cuda.can_device_access_peer(0, 1)
    with torch.cuda.device(1):
        assert torch.empty(1, device="cuda").device.index == torch.cuda.current_device() == 1
    torch.cuda.set_rng_state(torch.cuda.get_rng_state(0), 1)


def memory():
    before = torch.cuda.memory_allocated()
    blocks = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (1, 1000, 1 << 20, 50 << 20)]
    assert torch.cuda.memory_allocated() - before >= 51 << 20
    del blocks
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    try:
        torch.empty(total + (1 << 30), dtype=torch.uint8, device="cuda")
        assert False, "more memory than there is"
    except torch.OutOfMemoryError:
        pass
    torch.cuda.empty_cache()  # The driver's pool may keep memory allocated before the failure.
    assert torch.cuda.mem_get_info()[0] == free
    grown = torch.empty(0, dtype=torch.uint8, device="cuda")
    for size in range(1 << 20, 9 << 20, 1 << 20):  # Expandable segments grow in place.
        grown = torch.empty(size, dtype=torch.uint8, device="cuda")
    same(grown.copy_(torch.ones(len(grown), dtype=torch.uint8)), torch.ones(len(grown), dtype=torch.uint8))


def copies():
    there = NUMBERS.to("cuda")
    same(there, NUMBERS)
    same(there.clone(), NUMBERS)
    same(there.to("cuda:1"), NUMBERS)
    same(NUMBERS.view(1024, 1024).to("cuda")[3], NUMBERS[3 << 10:4 << 10])
    assert torch.tensor(5.0).to("cuda").item() == 5
    assert torch.tensor([1, 2, 3], device="cuda").tolist() == [1, 2, 3]
    pinned = torch.empty(len(NUMBERS), pin_memory=True)
    assert pinned.is_pinned() and not NUMBERS.is_pinned()
    pinned.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(pinned, NUMBERS)


def streams():
    stream, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    pinned = NUMBERS.pin_memory()
    with torch.cuda.stream(stream):
        start.record()
        there = pinned.to("cuda", non_blocking=True)
        end.record()
    there.record_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_event(end)
    copy = there.clone()
    torch.cuda.synchronize()
    assert end.query() and stream.query() and start.elapsed_time(end) >= 0
    same(copy, NUMBERS)
    assert torch.cuda.Stream(priority=-1).priority == -1


def data_loader():
    data = TensorDataset(NUMBERS.view(64, -1))
    for pinned in (False, True):
        batches = list(DataLoader(data, batch_size=16, num_workers=2, pin_memory=pinned))
        assert batches[0][0].is_pinned() == pinned
        for batch, part in zip(batches, data.tensors[0].split(16), strict=True):
            same(batch[0].to("cuda", non_blocking=True), part)


def files():
    with tempfile.NamedTemporaryFile() as file:
        torch.save({"there": NUMBERS.to("cuda")}, file.name)
        for place in ("cpu", "cuda:1"):
            loaded = torch.load(file.name, map_location=place)["there"]
            assert str(loaded.device) == place
            same(loaded, NUMBERS)


def receive(tensors, answers):
    tensor = tensors.get()
    answers.put(torch.equal(tensor.cpu(), NUMBERS))
    tensor.copy_(NUMBERS.flip(0))
    torch.cuda.synchronize()
    del tensor
    answers.put("written")


def processes():
    """Another process reads and writes a tensor in place."""
    context = torch.multiprocessing.get_context("spawn")
    tensors, answers = context.Queue(), context.Queue()
    other = context.Process(target=receive, args=(tensors, answers))
    other.start()
    there = NUMBERS.to("cuda")
    tensors.put(there)
    assert answers.get(timeout=60) is True
    assert answers.get(timeout=60) == "written"
    other.join()
    assert other.exitcode == 0
    same(there, NUMBERS.flip(0))


if __name__ == "__main__":
    steps = [devices, memory, copies, streams]
    if allocator == "native":
        steps += [data_loader, files, processes]
    for step in steps:
        step()
    assert torch.cuda.get_allocator_backend() == ("cudaMallocAsync" if allocator == "async" else "native")
    print("right")
