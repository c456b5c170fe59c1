"""What is written and read beside the network: training state, data sets, the systems that hold them."""
