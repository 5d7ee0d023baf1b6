"""A classifier of digits as a job of Ray Train, in the form of its guide "Get started with PyTorch" (docs.ray.io, Apache-2.0)."""

import os

import ray.train
import torch
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits


def train_func(config):
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    data = torch.utils.data.TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model = ray.train.torch.prepare_model(model)
    loader = ray.train.torch.prepare_data_loader(torch.utils.data.DataLoader(data, batch_size=256, shuffle=True))
    for epoch in range(config["epochs"]):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        ray.train.report({"epoch": epoch})


trainer = TorchTrainer(
    train_func,
    train_loop_config={"epochs": 2, "folder": os.getcwd()},
    scaling_config=ray.train.ScalingConfig(num_workers=1),
    run_config=ray.train.RunConfig(storage_path=os.path.join(os.getcwd(), "results")),
)
ray.init(num_cpus=2, include_dashboard=False)
trainer.fit()
