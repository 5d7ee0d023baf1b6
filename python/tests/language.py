"""A tiny GPT-2 of a configuration, for tests of frameworks that train it."""

import torch
import transformers

WORDS, LENGTH, RECORDS, SIZE, EPOCHS = 32, 8, 24, 6, 2
STEPS = EPOCHS * RECORDS // SIZE


def model(lora=False):
    """GPT-2 with tied embeddings, or a LoRA adapter around it whose other weights are frozen."""
    torch.manual_seed(0)
    ids = dict(bos_token_id=0, eos_token_id=0)
    setting = transformers.GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=8, n_layer=1, n_head=2, **ids)
    made = transformers.GPT2LMHeadModel(setting)
    if lora:
        import peft

        chosen = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
        made = peft.get_peft_model(made, chosen)
    return made


class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.ids = torch.randint(0, WORDS, (RECORDS, LENGTH), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return RECORDS

    def __getitem__(self, at):
        return {"input_ids": self.ids[at], "labels": self.ids[at]}
