"""A character LSTM for the language of a name, in the form of Opacus's example char-lstm-classification (Meta, Apache-2.0)."""

import torch
from opacus.layers import DPLSTM
from rustle.opacus import PrivacyEngine
from torch import nn

torch.manual_seed(0)
NAMES = {"german": "schmidt weber wagner becker schulz hoffmann koch bauer richter klein wolf".split()}
NAMES["italian"] = "rossi russo ferrari esposito bianchi romano colombo ricci marino greco bruno".split()
pairs = [(name, at) for at, names in enumerate(NAMES.values()) for name in names]
letters = torch.tensor([[ord(c) - 96 for c in name.ljust(10, "`")] for name, _ in pairs])
data = torch.utils.data.TensorDataset(letters, torch.tensor([at for _, at in pairs]))


class CharLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(27, 8)
        self.lstm = DPLSTM(8, 12, batch_first=True)
        self.out = nn.Linear(12, 2)

    def forward(self, x):
        hidden, _ = self.lstm(self.embedding(x))
        return self.out(hidden[:, -1])


model = CharLstm()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
loader = torch.utils.data.DataLoader(data, batch_size=11, shuffle=True)
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private_with_epsilon(
    module=model, optimizer=optimizer, data_loader=loader, max_grad_norm=1.0,
    target_epsilon=8.0, target_delta=1e-5, epochs=3,
)

for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item(), "ε", engine.get_epsilon(1e-5))
