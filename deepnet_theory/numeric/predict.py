from deepnet_theory.numeric.verify import predict as predict
