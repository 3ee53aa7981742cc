from deepnet_theory.definitions.placement import placement
from deepnet_theory.definitions.scheme import Scheme

_STREAMS = placement("hyper-connections")

HYPER_CONNECTIONS = Scheme(
    name="hyper-connections",
    equation=_STREAMS.equation,
    output=_STREAMS.output,
    final_norm=True,
    optimizer="adamw",
    summary="streams that start alike, written to alike and added up; here two",
    source=_STREAMS.source,
    norm="rms",
    mind="the connections are learnt, and these are what they start at",
)
