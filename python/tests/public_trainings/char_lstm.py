"""A character LSTM for the language of a name, in the form of Opacus's example char-lstm-classification (Meta, Apache-2.0)."""

import torch
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
        self.lstm = nn.LSTM(8, 12, batch_first=True)
        self.out = nn.Linear(12, 2)

    def forward(self, x):
        hidden, _ = self.lstm(self.embedding(x))
        return self.out(hidden[:, -1])


model = CharLstm()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
loader = torch.utils.data.DataLoader(data, batch_size=11, shuffle=True)

for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
