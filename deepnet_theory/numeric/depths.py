from deepnet_theory.numeric.settings import FEWEST as FEWEST
from deepnet_theory.numeric.settings import Depth as Depth
from deepnet_theory.numeric.settings import default_depths as default_depths
from deepnet_theory.numeric.settings import depth_key as depth_key
from deepnet_theory.numeric.settings import parse_depths as parse_depths
from deepnet_theory.numeric.settings import parse_widths as parse_widths
from deepnet_theory.numeric.settings import wanted_depths as wanted_depths
