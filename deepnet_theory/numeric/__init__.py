"""The laboratory: Monte Carlo on the runtime's own stacks, ending in estimates and verdicts.

``stacks`` says what is measured on and builds the stacks of all seeds with their data;
``stepping`` applies the optimizer's expression during the backward pass; ``measuring`` measures
‖ΔF‖/η and the rest, one small file a quantity in ``quantities``; ``judging`` makes exponents,
intervals and verdicts; ``running`` knows what is still to be done; ``verify`` does it all. Each
room imports those before it alone.
"""
