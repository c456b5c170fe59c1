"""Files that start a served language model: vLLM, SGLang, TensorRT-LLM, Triton, Kubernetes; written and read back."""
