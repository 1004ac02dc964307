// Device code that the program device_launch has in another file.
#pragma once

constexpr int kElsewhere = 10;

// 1 at level 0, else 0.
__device__ int OneAtLevelZero(int level);
// *to += number + kElsewhere.
__global__ void AddElsewhere(int* to, int number);
// Names that both files have for themselves give different answers.
__device__ int OwnElsewhere(int number);
