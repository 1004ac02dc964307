"""Training steps of the transformer of torch_model.py by two processes with a device each, using NCCL's collectives.
The ways: a copy of the model each (DistributedDataParallel), sharded parameters (FSDP2), divided layers (tensor
parallel), and one half of the layers each. The last is a pipeline of four parts of the batch.

Started as a program, it starts itself with torchrun.
"""

import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from report import measure, say_value
from torch_model import LAYERS, VOCABULARY, WIDTH, Transformer

BATCH, LENGTH, PARTS, STEPS = 8, 256, 4, 20
RANKS = 2


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Half(torch.nn.Module):
    """The first or the second half of the transformer's layers."""

    def __init__(self, model, rank):
        super().__init__()
        self.rank = rank
        half = LAYERS // 2
        self.blocks = model.blocks[rank * half : (rank + 1) * half]
        if rank == 0:
            self.tokens, self.places = model.tokens, model.places
        else:
            self.norm, self.head = model.norm, model.head

    def forward(self, x):
        if self.rank == 0:
            x = self.tokens(x) + self.places(torch.arange(LENGTH, device=x.device))
        for block in self.blocks:
            x = block(x)
        return x if self.rank == 0 else self.head(self.norm(x))


class Ranks:
    def __init__(self):
        self.rank = int(os.environ["LOCAL_RANK"])
        self.device = torch.device("cuda", self.rank)
        torch.cuda.set_device(self.device)
        dist.init_process_group("cpu:gloo,cuda:nccl", device_id=self.device)
        # Control messages of the measurement between ranks use the CPU.
        self.word = torch.zeros(1, dtype=torch.int64)

    def measure(self, row, step):
        """The first rank measures blocks of steps; the others run the same number."""

        def block():
            for _ in range(STEPS):
                step()

        def told(word):
            self.word.fill_(word)
            dist.broadcast(self.word, 0)
            return self.word.item()

        def together():
            told(1)
            block()

        if self.rank == 0:
            measure(row, together, torch.cuda.synchronize, 1, scale=1 / STEPS)
            told(0)
        else:
            while told(0):
                block()
                torch.cuda.synchronize()

    def train(self, row, parameters, gradients):
        """gradients(tokens): runs the backward passes and returns this rank's loss."""
        # One parameter after the other (foreach=False): with divided layers, some are DTensors and others not.
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, foreach=False)
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(0))
        tokens = tokens.to(self.device)
        losses = []

        def step():
            optimizer.zero_grad(set_to_none=True)
            losses.append(gradients(tokens))
            optimizer.step()

        # The reported loss is from the same number of steps in each way of running; the measured steps follow.
        for _ in range(STEPS):
            step()
        loss = losses[-1].detach().clone()
        dist.all_reduce(loss)
        if self.rank == 0:
            say_value(row, loss.item())
        self.measure(row, step)

    def own_half(self, tokens):
        return tokens.chunk(RANKS)[self.rank]

    def data_parallel(self):
        torch.manual_seed(0)
        model = DistributedDataParallel(Transformer(LENGTH).to(self.device), device_ids=[self.device])

        def gradients(tokens):
            half = self.own_half(tokens)
            loss = loss_of(model(half[:, :-1]), half[:, 1:])
            loss.backward()
            return loss

        self.train("DDP, two ranks", model.parameters(), gradients)

    def sharded(self):
        torch.manual_seed(0)
        model = Transformer(LENGTH).to(self.device)
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)

        def gradients(tokens):
            half = self.own_half(tokens)
            loss = loss_of(model(half[:, :-1]), half[:, 1:])
            loss.backward()
            return loss

        self.train("FSDP2, two ranks", model.parameters(), gradients)

    def tensor_parallel(self):
        torch.manual_seed(0)
        model = Transformer(LENGTH).to(self.device)
        mesh = init_device_mesh("cuda", (RANKS,))
        for block in model.blocks:
            parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})

        def gradients(tokens):
            loss = loss_of(model(tokens[:, :-1]), tokens[:, 1:])
            loss.backward()
            return loss

        self.train("tensor parallel, two ranks", model.parameters(), gradients)

    def pipeline(self):
        torch.manual_seed(0)
        model = Half(Transformer(LENGTH), self.rank).to(self.device)
        part = (BATCH // PARTS, LENGTH, WIDTH)

        def gradients(tokens):
            inputs = tokens[:, :-1].chunk(PARTS)
            if self.rank == 0:
                outputs = [model(one) for one in inputs]
                for output in outputs:
                    dist.send(output.detach(), 1)
                for output in outputs:
                    gradient = torch.empty(part, device=self.device)
                    dist.recv(gradient, 1)
                    output.backward(gradient)
                return torch.zeros((), device=self.device)
            total = torch.zeros((), device=self.device)
            received = []
            for _ in inputs:
                x = torch.empty(part, device=self.device)
                dist.recv(x, 0)
                received.append(x.requires_grad_())
            for x, target in zip(received, tokens[:, 1:].chunk(PARTS)):
                loss = loss_of(model(x), target) / PARTS
                loss.backward()
                total += loss.detach()
                dist.send(x.grad, 0)
            return total

        self.train("pipeline of two ranks", model.parameters(), gradients)


def main():
    if "LOCAL_RANK" not in os.environ:
        # torchrun passes the standard input to the first process only.
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), __file__]
        return subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="1"), check=False).returncode
    ranks = Ranks()
    for train in (ranks.data_parallel, ranks.sharded, ranks.tensor_parallel, ranks.pipeline):
        train()
    dist.destroy_process_group()
    return 0


sys.exit(main())
