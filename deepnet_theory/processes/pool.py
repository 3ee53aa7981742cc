from deepnet_theory.processes.jobs import ONE_THREAD as ONE_THREAD
from deepnet_theory.processes.jobs import environment_variable as environment_variable
