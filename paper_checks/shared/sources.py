"""The sources' public titles, cited with section and equation."""

SU = "Su Jianlin, 'What is difficult about training a 1000-layer Transformer?' (2022-03-09)"
RETOLD = "bookstall, 'DeepNet: training a 1000-layer Transformer' (2023-04-29), a retelling of Su"
CAKE = "Transformer layer cake (AI推公式)"
NOTE = "Pre/Post norm note"
DEEPNET = "DeepNet, arXiv 2203.00555"
