"""Decoding with torch.compile."""

import torch

from torch_decoder import Decoder

with torch.no_grad():
    decoder = Decoder()
    decoder.measure("decoding, torch.compile", torch.compile(decoder.compute))
