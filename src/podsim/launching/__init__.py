"""Launch files (torchrun, Megatron-LM, torchtitan, DeepSpeed, Slurm, Kubernetes), written from plans and read back."""
