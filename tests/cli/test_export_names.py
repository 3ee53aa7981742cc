"""``export MODEL --for`` on the command line."""

import json
from pathlib import Path

import pytest

BASE = ("--depth", "4", "--width", "32", "--base-width", "16", "--base-depth", "2")


@pytest.mark.parametrize("trainer", ["optax", "torchtitan"])
def test_the_text_of_a_trainer_is_data_and_the_notes_are_not(cli, model, trainer):
    given = ("--weight-decay", "0.1", "--betas", "0.9,0.9")
    words = ("export", model, "--for", trainer, *BASE, *given)
    told = cli(*words)
    assert told.code == 0 and "note: query+key+value are packed" in told.err
    assert "pre-ln under adamw, 4 layers of the encoder, over a base of width 16 and depth 2" in (
        told.out
    )
    if trainer == "optax":
        groups = json.loads(told.out)["groups"]
        assert {row["lr"] for row in groups} > {0.001} and groups[0]["betas"] == [0.9, 0.9]
    else:
        compile(told.out, "rule.py", "exec")
    assert cli(*words, "-o", "rule.txt", "--quiet").out == ""  # the same model is drawn each time
    assert Path("rule.txt").read_text(encoding="utf-8") == told.out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("{} --for olmo-core", 4, "the shell pattern *.*weight for #.weight matches 1.layers.0."),
        ("{}", 2, "a MODEL needs --for; valid are: automodel, fairseq2, megatron"),
        ("{} --for torchtitn", 2, "unknown trainer 'torchtitn'"),
        ("{} --for torch --placement pre-ln", 2, "placement was given with a MODEL, which is read"),
        ("{} --for torch --depth 4,2", 2, "depth '4,2' is not a whole number"),
        ("{} --for torch --betas 0.9", 2, "betas '0.9' are not two numbers"),
        ("{} --for torch --optimizers muon", 2, "names no role; give hidden=muon,*=adamw"),
        ("{} --for torch --lr big", 2, "lr 'big' is not a number, such as 0.001, nor one of each"),
        ("{} --for megatron --optimizers hidden=lion,*=adamw", 4, "by name pattern, and not lion"),
        ("mine.py:odd --for torch", 2, "no sum of the form"),
        ("--for torch --optimizer adam --depth 4", 2, "for was given without a MODEL"),
    ],
)
def test_what_is_wrong_is_one_sentence(cli, model, words, code, says):
    told = cli("export", *words.format(model).split())
    assert (told.code, told.out, told.err.count("\n")) == (code, "", 1), told
    assert says in told.err
