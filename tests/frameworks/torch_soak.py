"""Trains the transformer for long, with a checkpoint after every STEPS_A_CHECKPOINT steps.

Usage: torch_soak.py STEPS STEPS_A_CHECKPOINT FOLDER pinned|resident

At each checkpoint it writes a line: step, loss (hexadecimal), bytes of the device in use, number of restarts of its
ranks. It then waits for a line or the end of its input; meanwhile soak.py measures its memory. The last checkpoint
is loaded to the device again and compared. pinned: every batch comes from pinned memory; resident: all use one batch
in device memory. Under torchrun each rank has a copy of the model and its part of the batch
(DistributedDataParallel), and the first one writes. Restarted ranks continue from the last checkpoint.
"""

import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from torch_model import VOCABULARY, Transformer

BATCH, LENGTH = 8, 256


def device_bytes():
    free, total = torch.cuda.mem_get_info()
    return total - free


def main():
    steps, steps_a_checkpoint = map(int, sys.argv[1:3])
    pinned = sys.argv[4] == "pinned"
    checkpoint = pathlib.Path(sys.argv[3]) / "checkpoint.pt"
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    # Deterministic losses, as far as PyTorch supports them.
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(0)
    model = trained = Transformer(LENGTH).to(device)
    if ranks > 1:
        dist.init_process_group("nccl", device_id=device)
        trained = DistributedDataParallel(model, device_ids=[device])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    done, restarts = 0, int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    if restarts > 0 and checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["step"]
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), device=device)
    if done:
        torch.set_rng_state(saved["random"].cpu())
    for step in range(done + 1, steps + 1):
        if pinned:
            batch = torch.randint(VOCABULARY, (BATCH, LENGTH + 1)).pin_memory()
            tokens = batch.to(device, non_blocking=True)
        part = tokens.chunk(ranks)[rank]
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = trained(part[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), part[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if step % steps_a_checkpoint != 0:
            continue
        total = loss.detach().clone()
        if ranks > 1:
            dist.all_reduce(total, dist.ReduceOp.AVG)
        if rank == 0:
            # The file is always complete, even if the process ends while writing.
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step,
                        "random": torch.get_rng_state()}, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
            print(step, total.item().hex(), device_bytes(), restarts, flush=True)
            sys.stdin.readline()
        if ranks > 1:
            dist.barrier()  # Otherwise the others would continue, and end after the last checkpoint.
    if rank == 0:
        saved = torch.load(checkpoint, map_location=device, weights_only=True)["model"]
        for name, value in model.state_dict().items():
            if not torch.equal(saved[name], value):
                sys.exit(f"torch_soak.py: {name} is not what was saved")
    if ranks > 1:
        dist.destroy_process_group()


main()
