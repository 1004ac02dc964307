// Empty source of the target precompiling the headers (tests/CMakeLists.txt).
