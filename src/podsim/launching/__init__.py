"""What a cluster needs to start a plan, and plans read back from it: torchrun, Megatron-LM, torchtitan, DeepSpeed, Slurm."""
