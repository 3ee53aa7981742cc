from deepnet_theory.spec.norm import Norm

RMS = Norm(name="rms", centred=False, bias=False, summary="RMSNorm")
