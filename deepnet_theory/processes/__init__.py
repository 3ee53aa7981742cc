"""Where work is done, and what is kept: the one seam to other processes and machines.

``jobs`` are done by any :class:`concurrent.futures.Executor`, of this machine or, by ``cluster``,
of other ones. ``keep`` holds what is finished, under a name of all that it depends on.
"""
