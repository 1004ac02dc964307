// The library half of the programs of this folder.
#pragma once

// Adds 7 to `count` ints on the current device; whether every one came back right.
extern "C" int AddsOnDevice(int count);
