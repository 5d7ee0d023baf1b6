"""A classifier of digits as a LightningModule, in the form of "Lightning in 15 minutes" (Lightning AI, Apache-2.0)."""

import lightning
import torch
from sklearn.datasets import load_digits

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
data = torch.utils.data.TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))

    def training_step(self, batch, index):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        return optimizer


model = Classifier()
loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(model, loader)
