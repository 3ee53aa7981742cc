"""Where work is done, and what of it is kept: the one seam to other processes and machines.

``jobs`` are done by any :class:`concurrent.futures.Executor`, of this machine or, by ``cluster``,
of other ones. ``keep`` holds what is finished, under a name of all that it depends on.
"""

from deepnet_theory.processes.jobs import Job as Job
from deepnet_theory.processes.jobs import ProcessDied as ProcessDied
from deepnet_theory.processes.jobs import Progress as Progress
from deepnet_theory.processes.jobs import ThisProcess as ThisProcess
from deepnet_theory.processes.jobs import Work as Work
from deepnet_theory.processes.jobs import cores as cores
from deepnet_theory.processes.jobs import executor_of as executor_of
from deepnet_theory.processes.jobs import require_processes as require_processes
from deepnet_theory.processes.jobs import run_jobs as run_jobs
from deepnet_theory.processes.jobs import run_until_stopped as run_until_stopped
from deepnet_theory.processes.jobs import run_where as run_where
from deepnet_theory.processes.jobs import silent as silent
from deepnet_theory.processes.jobs import split as split
from deepnet_theory.processes.jobs import travels as travels
from deepnet_theory.processes.jobs import with_advice as with_advice
from deepnet_theory.processes.keep import MISSING as MISSING
from deepnet_theory.processes.keep import Cache as Cache
from deepnet_theory.processes.keep import Kept as Kept
from deepnet_theory.processes.keep import cache_of as cache_of
