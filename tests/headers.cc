// Empty: this target is there for the headers that it precompiles (tests/CMakeLists.txt).
