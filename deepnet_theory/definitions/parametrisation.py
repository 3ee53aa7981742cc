"""A published parametrisation in width: what it sets by class of parameter, not what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from deepnet_theory.definitions.discovery import choose, declared
from deepnet_theory.definitions.expression import DEPTH, Grammar
from deepnet_theory.definitions.optimizer import optimizer
from deepnet_theory.definitions.outcome import InputError, unknown
from deepnet_theory.definitions.selection import ALIGNMENTS

SIZES = Grammar(
    purpose="a size in the width and the depth", symbols=("d", "N"), functions=DEPTH.functions
)
# what a class has where a source does not name it: that of the class beside it
OTHERWISE = {"residual-output": "hidden", "final-gain": "gain"}
CLASSES = ("embedding", "hidden", "residual-output", "head", "gain", "final-gain", "bias")
EVERY = ("embedding", "hidden", "head", "gain", "bias", "final-gain")  # that a rate is named for
DECAYS = ("decoupled", "independent", "coupled")
FULL, _ = ALIGNMENTS
ANY = "any"  # of a column that stands for every optimizer

Texts = Mapping[str, str]  # by class of parameter, in d and N; a class not named is not said


@dataclass(frozen=True)
class Column:
    """What is set for one optimizer, or for all that step alike, at one alignment.

    ``optimizer`` is a built-in one's name or ``"any"``. ``rate``, ``epsilon`` and ``decay`` are
    multipliers of the learning rate, of ε and of the weight decay. ``decays`` says how that is
    applied: ``decoupled`` is multiplied by the learning rate, ``independent`` is not, ``coupled``
    is added to the gradient.
    """

    optimizer: str
    rate: Texts
    epsilon: Texts = field(default_factory=dict)
    decay: Texts = field(default_factory=dict)
    decays: str = ""
    alignment: str = FULL

    def __post_init__(self) -> None:
        if self.optimizer != ANY:
            optimizer(self.optimizer)
        if self.alignment not in ALIGNMENTS:
            raise unknown("alignment", self.alignment, ALIGNMENTS)
        if bool(self.decay) != bool(self.decays):
            raise InputError("a weight decay and how it is applied are given together")
        if self.decays and self.decays not in DECAYS:
            raise unknown("decays", self.decays, DECAYS)


@dataclass(frozen=True)
class Parametrisation:
    """A parametrisation as published: σ, c and the rates of each class of parameters.

    ``init`` is the standard deviation, 0 for what starts at zero, ``multiplier`` what multiplies
    the map in the forward pass, 1 where it is not named; ``branch`` multiplies a branch.
    Gains start at 1 and biases at 0. ``scores`` is the attention's factor in the head size k. The
    first column is its own optimizer's; of a ``hybrid`` each column steps the classes that it
    names.
    """

    name: str
    init: Texts
    columns: tuple[Column, ...]
    summary: str
    source: str
    multiplier: Texts = field(default_factory=dict)
    branch: str = "1"
    scores: str = ""
    tied: bool = False
    hybrid: bool = False
    mind: str = ""

    def __post_init__(self) -> None:
        SIZES.parse(self.branch)
        several = [self.init, self.multiplier]
        several += [texts for c in self.columns for texts in (c.rate, c.epsilon, c.decay)]
        for texts in several:
            for of, text in texts.items():
                SIZES.parse(text)
                if of not in CLASSES:
                    raise unknown("class of parameters", of, CLASSES)


def said(texts: Texts, of: str) -> str | None:
    """What is set for a class, or for the one that it otherwise belongs to; None if nothing is."""
    return texts.get(of, texts.get(OTHERWISE.get(of, "")))


@cache
def parametrisations() -> dict[str, Parametrisation]:
    return declared(globals(), Parametrisation)


def parametrisation(name: str) -> Parametrisation:
    return choose("parametrisation", name, parametrisations())


COMPLETE_D_P = Parametrisation(
    name="complete-d-p",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1/d"},
    branch="1/N",
    columns=(
        Column(
            "adamw",
            dict.fromkeys(EVERY, "1") | {"hidden": "1/d", "head": "1/d"},
            epsilon=dict.fromkeys(EVERY, "1/(d*N)")
            | {"embedding": "1/d", "head": "1", "final-gain": "1"},
            decay={"embedding": "1", "hidden": "d", "head": "d"},
            decays="decoupled",
        ),
    ),
    summary="CompleteP without a multiplier on the head, epsilon of the embedding scaled too",
    source="Mlodozeniec et al., arXiv 2512.22382, Table 1, at alpha = 1",
    mind="multipliers of batch size and duration are left out",
)

COMPLETEP = Parametrisation(
    name="completep",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    branch="1/N",
    columns=(
        Column(
            "adamw",
            dict.fromkeys(EVERY, "1") | {"hidden": "1/d"},
            epsilon=dict.fromkeys(EVERY, "1")
            | dict.fromkeys(("hidden", "gain", "bias"), "1/(d*N)"),
            decay={"hidden": "d"},
            decays="decoupled",
        ),
    ),
    summary="maximal update in width and depth, epsilon scaled in the residual blocks",
    source="Dey et al., arXiv 2505.01618, Table 1, at alpha = 1",
    mind="epsilon is stated for the residual blocks: it stays as it is elsewhere",
)

COMPLETEP_CODE = Parametrisation(
    name="completep-code",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    branch="1/N",
    columns=(
        Column(
            "adamw",
            dict.fromkeys(EVERY, "1") | {"hidden": "1/d"},
            epsilon=dict.fromkeys(EVERY, "1/(d*N)"),
            decay={"embedding": "1", "hidden": "d", "head": "1"},
            decays="decoupled",
        ),
    ),
    summary="CompleteP's code: one epsilon for all parameters, embedding and head tied",
    scores="1/k",
    tied=True,
    source="EleutherAI/nanoGPT-mup, branch completep, model.py, at depth_alpha_exp = 1",
)

EVERETT_MEAN_FIELD = Parametrisation(
    name="everett-mean-field",
    init={"embedding": "1", "hidden": "1", "head": "1"},
    multiplier={"hidden": "d**(-1/2)", "head": "1/d"},
    columns=(
        Column("adam", {"embedding": "1", "hidden": "d**(-1/2)", "head": "1"}),
        Column("sgd", {"embedding": "d", "hidden": "d", "head": "d"}),
        Column("adam", {"embedding": "1", "hidden": "1", "head": "d**(-1/2)"}, alignment="none"),
        Column("sgd", {"embedding": "d", "hidden": "d**(3/2)", "head": "d"}, alignment="none"),
    ),
    summary="mean field with a rate for every layer",
    source="Everett et al., arXiv 2407.05872, Table 1; rates as m-wojnar/maxP, utils.py, has them",
)

EVERETT_MUP = Parametrisation(
    name="everett-mup",
    init={"embedding": "d**(-1/2)", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    multiplier={"embedding": "sqrt(d)", "head": "d**(-1/2)"},
    columns=(
        Column("adam", {"embedding": "d**(-1/2)", "hidden": "1/d", "head": "d**(-1/2)"}),
        Column("sgd", {"embedding": "1", "hidden": "1", "head": "1"}),
        Column(
            "adam", {"embedding": "d**(-1/2)", "hidden": "d**(-1/2)", "head": "1"}, alignment="none"
        ),
        Column("sgd", {"embedding": "1", "hidden": "sqrt(d)", "head": "1"}, alignment="none"),
    ),
    summary="maximal update with a rate for every layer",
    source="Everett et al., arXiv 2407.05872, Table 1; rates as m-wojnar/maxP, utils.py, has them",
)

EVERETT_NTK = Parametrisation(
    name="everett-ntk",
    init={"embedding": "1", "hidden": "1", "head": "1"},
    multiplier={"hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    columns=(
        Column("adam", {"embedding": "1", "hidden": "d**(-1/2)", "head": "d**(-1/2)"}),
        Column("sgd", {"embedding": "sqrt(d)", "hidden": "sqrt(d)", "head": "1"}),
        Column("adam", {"embedding": "1", "hidden": "1", "head": "1"}, alignment="none"),
        Column("sgd", {"embedding": "sqrt(d)", "hidden": "d", "head": "sqrt(d)"}, alignment="none"),
    ),
    summary="the neural tangent parametrisation with a rate for every layer",
    source="Everett et al., arXiv 2407.05872, Table 1; rates as m-wojnar/maxP, utils.py, has them",
)

EVERETT_STANDARD = Parametrisation(
    name="everett-standard",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    columns=(
        Column("adam", {"embedding": "1", "hidden": "1/d", "head": "1/d"}),
        Column("sgd", {"embedding": "sqrt(d)", "hidden": "d**(-1/2)", "head": "1/d"}),
        Column(
            "adam", {"embedding": "1", "hidden": "d**(-1/2)", "head": "d**(-1/2)"}, alignment="none"
        ),
        Column(
            "sgd", {"embedding": "sqrt(d)", "hidden": "1", "head": "d**(-1/2)"}, alignment="none"
        ),
        Column("adafactor", {"embedding": "1", "hidden": "1", "head": "1"}, alignment="none"),
    ),
    summary="the standard parametrisation with a rate for every layer",
    source="Everett et al., arXiv 2407.05872, Table 1; rates as m-wojnar/maxP, utils.py, has them",
)

EXTENDING_MUP = Parametrisation(
    name="extending-mup",
    init={"hidden": "d**(-1/2)"},
    columns=(
        Column("adamw", {"hidden": "1/d"}),
        Column("lamb", {"hidden": "1"}),
        Column("muon", {"hidden": "1"}),
        Column("shampoo", {"hidden": "1"}),
    ),
    summary="the spectral condition for AdamW, LAMB, Muon and Shampoo",
    source="Gupta et al., arXiv 2602.20937",
    mind="hidden matrices alone; its table is read at second hand",
)

GPT_2 = Parametrisation(
    name="gpt-2",
    init={
        "embedding": "0.02",
        "hidden": "0.02",
        "residual-output": "0.02/sqrt(2*N)",
        "head": "0.02",
    },
    columns=(
        Column("adam", {"embedding": "1", "hidden": "1", "head": "1", "gain": "1", "bias": "1"}),
    ),
    summary="one standard deviation at every width, residual projections smaller by sqrt(2N)",
    scores="1/sqrt(k)",
    tied=True,
    source="Radford et al. 2019, §2.3; released code: std 0.02",
)

HYPERP = Parametrisation(
    name="hyperp",
    init={"embedding": "1", "hidden": "d**(-1/2)"},
    branch="(2*N)**(-1/2)",
    columns=(
        Column("muon-h", {"hidden": "N**(-1/2)"}),
        Column("adamw", {"embedding": "N**(-1/2)", "gain": "N**(-1/2)"}),
    ),
    summary="MuonH on hidden matrices, AdamW on embedding and gains, one rate at every width",
    source="arXiv 2603.28743; microsoft/ArchScale, pretrain.py, lit_gpt/optim/muon.py",
    hybrid=True,
    mind="there width goes with depth, so that its one factor, in the depth, is of both",
)

MEGATRON_DEPTH_MUP = Parametrisation(
    name="megatron-depth-mup",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    branch="1/N",
    columns=(
        Column(
            "adamw",
            {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
            epsilon=dict.fromkeys(EVERY, "1/(d*N)") | {"embedding": "1/d", "head": "1/d"},
            decay={"embedding": "1", "hidden": "d", "head": "1"},
            decays="decoupled",
        ),
    ),
    summary="maximal update in width and depth, epsilon by class",
    scores="1/k",
    source="NVIDIA/Megatron-LM, pull request 4999, scaling-recipes.md, parameterization/roles.py",
    mind="not merged; output projections are drawn without the library's 1/sqrt(2N)",
)

MEGATRON_MUP = Parametrisation(
    name="megatron-mup",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    columns=(
        Column(
            "adam",
            {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
            epsilon={"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
        ),
        Column("sgd", {"embedding": "d", "hidden": "1", "head": "d", "gain": "d", "bias": "d"}),
        Column(ANY, {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"}),
    ),
    summary="maximal update; every optimizer but SGD takes Adam's rates",
    scores="1/k",
    source="NVIDIA/Megatron-LM, core/optimizer/__init__.py, get_mup_config_overrides",
    mind="matrices that Muon steps are left out of it",
)

MUP = Parametrisation(
    name="mup",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    columns=(
        Column("adam", {"embedding": "1", "hidden": "1/d", "head": "1", "bias": "1"}),
        Column("sgd", {"embedding": "d", "hidden": "1", "head": "d", "bias": "d"}),
    ),
    summary="maximal update, a multiplier on the head",
    scores="1/k",
    source="Yang et al., arXiv 2203.03466, Table 8",
)

MUP_PACKAGE = Parametrisation(
    name="mup-package",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    columns=(
        Column(
            "adamw",
            {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
            decay={"embedding": "1", "hidden": "d", "head": "1"},
            decays="decoupled",
        ),
        Column(
            "adam",
            {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
            decay={"embedding": "1", "hidden": "d", "head": "1"},
            decays="coupled",
        ),
        Column(
            "sgd",
            {"embedding": "d", "hidden": "1", "head": "d", "gain": "d", "bias": "d"},
            decay={"embedding": "1/d", "hidden": "1", "head": "1/d"},
            decays="coupled",
        ),
    ),
    summary="maximal update as the package mup sets it, epsilon as it is",
    scores="1/k",
    source="microsoft/mup, mup/optim.py, mup/layer.py; decoupled_wd=False",
    mind="SGD's matrices take fan_out/fan_in, which does not grow with the width",
)

MUP_TABLE_3 = Parametrisation(
    name="mup-table-3",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1/d"},
    columns=(
        Column("adam", {"embedding": "1", "hidden": "1/d", "head": "1/d", "bias": "1"}),
        Column("sgd", {"embedding": "d", "hidden": "1", "head": "1/d", "bias": "d"}),
    ),
    summary="maximal update, the head drawn small",
    scores="1/k",
    source="Yang et al., arXiv 2203.03466, Table 3",
)

MUP_TABLE_9 = Parametrisation(
    name="mup-table-9",
    init={"embedding": "d**(-1/2)", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    multiplier={"embedding": "sqrt(d)", "head": "d**(-1/2)", "bias": "sqrt(d)"},
    columns=(
        Column(
            "adam",
            {"embedding": "d**(-1/2)", "hidden": "1/d", "head": "d**(-1/2)", "bias": "d**(-1/2)"},
        ),
        Column("sgd", {"embedding": "1", "hidden": "1", "head": "1", "bias": "1"}),
    ),
    summary="maximal update, multipliers on embedding and head, one rate of SGD",
    scores="1/k",
    source="Yang et al., arXiv 2203.03466, Table 9",
)

NANOCHAT = Parametrisation(
    name="nanochat",
    init={"embedding": "0.8", "hidden": "d**(-1/2)", "residual-output": "0", "head": "0.001"},
    columns=(
        Column("muon", {"hidden": "1"}, decay={"hidden": "1"}, decays="decoupled"),
        Column(
            "adamw",
            {"embedding": "d**(-1/2)", "head": "d**(-1/2)"},
            epsilon={"embedding": "1", "head": "1"},
            decay={"embedding": "1", "head": "1"},
            decays="decoupled",
        ),
    ),
    summary="Muon on matrices, AdamW at 1/sqrt(d) on embedding and head",
    hybrid=True,
    source="karpathy/nanochat, nanochat/gpt.py, nanochat/optim.py",
    mind="queries and keys are normalised, logits capped, norms have no gains",
)

NANOGPT_MUP = Parametrisation(
    name="nanogpt-mup",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1"},
    multiplier={"head": "1/d"},
    columns=(
        Column(
            "adamw",
            {"embedding": "1", "hidden": "1/d", "head": "1", "gain": "1", "bias": "1"},
            epsilon={"embedding": "1", "hidden": "1", "head": "1", "gain": "1", "bias": "1"},
            decay={"embedding": "1", "hidden": "1", "head": "1"},
            decays="decoupled",
        ),
    ),
    summary="maximal update, embedding and head tied, epsilon and weight decay as they are",
    scores="1/k",
    tied=True,
    source="EleutherAI/nanoGPT-mup, branch master, model.py",
)

NTP = Parametrisation(
    name="ntp",
    init={"embedding": "1", "hidden": "1", "head": "1"},
    multiplier={"hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    columns=(Column(ANY, {"embedding": "1", "hidden": "1", "head": "1"}),),
    summary="neural tangent: entries of size 1, the fan-in's root in the forward pass, one rate",
    source="Jacot, Gabriel and Hongler, arXiv 1806.07572",
)

NUGPT = Parametrisation(
    name="nugpt",
    init={"embedding": "d**(-1/2)", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    multiplier={"embedding": "d**(1/2)"},
    branch="1/N",
    columns=(
        Column(
            "adam",
            {
                "embedding": "d**(-1/2)",
                "hidden": "d**(-3/4)",
                "head": "d**(-3/4)",
                "gain": "1",
            },
        ),
    ),
    summary="a normalised Transformer, at an alignment midway between full and none",
    source="Shigida, Hanin & Gromov, arXiv 2604.27077, Table 1",
    mind=(
        "norms of 1 there are entries of d**(-1/2), and the head's gain grows as d**(1/2); "
        "matrices are put back to their norms after every step; the rate falls with the tokens "
        "to the 1/3"
    ),
)

SP = Parametrisation(
    name="sp",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "d**(-1/2)"},
    columns=(
        Column(ANY, {"embedding": "1", "hidden": "1", "head": "1", "gain": "1", "bias": "1"}),
    ),
    summary="standard: every matrix drawn by its fan-in, one learning rate",
    scores="1/sqrt(k)",
    source="practice; Yang et al., arXiv 2203.03466, Table 3, in grey",
)

SPECTRAL_CONDITION = Parametrisation(
    name="spectral-condition",
    init={"embedding": "1", "hidden": "d**(-1/2)", "head": "1/d"},
    columns=(Column("sgd", {"embedding": "d", "hidden": "1", "head": "1/d"}),),
    summary="weights and updates of a spectral norm of sqrt(fan_out/fan_in)",
    source="Yang, Simon and Bernstein, arXiv 2310.17813, Parametrization 1",
)

U_MUP = Parametrisation(
    name="u-mup",
    init={"embedding": "1", "hidden": "1", "head": "1"},
    multiplier={"hidden": "d**(-1/2)", "head": "1/d"},
    branch="N**(-1/2)",
    columns=(
        Column(
            "adamw",
            {
                "embedding": "d**(-1/2)",
                "hidden": "(d*N)**(-1/2)",
                "head": "1",
                "gain": "N**(-1/2)",
                "bias": "N**(-1/2)",
            },
            decay={"embedding": "1", "hidden": "1", "head": "1"},
            decays="independent",
        ),
    ),
    summary="unit-scaled maximal update: entries of size 1, the embedding stepped less",
    source="Blake et al., arXiv 2407.17465; graphcore-research/unit-scaling, optim.py",
    mind="the code takes an embedding's width for its fan-in",
)
