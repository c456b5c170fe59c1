"""What starts a plan (torchrun, Megatron-LM, torchtitan, DeepSpeed, Slurm, Kubernetes), and plans read back from it."""
