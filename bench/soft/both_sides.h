// For code that is the same in kernels and in plain C++.
#pragma once

#ifdef __CUDACC__
#define CUSPAN_BENCH_BOTH __host__ __device__ inline
#define CUSPAN_BENCH_UNROLL _Pragma("unroll")
#else
#define CUSPAN_BENCH_BOTH inline
#define CUSPAN_BENCH_UNROLL
#endif
