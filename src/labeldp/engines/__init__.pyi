from labeldp.engines.local import LocalEngine as LocalEngine, engine_for as engine_for
from labeldp.engines.protocol import Engine as Engine, Progress as Progress, quiet as quiet
