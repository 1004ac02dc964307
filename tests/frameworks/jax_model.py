"""A small transformer in JAX, with a training step by Adam, for the programs of this folder."""

import jax
import jax.numpy as jnp

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
