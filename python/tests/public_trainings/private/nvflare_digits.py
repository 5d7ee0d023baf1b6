"""Federated digits, in the form of NVFlare's example hello-pt (examples/hello-world, Apache-2.0), simulated."""

import argparse
import os

import rustle.torch
import torch
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.client.config import TransferType
from nvflare.recipe import SimEnv
from rustle.federated.nvflare import Aggregator


class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(64, 10)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_clients", type=int, default=2)
    parser.add_argument("--num_rounds", type=int, default=3)
    parser.add_argument("--train_script", default="client.py")
    args = parser.parse_args()

    run = dict(iterations=args.num_rounds, max_participations=args.num_rounds, epsilon=8, delta=1e-5, float=True)
    rustle.plan(**run, parameters=rustle.torch.layout(Net())).save("run/plan.toml")
    recipe = FedAvgRecipe(
        name="hello-digits",
        min_clients=args.n_clients,
        num_rounds=args.num_rounds,
        model=Net(),
        train_script=args.train_script,
        params_transfer_type=TransferType.DIFF,
        aggregator=Aggregator(os.path.abspath("run"), clients_per_round=args.n_clients),
    )
    run = recipe.execute(SimEnv(num_clients=args.n_clients, workspace_root=os.getcwd()))
    print(run.get_result())


if __name__ == "__main__":
    main()
