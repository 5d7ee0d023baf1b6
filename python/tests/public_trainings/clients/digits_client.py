"""What each client of nvflare_digits.py trains: a few steps on its own digits, in the form of NVFlare's client API."""

import nvflare.client as flare
import torch
from sklearn.datasets import load_digits

images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images[:200], dtype=torch.float32) / 16, torch.tensor(labels[:200])
model = torch.nn.Linear(64, 10)
flare.init()
while flare.is_running():
    received = flare.receive()
    model.load_state_dict({name: torch.as_tensor(value) for name, value in received.params.items()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    flare.send(flare.FLModel(params=model.state_dict(), meta={"NUM_STEPS_CURRENT_ROUND": 2}))
