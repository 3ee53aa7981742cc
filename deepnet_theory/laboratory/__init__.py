"""The laboratory: Monte Carlo on the runtime's own stacks, ending in estimates and verdicts.

A ``case`` is a rule at a depth in given ``settings``; a ``trial`` its stacks of all seeds with
their data; ``stepping`` applies the optimizer's expression. ``model_update``, ``trace`` and
``one_sublayer`` measure; ``statistics`` and ``judging`` make exponents, intervals and verdicts;
``verify`` does it all for a rule, ``measuring`` for a family of models, ``transfer`` for learning
rates.
"""
