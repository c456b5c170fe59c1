"""Seconds of one kernel on one GPU: laws, their constants, and the fits of these to measured kernels."""
