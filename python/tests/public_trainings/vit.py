"""A small vision transformer on digits, in the form of the image classification guide of transformers (Hugging Face, Apache-2.0)."""

import torch
import transformers
from sklearn.datasets import load_digits

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images[:128], dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
data = [{"pixel_values": image, "labels": torch.tensor(label)} for image, label in zip(images, labels)]
setting = transformers.ViTConfig(
    hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=4,
    num_channels=1, num_labels=10,
)
model = transformers.ViTForImageClassification(setting)

args = transformers.TrainingArguments(
    "out", num_train_epochs=2, per_device_train_batch_size=32, use_cpu=True, report_to=[], save_strategy="no"
)
trainer = transformers.Trainer(model, args, train_dataset=data)
trainer.train()
