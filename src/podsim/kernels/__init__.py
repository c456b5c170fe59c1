"""Seconds of one kernel on one GPU, from its own shape: the laws, their constants, and the fits of these.

    gemm           a matrix product                          narrow: one that is too narrow for its tiles
    attention      the core of attention, fused or not       recurrent: a layer that repeats over time
    convolutions   a convolution                             elementwise: a kernel bound by memory traffic
    constants      the fitted constants of a GPU             fit_kernels: their fit to measured rows

All are seconds on the GPU, the fixed time of a kernel included. Not included: the host's launch, and what training for
hours adds to the short bursts that were measured. Sizes broadcast. Mistakes raise PlanError or CatalogError.
"""
