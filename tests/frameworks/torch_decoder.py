"""Decoding with a key and value cache, batch 1, one token after the other."""

import torch

from report import measure, say_value
from torch_model import HEADS, LAYERS, WIDTH, Transformer

LONGEST = 256


class Decoder:
    def __init__(self):
        torch.manual_seed(0)
        self.model = Transformer(LONGEST).cuda().to(torch.bfloat16).eval()
        shape = (1, HEADS, LONGEST, WIDTH // HEADS)
        self.caches = [
            tuple(torch.zeros(shape, dtype=torch.bfloat16, device="cuda") for _ in range(2))
            for _ in range(LAYERS)
        ]
        self.position = torch.zeros(1, dtype=torch.long, device="cuda")
        self.token = torch.zeros((1, 1), dtype=torch.long, device="cuda")
        self.places = torch.arange(LONGEST, device="cuda")
        self.sum = 0

    def reset(self):
        self.position.zero_()
        self.token.zero_()
        self.sum = 0

    def compute(self):
        mask = self.places <= self.position
        logits = self.model(self.token, self.caches, self.position, mask[None, None, None])
        self.token.copy_(logits[:, -1:].argmax(-1))
        self.position.add_(1)

    def measure(self, name, compute):
        def token():
            compute()
            self.sum += self.token.item()

        def start():
            torch.cuda.synchronize()
            self.position.zero_()

        self.reset()
        measure(name, token, start, LONGEST - 1)
        say_value(name, self.sum)
