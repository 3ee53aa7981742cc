"""Every command that gives a rule gives the recommended one first, and names the published."""

import json
import re
from html import unescape

import pytest
from torch import nn

import deepnet_theory as dt
from deepnet_theory import apply_
from deepnet_theory.definitions.outcome import UnstableWarning

BOTH = ("recommended for training (complete)", "as published (symmetric)")
SMALL = ["--width", "8", "--heads", "2", "--tokens", "4", "--seeds", "2", "--depths", "1,2"]
HEAD = "Start the head's bias at the log-unigram"


def plain(text):
    return " ".join(text.split())


def test_export_says_which_rule_it_wrote(cli):
    words = ("export", "--optimizer", "adam", "--depth", "200")
    found, named = cli(*words), cli(*words, "--closure", "symmetric")
    constants = json.loads(found.out)
    assert list(constants["origin"]["rows"]) == list(BOTH)
    assert constants["origin"]["row"] == BOTH[0] and HEAD in constants["condition"]
    assert f"{BOTH[1]}: encoder alpha = (2*N)**(1/2) = 20, beta" in found.err
    assert found.err.startswith(f"{BOTH[0]}, exported: encoder alpha = 2*N = 400, beta = 1")
    assert HEAD in found.err and json.loads(named.out)["condition"] == ""
    assert "as asked (symmetric), exported: encoder alpha = (2*N)**(1/2) = 20" in named.err


def test_the_constants_of_a_report_are_those_that_export_writes(cli, tmp_path):
    page = tmp_path / "page.html"
    words = ("report", "--optimizer", "adam", *SMALL, "--depth", "200")
    told = plain(cli(*words, "-o", str(page)).out)  # the header of what was measured
    html = page.read_text(encoding="utf-8")
    *_, data, _ = re.findall(r"<pre><code>(.*?)</code></pre>", html, re.S)
    exported = json.loads(cli("export", "--optimizer", "adam", "--depth", "200").out)
    assert json.loads(unescape(data)) == exported
    assert HEAD.split("'")[0] in html
    assert f"Measured, and in the constants: the rule {BOTH[0]}." in html
    assert f"{BOTH[0]}, measured here: encoder α = 2·N" in told
    assert f"{BOTH[1]}: encoder α = (2·N)^(1/2)" in told


def test_train_and_apply_say_which_rule_is_meant_and_training_warns_of_an_unstable_one(
    cli, tmp_path
):
    path = tmp_path / "constants.json"
    words = f"train {path} --steps 1 --batch 2 --tokens 8 --seeds 1".split()
    dt.export("adam", 4, width=16, heads=2).save(path)
    trained = cli(*words)
    shown = plain(trained.out)
    assert shown.index(f"{BOTH[0]}, trained here: ") < shown.index(f"{BOTH[1]}: encoder α")
    layer = nn.TransformerEncoderLayer(16, 2, 64, batch_first=True)
    model = nn.Sequential(nn.Embedding(11, 16), nn.TransformerEncoder(layer, 4))
    assert HEAD in shown and HEAD in str(apply_(model, path)) and "warning" not in trained.err
    with pytest.warns(UnstableWarning):
        dt.export(dt.derive("adam", closure="symmetric"), 4, width=16, heads=2).save(path)
    assert "warning: " in cli(*words).err and "warning" not in cli(*words, "--quiet").err


def test_verify_keeps_both_rules_and_none_beside_a_custom_one(cli):
    words = ("verify", "--optimizer", "adam", *SMALL, "--format", "json")
    assert list(json.loads(cli(*words).out)["rows"]) == list(BOTH)
    assert json.loads(cli(*words, "--alpha", "N", "--beta", "1").out)["rows"] == {}
