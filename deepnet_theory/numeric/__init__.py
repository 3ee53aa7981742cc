"""The laboratory: Monte Carlo on the runtime's own stacks, ending in estimates and verdicts.

``settings`` and ``depths`` say what is measured on; ``trial`` builds the stacks of all seeds and
their data; ``step`` and ``update`` apply the optimizer's expression during the backward pass;
``model_update`` measures ‖ΔF‖/η; ``trace`` and ``probe`` measure the rest, one small file a
quantity in ``measurements``; ``statistics`` and ``criteria`` judge; ``verify`` does it all.
"""
