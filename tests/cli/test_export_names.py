"""``export MODEL --for`` on the command line."""

import json
from pathlib import Path

import pytest

GIVEN = "--depth 4 --base-width 16 --base-depth 2 --weight-decay 0.1 --betas 0.9,0.9"
BASE = "over a base of width 16 and depth 2"


@pytest.mark.parametrize("trainer", ["optax", "torchtitan"])
def test_the_text_of_a_trainer_is_data_and_the_notes_are_not(cli, model, trainer):
    words = ("export", model, "--for", trainer, *GIVEN.split())
    told = cli(*words)
    assert told.code == 0 and "note: query+key+value are packed" in told.err
    assert f"pre-ln under adamw, 4 layers of the encoder, {BASE}" in told.out
    if trainer == "optax":
        groups = json.loads(told.out)["groups"]
        assert {row["lr"] for row in groups} > {0.001} and groups[0]["betas"] == [0.9, 0.9]
    else:
        compile(told.out, "rule.py", "exec")
    assert cli(*words, "-o", "rule.txt", "--quiet").out == ""  # the same model is drawn each time
    assert Path("rule.txt").read_text(encoding="utf-8") == told.out
