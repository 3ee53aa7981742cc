"""Tests of what a terminal shows of a training run."""

from dataclasses import replace

from deepnet_theory.report.text import text
from deepnet_theory.report.training import document
from deepnet_theory.spec.results.training import Run, Training
from deepnet_theory.spec.verdict import Verdict

OWN = Run("adam", "post-ln", (5.5, 3.25), held_out=3.125)
TRAINING = Training((OWN, Run("plain", "post-ln", ())), 3.5, Verdict.SUPPORTED, "below", {}, 1.0)


def test_a_language_models_losses_stand_beside_the_entropy():
    shown = text(document(TRAINING))
    assert "5.500" in shown and "3.250" in shown and "3.125" in shown
    assert "unigram entropy 3.500" in shown
    assert "source" not in shown
    plain = next(line for line in shown.splitlines() if "plain" in line)
    assert plain.split() == ["plain", "0", "-", "-", "-", "-"]


def test_a_translators_loss_with_anothers_source_is_a_column_of_its_own():
    runs = (replace(OWN, shuffled=3.75, reads_source=True), *TRAINING.runs[1:])
    shown = text(document(replace(TRAINING, runs=runs)))
    assert "another's source" in shown
    assert "3.750" in shown
