"""Decoding in eager mode, and by replays of a CUDA graph."""

import torch

from torch_decoder import Decoder

with torch.inference_mode():
    decoder = Decoder()
    decoder.measure("decoding", decoder.compute)

    decoder.reset()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        decoder.compute()
    decoder.measure("decoding, CUDA graph", graph.replay)
