from deepnet_theory.processes.identity import Seen as Seen
from deepnet_theory.processes.identity import seen as seen
from deepnet_theory.processes.identity import watched as watched
