// The library half of the programs of this folder.
#pragma once

// Adds 7 to `count` ints on the current device; returns true (1) if all results are right.
extern "C" int AddsOnDevice(int count);
