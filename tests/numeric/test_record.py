import json

from deepnet_theory.numeric.model_update import ModelUpdate
from deepnet_theory.numeric.schedule import Record

DEPTHS = [{"N": 8, "M": 8}, {"N": 8, "M": 16}, {"N": 16, "M": 8}, {"N": 128, "M": 8}]


def _record(depths):
    record = Record()
    for depth in depths:
        key = f"{depth['N']}x{depth['M']}"
        record.updates[key] = ModelUpdate(depth, 1.0, (1.0,), 0.0, 0.0, (), (), (), ())
        record.references[key] = {"depth": depth}
        for name in ("b", "a") if depth["N"] == 8 else ("a", "b"):
            record.samples.setdefault(name, {})[key] = [1.0]
    return record


def test_the_order_in_which_results_come_is_not_seen():
    forward, backward = _record(DEPTHS).checks(), _record(DEPTHS[::-1]).checks()
    assert json.dumps(forward) == json.dumps(backward)
    assert [step["depth"] for step in forward["steps"]] == DEPTHS  # as numbers, not as text
    assert list(forward["samples"]["a"]) == ["8x8", "8x16", "16x8", "128x8"]
