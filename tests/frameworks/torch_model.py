"""A small transformer for the programs of this folder."""

import torch
from torch import nn

LAYERS, WIDTH, HEADS, VOCABULARY = 8, 512, 8, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(2)])
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def heads(self, x):
        batch, length, _ = x.shape
        return x.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x, cache=None, position=None, mask=None):
        q, k, v = (self.heads(part) for part in self.qkv(self.norms[0](x)).split(WIDTH, dim=-1))
        if cache is not None:
            k = cache[0].index_copy_(2, position, k)
            v = cache[1].index_copy_(2, position, v)
        y = nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=cache is None)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Transformer(nn.Module):
    def __init__(self, longest):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(longest, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, caches=None, position=None, mask=None):
        places = torch.arange(tokens.shape[1], device=tokens.device) if caches is None else position
        x = self.tokens(tokens) + self.places(places)
        for index, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[index], position, mask)
        return self.head(self.norm(x))
