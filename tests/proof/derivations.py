"""The derivations that the tests of laws share, each made once by whoever asks first."""

from functools import cache
from itertools import product

from deepnet_theory.definitions.selection import Selection
from deepnet_theory.proof.derivation import derive

BOTH = {"stack": "encoder-decoder"}
SWIGLU = {"layer": "attention,ffn:swiglu"}
# one of each: every route, placement, library optimizer, closure, stack, and updates
# that no source treats
SELECTIONS = {
    **{
        f"{optimizer} {placement}": {"optimizer": optimizer, "placement": placement}
        for optimizer, placement in product(("sgd", "adam", "lamb"), ("post-ln", "pre-ln"))
    },
    "adam res-post-ln": {"optimizer": "adam", "placement": "res-post-ln"},
    "lamb sandwich-ln": {"optimizer": "lamb", "placement": "sandwich-ln"},
    "muon swiglu": {"optimizer": "muon", "placement": "sandwich-ln", **SWIGLU},
    "adafactor": {"optimizer": "adafactor", "norm": "rms", **SWIGLU},
    "lion decoder": {"optimizer": "lion", "stack": "decoder"},
    "sgd both": {"optimizer": "sgd", **BOTH},
    "adam both": {"optimizer": "adam", **BOTH, "layer": "attention,cross,ffn:swiglu"},
    "lamb both": {"optimizer": "lamb", **BOTH},
    **{
        f"{optimizer} recommended {placement}": {
            "optimizer": optimizer, "placement": placement, "closure": None,
        }
        for optimizer, placement in (("adam", "post-ln"), ("adamw", "pre-ln"))
    },
    "sgd both recommended": {"optimizer": "sgd", **BOTH, "closure": None},
    "complete post-ln": {"optimizer": "adam", "closure": "complete", **SWIGLU},
    "complete res-post-ln": {
        "optimizer": "sgd", "placement": "res-post-ln", "closure": "complete",
        "layer": "attention,ffn@2/8",
    },
    "learning-rate": {"optimizer": "adam", "closure": "learning-rate"},
    "unit-init": {"optimizer": "momentum", "closure": "unit-init"},
    "unit-residual": {"optimizer": "sgd", "closure": "unit-residual"},
    "parameter-norm": {"optimizer": "adam", "closure": "parameter-norm"},
    "square root": {"update": "-eta*sqrt(abs(g))*sign(g)"},
    "falling": {"update": "-eta*g/norm(g)**(3/2)", "placement": "pre-ln"},
    "one sign": {"update": "-eta*g*min(theta, 0)*sign(theta)/norm(theta)"},
    "parallel post-ln": {"optimizer": "sgd", "layer": "attention+ffn,ffn:swiglu"},
    "parallel pre-ln": {"optimizer": "adam", "placement": "pre-ln", "layer": "attention+ffn"},
    "parallel both": {
        "optimizer": "adam", "closure": "complete", **BOTH, "layer": "attention+cross+ffn",
    },
    "experts sgd": {"optimizer": "sgd", "layer": "attention,ffn-swiglu@2/8"},
    "experts adam": {
        "optimizer": "adam", "placement": "res-post-ln", "layer": "attention,ffn@2/8+ffn",
    },
    "norms inside": {
        "optimizer": "adamw", "placement": "pre-ln",
        "layer": "attention-sub-ln,ffn-swiglu-sub-ln,attention-qk-norm",
    },
    "norms inside post-ln": {"optimizer": "sgd", "layer": "attention-sub-ln,ffn-sub-ln"},
    "floors of kinds": {
        "optimizer": "adafactor", "placement": "branch-multiplier",
        "layer": "attention,ffn-sub-ln,attention-qk-norm",
    },
    "squared": {"optimizer": "lamb", "placement": "pre-ln", "layer": "attention,ffn:relu2"},
    "latent": {"optimizer": "lion", "layer": "attention-latent"},
    "lemma": {"optimizer": "sgd", "method": "lemma"},
    "lemma pre-ln": {"optimizer": "adam", "placement": "pre-ln", "method": "lemma", **SWIGLU},
    **{
        f"lemma {optimizer}, unlike powers": {
            "optimizer": optimizer, "method": "lemma", "layer": layer,
        }
        for optimizer, layer in (
            ("lamb", "attention-gated,ffn:swiglu"), ("muon-h", "attention-latent"),
        )
    },
    "lemma both": {"optimizer": "sgd", "method": "lemma", **BOTH},
}  # fmt: skip
# those whose steps are planted with errors: every route, and what each placement changes of it
PLANTED = (
    "sgd post-ln", "sgd pre-ln", "adam post-ln", "adam pre-ln", "lamb post-ln", "lamb pre-ln",
    "sgd both", "adam both", "lamb both", "adam res-post-ln", "lamb sandwich-ln", "muon swiglu",
    "unit-residual", "falling", "lemma", "lemma pre-ln", "lemma both",
    "parallel post-ln", "parallel pre-ln", "experts sgd", "sgd both recommended",
    "adamw recommended pre-ln", "norms inside",
)  # fmt: skip


def selection(name):
    """One of :data:`SELECTIONS`: the source's rule where no closure is named."""
    return Selection(**{"closure": "published", **SELECTIONS[name]})


@cache
def derivation(name):
    """The derivation of one of :data:`SELECTIONS`."""
    return derive(selection(name))
