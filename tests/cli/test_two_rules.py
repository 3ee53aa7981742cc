"""Every command that gives a rule gives the recommended one first, and names the published."""

import json
import re
from html import unescape

import pytest
from torch import nn

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.definitions.outcome import Refusal
from deepnet_theory.laboratory import transfer

BOTH = ("recommended for training (complete)", "as published (symmetric)")
SMALL = ["--width", "8", "--heads", "2", "--tokens", "4", "--seeds", "2", "--depths", "1,2"]
HEAD = "Start the head's bias at the log-unigram"


def plain(text):
    return " ".join(text.split())


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "constants.json"
    dt.export("adam", 4, width=16, heads=2).save(path)
    return path


def test_export_says_which_rule_it_wrote(cli):
    found = cli("export", "--optimizer", "adam", "--depth", "200")
    constants = json.loads(found.out)
    assert list(constants["origin"]["rows"]) == list(BOTH)
    assert constants["origin"]["row"] == BOTH[0] and HEAD in constants["condition"]
    assert f"{BOTH[1]}: encoder alpha = (2*N)**(1/2) = 20, beta" in found.err
    assert found.err.startswith(f"{BOTH[0]}, exported: encoder alpha = 2*N = 400, beta = 1")
    assert HEAD in found.err
    named = cli("export", "--optimizer", "adam", "--depth", "200", "--closure", "symmetric")
    assert "as asked (symmetric), exported: encoder alpha = (2*N)**(1/2) = 20" in named.err
    assert json.loads(named.out)["condition"] == ""


def test_the_constants_of_a_report_are_those_that_export_writes(cli, tmp_path):
    page = tmp_path / "page.html"
    words = ("report", "--optimizer", "adam", *SMALL, "--depth", "200")
    shown = cli(*words, "-o", str(page))
    html = page.read_text(encoding="utf-8")
    *_, data, _ = re.findall(r"<pre><code>(.*?)</code></pre>", html, re.S)
    handed = json.loads(unescape(data))
    assert handed == json.loads(cli("export", "--optimizer", "adam", "--depth", "200").out)
    assert handed["parts"][0]["sublayers"][0]["alpha"] == 400
    assert HEAD.split("'")[0] in html
    assert f"Measured, and in the constants: the rule {BOTH[0]}." in html
    told = plain(shown.out)  # the header of what was measured
    assert f"{BOTH[0]}, measured here: encoder α = 2·N" in told
    assert f"{BOTH[1]}: encoder α = (2·N)^(1/2)" in told


def test_train_apply_and_verify_say_which_rule_is_meant(cli, exported):
    words = f"train {exported} --steps 1 --batch 2 --tokens 8 --seeds 1".split()
    shown = plain(cli(*words).out)
    assert shown.index(f"{BOTH[0]}, trained here: ") < shown.index(f"{BOTH[1]}: encoder α")
    assert HEAD in shown
    layer = nn.TransformerEncoderLayer(16, 2, 64, batch_first=True)
    model = nn.Sequential(nn.Embedding(11, 16), nn.TransformerEncoder(layer, 4))
    assert HEAD in str(apply_(model, exported))
    words = ("verify", "--optimizer", "adam", *SMALL, "--format", "json")
    assert list(json.loads(cli(*words).out)["rows"]) == list(BOTH)
    assert json.loads(cli(*words, "--alpha", "N", "--beta", "1").out)["rows"] == {}


def test_a_training_warns_of_unstable_constants_unless_quiet(cli, monkeypatch, tmp_path):
    def run_jobs(*_, **__):
        raise Refusal("nothing is done")

    monkeypatch.setattr(transfer, "run_jobs", run_jobs)
    for optimizer, closure, unstable in (("adam", "symmetric", True), ("adam", "complete", False)):
        path = tmp_path / f"{closure}.json"
        derivation = dt.derive(optimizer, closure=closure)
        dt.export(derivation, 4, width=16, heads=2).save(path)
        assert ("warning: " in cli("train", str(path)).err) is unstable
        assert "warning" not in cli("train", str(path), "--quiet").err
