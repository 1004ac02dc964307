// Nothing of its own: what its target precompiles, all test programs use.
