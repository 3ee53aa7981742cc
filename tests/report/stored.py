"""Results as plain values, for the printers: nothing here was measured, so nothing can drift."""

from dataclasses import replace

from deepnet_theory.definitions import measurement
from deepnet_theory.definitions.constants import Constants, PartConstants, SublayerConstants
from deepnet_theory.definitions.measurement import (
    AssumptionResult,
    ClosureTransfer,
    Curve,
    Estimate,
    Exponent,
    Provenance,
    Result,
    Run,
)
from deepnet_theory.definitions.outcome import Verdict

NAN = float("nan")
SELECT = {"optimizer": "lamb", "placement": "post-ln", "stack": "encoder"}
SLOPE = Exponent(
    "N", "all", 0.01, -0.01, 0.03, 0.0, Verdict.SUPPORTED, "[-0.010, +0.030] inside <0.05>", 8,
    (("adam", -0.5), ("sgd", -0.25), ("same", 0.0)),
)  # fmt: skip


def points(*sizes, **more):
    return tuple(
        Estimate({"N": n}, 10.0 + i, 9.0 + i, 11.0 + i, values=(10.0,) * 4, **more)
        for i, n in enumerate(sizes)
    )


def share(part, name, *numbers, predicted=None):
    return Estimate({"part": part, "name": name}, *numbers, predicted)


VERIFICATION = Result(
    measurement.VERIFICATION,
    of={"select": SELECT, "rule": {"name": "lamb"},
        "rows": {"published": "alpha = 1, beta = (2*N)**(-1/2)"}},
    settings={"data": "text", "width": 64, "tokens": 32, "step": "all", "seeds": 4},
    points=points(4, 8, 16, 32, predicted=(9.75, 9.5, 10.25)),
    exponents=(SLOPE,),
    shares=(share("encoder", "ffn fc1", 157.0, 153.9, 160.1, predicted=(93.0, 92.0, 94.0)),),
    verdict=Verdict.SUPPORTED,
    provenance=Provenance("cpu", 1.5, {"torch": "2.13"}, ("a planted warning",)),
    assumptions=(AssumptionResult("near-identity", Verdict.REFUTED, 1.0, 0.9, 1.1, "S r²",
                                  "1.0 [0.9, 1.1] is not small"),),
)  # fmt: skip
RIVAL = replace(
    VERIFICATION, of={"select": SELECT, "rule": {"name": "sgd"}}, provenance=Provenance(),
    settings={"seeds": 2, "draws": 1},
    points=tuple(replace(p, mean=20 * p.at["N"] ** 0.5, low=1.0, high=90.0, predicted=None)
                 for p in VERIFICATION.points),
    exponents=(replace(SLOPE, estimate=0.5, low=0.4, high=0.6, predicted=0.5, rivals=()),),
)  # fmt: skip
PLAIN = replace(
    RIVAL, of={"select": SELECT, "rule": {"name": "plain"}},
    provenance=Provenance(warnings=("S*r^2 grows",)),
    exponents=(replace(SLOPE, estimate=1.5, predicted=None, rivals=()),),
)  # fmt: skip
MODEL = Result(
    measurement.MODEL,
    of={"model": "gpt.py:make", "optimizer": "adamw"},
    settings={"seeds": 2, "updates": 2, "eta": None}, points=points(6, 12),
    exponents=(
        replace(SLOPE, predicted=None, constant=True, rivals=(), fitted_from=None),
        replace(SLOPE, share="*.mlp.*", estimate=0.4, low=0.3, high=0.5, predicted=None,
                verdict=Verdict.REFUTED, because="above 0.05", rivals=(), fitted_from=None),
    ),
    shares=tuple(Estimate({"name": f"h.*.{n}"}, 3.0, 2.0, 4.0) for n in range(14)),
    verdict=Verdict.SUPPORTED,
    provenance=Provenance("cpu", 2.0, {}, ("dropout was switched off",)),
    runs=(Run("adamw", {"N": 6}, (5.5, 5.25), common_mode_steps=(0, 1), common_mode=(0.5, 0.75),
              token_cosine=(0.25, 0.5)),),
)  # fmt: skip
PREDICTION = Result(
    measurement.PREDICTION,
    of={"select": SELECT, "rule": {}},
    settings={"data": "text", "width": 64, "seeds": 2},
    points=tuple(Estimate({"N": n}, 10.0, 9.0, 11.0, values=(10.0,) * 2) for n in (8, 1000)),
    shares=(share("encoder", "ffn fc1", 5.0, 4.5, 5.5), share("decoder", "ffn fc1", 6.0, 5.5, 6.5)),
    provenance=Provenance(warnings=("a fixed epsilon is felt from 100 layers on",)),
)  # fmt: skip


def _curve(n, best, finding=""):
    losses, ends = (3.0, 2.5, 2.75), (best / 2, best * 2)
    return Curve(
        {"N": n}, (1e-3, 1e-2, 1e-1), losses, ((3.0,), (2.5,), (NAN,)), best, *ends, 2.25, (best,),
        0.1, finding=finding, common_mode=(0.5, 1.0, 2.0),
    )  # fmt: skip


TRANSFER = Result(
    measurement.TRANSFER,
    of={"select": SELECT},
    settings={"steps": 100, "batch": 4, "tokens": 32, "width": 64, "seeds": 2},
    closures=(
        ClosureTransfer(
            "complete", "1", (_curve(8, 8e-3), _curve(32, 9e-3)),
            (replace(SLOPE, share="best rate"),), Estimate({"rate": 8e-3}, 0.01, -0.02, 0.04),
            Verdict.SUPPORTED,
        ),
        ClosureTransfer(
            "symmetric", "N**(1/2)",
            (_curve(8, 2e-3), _curve(32, NAN, "the best rate lies below the grid")),
            (replace(SLOPE, estimate=NAN, low=NAN, high=NAN, because="one best rate is missing",
                     verdict=Verdict.UNDECIDED),),
            None, Verdict.UNDECIDED,
        ),
    ),
    verdict=Verdict.SUPPORTED, baseline=4.25,
    provenance=Provenance("cpu", 60.0, {}, ("few steps",)),
)  # fmt: skip
RUN = Run("adam, the constants' rule", {"N": 50}, (5.5, 3.25), (3.125,), common_mode=(0.5, 1.25))
TRAINING = Result(
    measurement.TRAINING,
    of={"select": SELECT, "rows": {"recommended": "alpha = 1"}, "row": "recommended"},
    settings={"steps": 2, "lr": 1e-3},
    runs=(RUN, Run("adam, plain post-LN", {"N": 50}, finding="NaN at step 1")),
    verdict=Verdict.SUPPORTED,
    provenance=Provenance("cpu", 1.0),
    baseline=3.5,
    because="0.375 nats lower than unigram",
)
CONSTANTS = Constants(
    "encoder", "post-ln", "layer",
    (PartConstants("encoder", 50, False, (SublayerConstants("ffn", 1.0, 0.125),),
                   {"norm-gain": 0.5}),),
)  # fmt: skip
RESULTS = {
    "verification": VERIFICATION, "model": MODEL, "prediction": PREDICTION,
    "transfer": TRANSFER, "training": TRAINING,
}  # fmt: skip
