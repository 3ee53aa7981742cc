"""The laboratory: Monte Carlo on the runtime's own stacks, ending in estimates and verdicts.

A ``case`` is a rule at a depth in given ``settings``; a ``trial`` its stacks of all seeds with
their data; ``stepping`` applies the optimizer's expression during the backward pass.
``model_update``, ``trace``, ``one_sublayer`` and ``premises`` measure; ``statistics`` and
``judging`` make exponents, intervals and verdicts; ``schedule`` knows what is still to be done;
``verify`` does it all.
"""
