"""What a claim records: its source's public title, its verdicts, and what counts as equal."""

from deepnet_theory.definitions.outcome import Verdict

SU = "Su Jianlin, 'What is difficult about training a 1000-layer Transformer?' (2022-03-09)"
RETOLD = "bookstall, 'DeepNet: training a 1000-layer Transformer' (2023-04-29), a retelling of Su"
CAKE = "Transformer layer cake (AI推公式)"
NOTE = "Pre/Post norm note"
DEEPNET = "DeepNet, arXiv 2203.00555"
TPV = "Yang et al., 'Tensor Programs V', arXiv 2203.03466"

PROVED, SUPPORTED, ASSUMED = Verdict.PROVED, Verdict.SUPPORTED, Verdict.ASSUMED
UNDECIDED, REFUTED = Verdict.UNDECIDED, Verdict.REFUTED

# An equality or a ratio within 5 %, a difference of logarithms within 0.05, is the equivalence
# margin of every claim that does not state one of its own: the laboratory's for exponents.
MARGIN = 0.05
