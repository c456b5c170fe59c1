"""Seconds of one kernel on one GPU, from its own shape: the laws and their constants, under one name.

    gemm_seconds       a matrix product                        kernels_gemm
    gemm_source        where that figure comes from
    attention_seconds  the core of attention, fused or not     kernels_attention
    memory_seconds     a kernel bound by memory traffic        kernels_memory
    optimizer_seconds  an optimizer update
    kernel_constants   the fitted constants of a GPU           kernel_constants

All are seconds on the GPU, the fixed time of a kernel included; what the host needs to launch it is the
caller's, as is the factor between short bursts, which were measured, and training for hours. Every argument
that is a size broadcasts. Mistakes raise PlanError or CatalogError, which are ValueErrors.
"""

from __future__ import annotations
