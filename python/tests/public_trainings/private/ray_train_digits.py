"""A classifier of digits as a job of Ray Train, in the form of its guide "Get started with PyTorch" (docs.ray.io, Apache-2.0)."""

import os

import ray.train
import rustle.torch
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
    asked = dict(records=len(data), batch_size=256, epochs=config["epochs"], epsilon=8, delta=1e-5)
    rounds = rustle.begin(config["folder"] + "/run", parameters=rustle.torch.layout(model), **asked)
    rustle.torch.attach(optimizer, rounds.session, model, divide_by=256)
    loader = rustle.torch.DataLoader(data, rounds)
    for epoch in range(config["epochs"]):
        for x, y in loader:
            loss = lambda model, x, y: criterion(model(x), y)
            rustle.torch.clipped_sum(model, loss, x, y, clip_norm=1.0, divide_by=256)
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
