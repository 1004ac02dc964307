// Device code of device_launch in another file.
#pragma once

constexpr int kElsewhere = 10;

// 1 at level 0, else 0.
__device__ int OneAtLevelZero(int level);
// *to += number + kElsewhere.
__global__ void AddElsewhere(int* to, int number);
// Both files have their own names of this kind. The results differ.
__device__ int OwnElsewhere(int number);
