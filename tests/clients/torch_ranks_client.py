"""PyTorch's collectives on GPUs, by two ranks of torchrun. Only collectives without kernels of PyTorch's own.

Started as a program, it starts itself with torchrun.
"""

import os
import subprocess
import sys

import torch
import torch.distributed as dist

RANKS = 2


def gpu(*values):
    return torch.tensor(values, dtype=torch.float32).cuda()


def check(what, tensor, *values):
    got = tensor.cpu().tolist()
    if got != list(values):
        sys.exit(f"torch_ranks_client.py: rank {dist.get_rank()}, {what}: {got}, not {list(values)}")


def main():
    if "LOCAL_RANK" not in os.environ:
        # torchrun leaves temporary files.
        environment = dict(os.environ, OMP_NUM_THREADS="1", TMPDIR=os.environ["HOME"])
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), __file__]
        return subprocess.run(command, env=environment, check=False).returncode
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    x = gpu(rank + 1, rank + 10)
    dist.all_reduce(x)
    check("all_reduce", x, 3, 21)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    check("average", x, 3, 21)
    x = gpu(rank, rank)
    dist.broadcast(x, 1)
    check("broadcast", x, 1, 1)
    gathered = gpu(0, 0, 0, 0)
    dist.all_gather_into_tensor(gathered, gpu(rank, rank + 5))
    check("all_gather", gathered, 0, 5, 1, 6)
    scattered = gpu(0)
    dist.reduce_scatter_tensor(scattered, gpu(rank, rank + 5))
    check("reduce_scatter", scattered, 1 if rank == 0 else 11)
    exchanged = gpu(0, 0)
    dist.all_to_all_single(exchanged, gpu(rank * 2, rank * 2 + 1))
    check("all_to_all", exchanged, rank, rank + 2)
    x = gpu(7) if rank == 0 else gpu(0)
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    check("send and receive", x, 7)
    # Two reductions as one group, in a stream ordered after the current one.
    stream = torch.cuda.Stream()
    a, b = gpu(rank), gpu(rank + 1)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        with dist._coalescing_manager(async_ops=True) as together:
            dist.all_reduce(a)
            dist.all_reduce(b)
        together.wait()
    torch.cuda.current_stream().wait_stream(stream)
    check("together", a, 1)
    check("together", b, 3)
    # Communicators of one rank each, split from the first.
    groups = [dist.new_group([one]) for one in range(RANKS)]
    x = gpu(rank + 1)
    dist.all_reduce(x, group=groups[rank])
    check("a group", x, rank + 1)
    dist.destroy_process_group()
    if rank == 0:
        print("right")
    return 0


sys.exit(main())
