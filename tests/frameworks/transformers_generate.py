"""Generates tokens with a Llama of the transformers library, batch 1, by generate(): with a growing KV cache, and with
a static one. With the static cache, generate() compiles the step and captures it as a CUDA graph.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from report import measure, say_value

TOKENS = 64

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=1024, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
    num_key_value_heads=4, max_position_embeddings=256, pad_token_id=0,
)
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
prompt = torch.arange(1, 17, device="cuda")[None]

for row, how in (("transformers, generate()", {}),
                 ("transformers, static cache", {"cache_implementation": "static"})):
    tokens = []

    def generate():
        tokens[:] = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, min_new_tokens=TOKENS,
            max_new_tokens=TOKENS, **how
        )[0].tolist()

    measure(row, generate, torch.cuda.synchronize, 3, scale=1 / TOKENS)
    say_value(row, sum(place * token for place, token in enumerate(tokens)))
