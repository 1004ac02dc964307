// Support for code common to kernels and plain C++.
#pragma once

#ifdef __CUDACC__
#define CUSPAN_BENCH_BOTH __host__ __device__ inline
#define CUSPAN_BENCH_UNROLL _Pragma("unroll")
#else
#define CUSPAN_BENCH_BOTH inline
#define CUSPAN_BENCH_UNROLL
#endif
