"""Small trainings whose rows a cluster makes, by one process or by two ranks, as :mod:`kill_jobs` has them.

What is killed is the training, all ranks together, as launchers do once one is lost. The cluster stays: its URL is in the
file ``url`` of the folder.
"""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path
from typing import Any, Iterable

import numpy as np
from kill_jobs import Checkpoint, Train, of_session

import rustle

DIMENSIONS = {"cluster": 3000, "ranks": 723, "fsdp2": 723}
RANKS = 2


def of_ranks(how: str) -> Train:
    import torch
    import torch._dynamo
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    import rustle.torch

    def made() -> Any:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        net = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Linear(30, 3))
        if how == "fsdp2":
            mesh = init_device_mesh("cpu", (RANKS,))
            for part in (*net, net):
                fully_shard(part, mesh=mesh)
        return net

    def local(parameter: Any) -> Any:
        return parameter.to_local() if how == "fsdp2" else parameter

    def one(folder: Path, commitment: str, rank: int) -> Iterable[np.ndarray]:
        net, session = made(), rustle.connect((folder / "url").read_text())
        checkpoint = Checkpoint(folder, session)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, session, net, commitment=commitment, reduce=how == "ranks")

        def save() -> None:
            saved = folder / f"saved-{session.branch}-{session.next_step}"
            saved.mkdir(exist_ok=True)
            parts = [local(p).detach().clone() for p in net.parameters()]
            torch.save({"parts": parts, "optimizer": optimizer.state_dict()}, saved / f"{rank}")
            dist.barrier()
            if rank == 0:
                checkpoint.write(lambda path: Path(path).write_text(str(saved)))

        if checkpoint.goes_on():
            state = torch.load(checkpoint.folder() / f"{rank}", weights_only=True)
            optimizer.load_state_dict(state["optimizer"])
            with torch.no_grad():
                for p, part in zip(net.parameters(), state["parts"], strict=True):
                    local(p).copy_(part)
            if rank == 0:
                checkpoint.resumed()
        else:
            save()
        while session.next_step < session.iterations:
            for p in net.parameters():
                p.grad = torch.cos(p.detach()) * (rank + 1.0 if how == "ranks" else 3.0)
            optimizer.step()
            if checkpoint.due():
                save()
        return [(p.full_tensor() if how == "fsdp2" else p).detach().numpy() for p in net.parameters()]

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        meeting = folder / f"meeting-{uuid.uuid4()}"
        other = os.fork()
        rank = 0 if other else 1
        if rank:
            sys.settrace(None)
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
        found = one(folder, commitment, rank)
        dist.barrier()
        if rank:
            os._exit(0)
        assert os.waitpid(other, 0)[1] == 0
        return found

    return train


JOBS = {
    "cluster": lambda: of_session(lambda folder: (folder / "url").read_text()),
    "ranks": lambda: of_ranks("ranks"),
    "fsdp2": lambda: of_ranks("fsdp2"),
}
