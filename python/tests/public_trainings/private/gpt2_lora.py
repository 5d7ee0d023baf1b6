"""A LoRA adapter on a small GPT-2, in the form of peft's quick tour with the Trainer (Hugging Face, Apache-2.0)."""

import rustle.torch
import rustle.transformers
import torch
import transformers
from peft import LoraConfig, get_peft_model

torch.manual_seed(0)
text = "the quick brown fox jumps over the lazy dog while the cat sleeps in the sun " * 6
ids = torch.tensor([ord(c) % 32 for c in text])[: 24 * 16].reshape(24, 16)
data = [{"input_ids": one, "labels": one} for one in ids]
setting = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
lora = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
model = get_peft_model(transformers.GPT2LMHeadModel(setting), lora)

args = transformers.TrainingArguments(
    "out", num_train_epochs=2, per_device_train_batch_size=8, use_cpu=True, report_to=[], save_strategy="no"
)
rounds = rustle.begin(
    "run", parameters=rustle.torch.layout(model), records=len(data), batch_size=8, epochs=2, epsilon=8, delta=1e-5
)
trainer = rustle.transformers.Trainer(model, args, train_dataset=data, rounds=rounds, divide_by=8, delta=1e-5)
trainer.train()
