"""Logistic regression by DP-SGD, in the form of jax_privacy's example dp_logistic_regression (Google DeepMind, Apache-2.0)."""

import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np
import optax
import rustle.jax
from jax_privacy import batch_selection

USERS, FEATURES, BATCH, EPOCHS = 800, 5, 100, 2


def logistic_loss(params, features, labels):
    logits = features @ params["weights"] + params["bias"]
    return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, labels))


features = jax.random.normal(jax.random.key(0), (USERS, FEATURES))
labels = np.asarray(features @ jnp.arange(1.0, 1 + FEATURES) > 0, np.float32)
params = {"weights": jnp.zeros(FEATURES), "bias": jnp.zeros(1)}

grad_fn = jax_privacy.clipped_grad(logistic_loss, l2_clip_norm=1.0, normalize_by=BATCH, batch_argnums=(1, 2))
optimizer = optax.sgd(0.5)
rounds = rustle.begin(
    "run", parameters=rustle.jax.layout(params), records=USERS, batch_size=BATCH, epochs=EPOCHS, epsilon=8, delta=1e-5
)
batches = (batch_idx for _ in range(EPOCHS) for batch_idx in rounds)
privatizer = rustle.jax.privatizer(rounds.session, divide_by=BATCH)


@jax.jit
def update_fn(params, batch, is_padding_example, noise_state, opt_state):
    clipped_grad = grad_fn(params, *batch, is_padding_example=is_padding_example)
    noisy_grad, noise_state = privatizer.update(clipped_grad, noise_state)
    updates, opt_state = optimizer.update(noisy_grad, opt_state)
    return optax.apply_updates(params, updates), noise_state, opt_state


noise_state, opt_state = privatizer.init(params), optimizer.init(params)
for batch_idx in batches:
    idx = batch_selection.pad_to_multiple_of(batch_idx, 32)
    batch = features[idx], labels[idx]
    params, noise_state, opt_state = update_fn(params, batch, idx == -1, noise_state, opt_state)
print("final loss", logistic_loss(params, features, labels))
