"""Federated digits, in the form of NVFlare's example hello-pt (examples/hello-world, Apache-2.0), simulated."""

import argparse
import os

import torch
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv


class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(64, 10)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_clients", type=int, default=2)
    parser.add_argument("--num_rounds", type=int, default=3)
    parser.add_argument("--train_script", default="client.py")
    args = parser.parse_args()

    recipe = FedAvgRecipe(
        name="hello-digits",
        min_clients=args.n_clients,
        num_rounds=args.num_rounds,
        model=Net(),
        train_script=args.train_script,
    )
    run = recipe.execute(SimEnv(num_clients=args.n_clients, workspace_root=os.getcwd()))
    print(run.get_result())


if __name__ == "__main__":
    main()
