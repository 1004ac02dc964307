"""Training steps of a transformer: 8 layers, width 512, batch 8 x 256, AdamW."""

import contextlib

import torch

from report import measure, say_value
from torch_model import VOCABULARY, Transformer

BATCH, LENGTH = 8, 256


def train(name, autocast, item):
    torch.manual_seed(0)
    model = Transformer(LENGTH).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), device="cuda")
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16) if autocast else contextlib.nullcontext():
            logits = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), tokens[:, 1:].flatten()
            )
        loss.backward()
        optimizer.step()
        losses.append(loss.item() if item else loss.detach())

    measure(name, step, torch.cuda.synchronize, 20)
    say_value(name, losses[-1])


for name, autocast in (("bf16", True), ("fp32", False)):
    train(f"training step {name}, item()", autocast, True)
    train(f"training step {name}", autocast, False)
