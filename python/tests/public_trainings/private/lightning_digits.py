"""A classifier of digits as a LightningModule, in the form of "Lightning in 15 minutes" (Lightning AI, Apache-2.0)."""

import lightning
import rustle.lightning
import rustle.torch
import torch
from sklearn.datasets import load_digits

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
data = torch.utils.data.TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))

    def training_step(self, batch, index):
        x, y = batch
        loss = lambda net, x, y: torch.nn.functional.cross_entropy(net(x), y)
        rustle.torch.clipped_sum(self.net, loss, x, y, clip_norm=1.0, divide_by=256)
        self.optimizers().step()

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        rustle.torch.attach(optimizer, rounds.session, self, divide_by=256)
        return optimizer


model = Classifier()
rounds = rustle.begin("run", parameters=rustle.torch.layout(model), records=len(data), batch_size=256, epochs=2, epsilon=8, delta=1e-5)
loader = rustle.torch.DataLoader(data, rounds)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(model, loader)
