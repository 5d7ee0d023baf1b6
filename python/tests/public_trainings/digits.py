"""A convolutional network on scikit-learn's digits, in the form of PyTorch's example mnist (pytorch/examples, BSD-3-Clause)."""

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
data = torch.utils.data.TensorDataset(images, torch.tensor(labels))
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 4 * 4, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True)

for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
