"""Bad input: one clear sentence and the right exit code, never a traceback."""

import os
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnet_theory.cli import main
from deepnet_theory.proof.derivation import Derivation

BAD = {  # what is typed, and what its one sentence says
    "deriv": ("No such command 'deriv'; valid are: audit, cache", "; did you mean 'derive'?"),
    "train mine.py": "JSON",
    "verify --optimizer sgd --device cuda --depths 4,8": "'cuda' is not available here",
    "audit mine.py:plain --scheme gpt-2 --constants c.json": "constants was given with",
    # a plain factory is trained by an optimizer that is named, and varied in what it takes
    "transfer mine.py:plain --optimizer sgd --depths 4 --rates 1e-3:1e-1 --processes 1": (
        "plain takes no depth"
    ),
    "predict mine.py:plain --optimizer adam": "unexpected extra argument (mine.py:plain)",
    "audit mine.py": "is not of the form FILE.py:FACTORY",
    "audit torch.nn:Identity": "has no parameters",
    "export mine.py:make": "a MODEL needs --for; valid are: automodel, fairseq2, megatron",
    "export mine.py:make --for torchtitn": "unknown trainer 'torchtitn'",
    "export mine.py:make --for torch --placement pre-ln": "placement was given with a MODEL, which",
    "export mine.py:make --for torch --depth 4,2": "depth '4,2' is not a whole number",
    "export mine.py:make --for torch --betas 0.9": "betas '0.9' are not two numbers",
    "export mine.py:make --for torch --optimizers muon": "names no role; give hidden=muon,*=adamw",
    "export mine.py:make --for torch --lr big": "lr 'big' is not a number, such as 0.001, nor one",
    "export mine.py:odd --for torch": "no sum of the form",
}
REFUSED = {
    "export mine.py:make --for olmo-core": "the shell pattern *.*weight for #.weight matches 1.",
    "export mine.py:make --for megatron --optimizers hidden=lion,*=adamw": (
        "by name pattern, and not lion"
    ),
}


@pytest.mark.parametrize("typed", [*BAD, *REFUSED])
@pytest.mark.usefixtures("model")
def test_bad_input(cli, typed, tmp_path):
    outcome = cli(*shlex.split(typed))
    assert outcome.code == (4 if typed in REFUSED else 2), outcome
    assert outcome.out == ""
    told = (BAD | REFUSED)[typed]
    assert all(words in outcome.err for words in ((told,) if isinstance(told, str) else told))
    assert outcome.err.startswith("deepnet-theory: ") and outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err
    assert {p.name for p in tmp_path.iterdir()} <= {"mine.py", "__pycache__"}


@pytest.mark.parametrize("words", ["export --optimizer sgd --depth 8", "report --optimizer sgd"])
def test_output_is_refused_before_the_work(cli, tmp_path, monkeypatch, words):
    for output in (str(tmp_path / "missing" / "x.json"), str(tmp_path), ""):
        outcome = cli(*words.split(), "-o", output)
        assert outcome.code == 2 and f"cannot write {output!r}" in outcome.err
    monkeypatch.setattr(os, "access", lambda *_: False)
    outcome = cli(*words.split(), "-o", str(tmp_path / "c.json"))
    assert outcome.code == 2 and "no permission" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_crash_does_not_look_like_a_verdict(cli, monkeypatch):
    def crash(*_, **__):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("deepnet_theory.cli.deriving.derive", crash)
    outcome = cli("derive", "--optimizer", "sgd")
    assert outcome.code == 70
    assert "planted" in outcome.err and "Traceback" not in outcome.err
    with pytest.raises(ZeroDivisionError):
        cli("derive", "--optimizer", "sgd", "-v")


@settings(max_examples=5)
@given(st.lists(st.text(max_size=12), max_size=4))
def test_no_words_give_a_traceback(words):
    assert main(["derive", *words]) in (0, 2, 4)


@pytest.mark.timeout(60)
@pytest.mark.skipif(os.name == "nt", reason="there are no named pipes")
@pytest.mark.parametrize("command", [("audit",), ("measure", "--depths", "1,2")])
def test_a_model_file_that_cannot_be_read_is_one_sentence(cli, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "loop.py").symlink_to("loop.py")
    os.mkfifo("pipe.py")
    for name in ("folder", "loop", "pipe", "none", "x" * 300, "a\0b"):
        outcome = cli(*command, f"{name}.py:make")
        assert outcome.code == 2 and outcome.out == "", outcome
        assert name[:9] in outcome.err.replace("\\x00", "\0") and outcome.err.count("\n") == 1


def test_a_derivation_that_is_refuted_ends_in_1(cli, monkeypatch, afresh):
    assert cli("derive", "--optimizer", "sgd").code == 0
    afresh()
    monkeypatch.setattr(Derivation, "in_depth", "Stable in depth: every order is of order one.")
    refuted = cli("derive", "--optimizer", "sgd")
    assert (refuted.code, "REFUTED" in refuted.out) == (1, True)
