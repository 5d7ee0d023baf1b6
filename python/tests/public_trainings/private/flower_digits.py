"""Federated digits, in the form of Flower's quickstart with NumPy arrays (examples/quickstart-numpy, Apache-2.0), simulated."""

import numpy as np
import rustle
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from rustle.federated import Server, Sgd
from rustle.federated.flower import Strategy
from sklearn.datasets import load_digits

NODES, ROUNDS = 4, 3
FIRST = {"weights": np.zeros((64, 10), np.float32), "bias": np.zeros(10, np.float32)}
client, app = ClientApp(), ServerApp()


@client.train()
def train(message, context):
    model = {name: array.numpy() for name, array in message.content["arrays"].items()}
    images, labels = load_digits(return_X_y=True)
    own = slice(context.node_config["partition-id"], None, NODES)
    x, y = images[own] / 16, np.eye(10)[labels[own]]
    odds = np.exp(x @ model["weights"] + model["bias"])
    error = y - odds / odds.sum(1, keepdims=True)
    moved = {"weights": model["weights"] + x.T @ error / len(x), "bias": model["bias"] + error.mean(0)}
    arrays = ArrayRecord({name: Array(value.astype(np.float32)) for name, value in moved.items()})
    metrics = MetricRecord({"num-examples": len(x)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@app.main()
def main(grid, context):
    shapes = [(name, value.shape) for name, value in FIRST.items()]
    run = dict(iterations=ROUNDS, max_participations=ROUNDS, epsilon=8, delta=1e-5, clip_norm=0.5, float=True)
    rustle.plan(**run, parameters=shapes).save("run/plan.toml")
    server = Server(rustle.connect("inproc://run"), FIRST, clients_per_round=NODES, optimizer=Sgd(1.0, 0.0))
    strategy = Strategy(server, min_available_nodes=NODES, min_train_nodes=NODES)
    initial = ArrayRecord({name: Array(value) for name, value in FIRST.items()})
    strategy.start(grid=grid, initial_arrays=initial, num_rounds=ROUNDS)


resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2, "include_dashboard": False}}
run_simulation(app, client, num_supernodes=NODES, backend_config=resources)
