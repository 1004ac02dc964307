"""A jitted training step of the transformer of jax_model.py on two devices of one process. Each device has a part of
the batch, and XLA sums the gradients by NCCL.
"""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jax_model import BATCH, LENGTH, VOCABULARY, make, train
from report import measure, say_value

ROW = "JAX training step on two devices"

mesh = Mesh(jax.devices()[:2], ("batch",))
everywhere, shared_out = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("batch"))
key = jax.random.key(0)
parameters = jax.device_put(make(key), everywhere)
zeros = jax.device_put(jax.tree.map(jnp.zeros_like, parameters), everywhere)
tokens = jax.device_put(jax.random.randint(key, (BATCH, LENGTH + 1), 0, VOCABULARY), shared_out)
step = jax.jit(train, compiler_options={"xla_gpu_deterministic_ops": True})
state = [parameters, zeros, zeros, jnp.zeros(())]


def unit():
    state[:] = step(*state[:3], tokens)


for _ in range(20):
    unit()
say_value(ROW, state[3])
measure(ROW, unit, lambda: state[3].block_until_ready(), 20)
