#!/usr/bin/env python3
"""Records how long matrix products take, as a network's layers do: three sizes in turn, by BLAS.

    OPENBLAS_NUM_THREADS=1 python3 benches/traces/record_blas.py 2000

One line a job: nanoseconds of one product.
"""

import sys
import time

import numpy

WARM = 30
SIZES = [192, 256, 224]


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    layers = [numpy.random.rand(size, size).astype(numpy.float32) for size in SIZES]
    for job in range(-WARM, jobs):
        layer = layers[job % len(layers)]
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        layer @ layer
        took = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - start
        if job >= 0:
            print(took)


main()
