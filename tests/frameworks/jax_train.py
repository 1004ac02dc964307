"""A jitted training step of the transformer of jax_model.py."""

import jax
import jax.numpy as jnp

from jax_model import BATCH, LENGTH, VOCABULARY, make, train
from report import measure, say_value

step = jax.jit(train)
# Deterministic losses: sums in one order, by implementations chosen without measurements.
exact_step = jax.jit(train, compiler_options={"xla_gpu_deterministic_ops": True})

key = jax.random.key(0)
parameters = make(key)
zeros = jax.tree.map(jnp.zeros_like, parameters)
tokens = jax.random.randint(key, (BATCH, LENGTH + 1), 0, VOCABULARY)
state = [parameters, zeros, zeros, jnp.zeros(())]
exact = list(state)


def unit():
    state[:] = step(*state[:3], tokens)


measure("JAX training step", unit, lambda: state[3].block_until_ready(), 20)
for _ in range(20):
    exact[:] = exact_step(*exact[:3], tokens)
say_value("JAX training step", exact[3])
