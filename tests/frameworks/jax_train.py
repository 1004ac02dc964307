"""A jitted training step of the transformer of torch_model.py, with Adam."""

import jax
import jax.numpy as jnp

from report import measure, say_value

LAYERS, WIDTH, HEADS, VOCABULARY, BATCH, LENGTH = 8, 512, 8, 1024, 8, 256


def normal(key, *shape):
    return jax.random.normal(key, shape) * shape[0] ** -0.5


def make(key):
    keys = iter(jax.random.split(key, 4 * LAYERS + 3))
    blocks = [
        {
            "qkv": normal(next(keys), WIDTH, 3 * WIDTH),
            "out": normal(next(keys), WIDTH, WIDTH),
            "up": normal(next(keys), WIDTH, 4 * WIDTH),
            "down": normal(next(keys), 4 * WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ]
    return {
        "tokens": normal(next(keys), VOCABULARY, WIDTH),
        "places": normal(next(keys), LENGTH, WIDTH),
        "head": normal(next(keys), WIDTH, VOCABULARY),
        "blocks": blocks,
    }


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def loss_of(parameters, tokens):
    x = parameters["tokens"][tokens[:, :-1]] + parameters["places"]
    causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    for block in parameters["blocks"]:
        q, k, v = (
            part.reshape(BATCH, LENGTH, HEADS, -1).swapaxes(1, 2)
            for part in jnp.split(layer_norm(x) @ block["qkv"], 3, axis=-1)
        )
        scores = jnp.where(causal, q @ k.swapaxes(2, 3) * (WIDTH // HEADS) ** -0.5, -1e9)
        y = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape)
        x = x + y @ block["out"]
        x = x + jax.nn.gelu(layer_norm(x) @ block["up"]) @ block["down"]
    logits = jax.nn.log_softmax(layer_norm(x) @ parameters["head"])
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


def train(parameters, first, second, tokens):
    loss, gradient = jax.value_and_grad(loss_of)(parameters, tokens)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
    parameters = jax.tree.map(
        lambda p, m, v: p - 1e-4 * m / (jnp.sqrt(v) + 1e-8), parameters, first, second
    )
    return parameters, first, second, loss


step = jax.jit(train)
# The same loss each time: sums in one order, by implementations that nobody had to measure.
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
