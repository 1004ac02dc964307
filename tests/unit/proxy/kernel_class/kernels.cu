// Kernels with known bottlenecks. The test reads their PTX; it runs none.
#include <cuda_fp16.h>
#include <mma.h>

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)
#define STRIDE (gridDim.x * blockDim.x)

extern "C" {

// --- Memory.

__global__ void copy(float* to, const float* from, int n) {
  for (int i = INDEX; i < n; i += STRIDE) to[i] = from[i];
}

__global__ void copy_bytes_by_vectors(uint4* to, const uint4* from, int n) {
  const int i = INDEX;
  if (i < n) to[i] = from[i];
}

__global__ void triad(double* a, const double* b, const double* c, double s, int n) {
  const int i = INDEX;
  if (i < n) a[i] = b[i] + s * c[i];
}

__global__ void fill(int* to, int value, int n) {
  const int i = INDEX;
  if (i < n) to[i] = value;
}

__global__ void reduction(float* sums, const float* from, int n) {
  __shared__ float part[256];
  float sum = 0;
  for (int i = INDEX; i < n; i += STRIDE) sum += from[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

__global__ void transpose(float* to, const float* from, int width, int height) {
  __shared__ float tile[32][33];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int row = 0; row < 32; row += 8)
    tile[threadIdx.y + row][threadIdx.x] = from[(y + row) * width + x];
  __syncthreads();
  const int u = blockIdx.y * 32 + threadIdx.x, v = blockIdx.x * 32 + threadIdx.y;
  for (int row = 0; row < 32; row += 8)
    to[(v + row) * height + u] = tile[threadIdx.x][threadIdx.y + row];
}

__global__ void histogram(unsigned* bins, const unsigned* from, int n) {
  __shared__ unsigned own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = INDEX; i < n; i += STRIDE) atomicAdd(&own[from[i] & 255], 1);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

__global__ void spmv(float* y, const int* rows, const int* columns, const float* values,
                     const float* x, int n) {
  const int row = INDEX;
  if (row >= n) return;
  float sum = 0;
  for (int i = rows[row]; i < rows[row + 1]; ++i) sum += values[i] * x[columns[i]];
  y[row] = sum;
}

__global__ void spmv_by_warps(float* y, const int* rows, const int* columns, const float* values,
                              const float* x, int n) {
  const int row = INDEX / 32, lane = threadIdx.x % 32;
  if (row >= n) return;
  float sum = 0;
  for (int i = rows[row] + lane; i < rows[row + 1]; i += 32) sum += values[i] * x[columns[i]];
  for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(~0u, sum, half);
  if (lane == 0) y[row] = sum;
}

__global__ void stencil(float* to, const float* from, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  const float* at = from + y * width + x;
  to[y * width + x] = 0.2f * (at[0] + at[-1] + at[1] + at[-width] + at[width]);
}

__global__ void gather(float* to, const float* from, const int* which, int n) {
  const int i = INDEX;
  if (i < n) to[i] = from[which[i]];
}

__global__ void sines(float* to, const float* from, int n) {
  const int i = INDEX;
  if (i < n) to[i] = sinf(from[i]);
}

__global__ void gelu(float4* to, const float4* from, int n) {
  const int i = INDEX;
  if (i >= n) return;
  float4 x = from[i];
  for (float* v : {&x.x, &x.y, &x.z, &x.w})
    *v = 0.5f * *v * (1 + tanhf(0.79788456f * (*v + 0.044715f * *v * *v * *v)));
  to[i] = x;
}

__global__ void bias_halves(__half2* to, const __half2* from, const __half2* bias, int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const long at = static_cast<long>(blockIdx.y) * columns + column;
  to[at] = __hmax2(__hadd2(from[at], bias[column]), __float2half2_rn(0));
}

__global__ void softmax(float* to, const float* from, int columns) {
  __shared__ float part[32];
  const float* row = from + static_cast<long>(blockIdx.x) * columns;
  float* out = to + static_cast<long>(blockIdx.x) * columns;
  float most = -1e30f, sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
  for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < blockDim.x / 32; ++i) most = fmaxf(most, part[i]);
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += __expf(row[i] - most);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < blockDim.x / 32; ++i) sum += part[i];
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = __expf(row[i] - most) / sum;
}

__global__ void matrix_vector(float* y, const float* a, const float* x, int columns) {
  __shared__ float part[8];
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    sum += a[static_cast<long>(blockIdx.x) * columns + i] * x[i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < blockDim.x / 32; ++i) sum += part[i];
  y[blockIdx.x] = sum;
}

// --- Arithmetic.

__global__ void fma_loop(float* to, float a, float b, int times) {
  float x = threadIdx.x, y = x + 1, z = x + 2, w = x + 3;
  for (int i = 0; i < times; ++i) {
    x = x * a + b;
    y = y * a + b;
    z = z * a + b;
    w = w * a + b;
  }
  to[INDEX] = x + y + z + w;
}

__global__ void fma_loop_doubles(double* to, double a, double b, int times) {
  double x = threadIdx.x, y = x + 1;
  for (int i = 0; i < times; ++i) {
    x = x * a + b;
    y = y * a + b;
  }
  to[INDEX] = x + y;
}

__global__ void fma_loop_halves(__half2* to, __half2 a, __half2 b, int times) {
  __half2 x = __float2half2_rn(threadIdx.x), y = b;
  for (int i = 0; i < times; ++i) {
    x = __hfma2(x, a, b);
    y = __hfma2(y, a, b);
  }
  to[INDEX] = __hadd2(x, y);
}

__device__ float3 Attract(float4 at, float4 by, float3 sum) {
  const float x = by.x - at.x, y = by.y - at.y, z = by.z - at.z;
  const float inverse = rsqrtf(x * x + y * y + z * z + 1e-9f);
  const float s = by.w * inverse * inverse * inverse;
  return {sum.x + x * s, sum.y + y * s, sum.z + z * s};
}

__global__ void n_body(float4* forces, const float4* bodies, int n) {
  __shared__ float4 tile[256];
  const float4 at = bodies[INDEX];
  float3 sum = {0, 0, 0};
  for (int first = 0; first < n; first += 256) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 256; ++i) sum = Attract(at, tile[i], sum);
    __syncthreads();
  }
  forces[INDEX] = {sum.x, sum.y, sum.z, 0};
}

__global__ void n_body_direct(float4* forces, const float4* bodies, int n) {
  const float4 at = bodies[INDEX];
  float3 sum = {0, 0, 0};
  for (int i = 0; i < n; ++i) sum = Attract(at, bodies[i], sum);
  forces[INDEX] = {sum.x, sum.y, sum.z, 0};
}

// A separate function with generic pointers.
__device__ __noinline__ float3 AttractApart(float4 at, const float4* by, float3 sum) {
  return Attract(at, *by, sum);
}

__global__ void n_body_by_calls(float4* forces, const float4* bodies, int n) {
  __shared__ float4 tile[256];
  const float4 at = bodies[INDEX];
  float3 sum = {0, 0, 0};
  for (int first = 0; first < n; first += 256) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 256; ++i) sum = AttractApart(at, &tile[i], sum);
    __syncthreads();
  }
  forces[INDEX] = {sum.x, sum.y, sum.z, 0};
}

__global__ void matrix_product(float* c, const float* a, const float* b, int n) {
  __shared__ float as[16][16], bs[16][16];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int first = 0; first < n; first += 16) {
    as[threadIdx.y][threadIdx.x] = a[row * n + first + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// Each thread computes 4 × 4 of the result.
__global__ void matrix_product_blocked(float* c, const float* a, const float* b, int n) {
  __shared__ float as[16][64], bs[16][64];
  const int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
  const int row = blockIdx.y * 64, column = blockIdx.x * 64;
  float sums[4][4] = {};
  for (int first = 0; first < n; first += 16) {
    for (int i = tid; i < 16 * 64; i += 256) {
      as[i % 16][i / 16] = a[(row + i / 16) * n + first + i % 16];
      bs[i / 64][i % 64] = b[(first + i / 64) * n + column + i % 64];
    }
    __syncthreads();
    for (int k = 0; k < 16; ++k) {
      const float4 x = reinterpret_cast<const float4*>(as[k])[ty];
      const float4 y = reinterpret_cast<const float4*>(bs[k])[tx];
      const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sums[i][j] += xs[i] * ys[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) c[(row + ty * 4 + i) * n + column + tx * 4 + j] = sums[i][j];
}

// Data read by many blocks comes from caches.
__global__ void matrix_product_naive(float* c, const float* a, const float* b, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

// On tensor cores: each warp computes 32 × 32 of the result.
__global__ void matrix_product_tensor(float* c, const __half* a, const __half* b, int n) {
  using namespace nvcuda::wmma;
  __shared__ __half as[64][32 + 8], bs[32][64 + 8];
  const int warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 32;
  fragment<accumulator, 16, 16, 16, float> sums[2][2];
  for (auto& some : sums)
    for (auto& sum : some) fill_fragment(sum, 0);
  for (int first = 0; first < n; first += 32) {
    for (int i = threadIdx.x; i < 64 * 32; i += 128) {
      as[i / 32][i % 32] = a[(blockIdx.y * 64 + i / 32) * n + first + i % 32];
      bs[i / 64][i % 64] = b[(first + i / 64) * n + blockIdx.x * 64 + i % 64];
    }
    __syncthreads();
    for (int k = 0; k < 32; k += 16) {
      fragment<matrix_a, 16, 16, 16, __half, row_major> x[2];
      fragment<matrix_b, 16, 16, 16, __half, row_major> y[2];
      for (int i = 0; i < 2; ++i) {
        load_matrix_sync(x[i], &as[row + i * 16][k], 40);
        load_matrix_sync(y[i], &bs[k][column + i * 16], 72);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) mma_sync(sums[i][j], x[i], y[j], sums[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      store_matrix_sync(
          &c[(blockIdx.y * 64 + row + i * 16) * n + blockIdx.x * 64 + column + j * 16], sums[i][j],
          n, mem_row_major);
}

__global__ void mandelbrot(unsigned char* to, int width, int height, int most) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const float cx = x * 3.0f / width - 2, cy = y * 2.0f / height - 1;
  float u = 0, v = 0;
  int i = 0;
  for (; i < most && u * u + v * v < 4; ++i) {
    const float next = u * u - v * v + cx;
    v = 2 * u * v + cy;
    u = next;
  }
  to[y * width + x] = i;
}

__global__ void hash(unsigned* to, const unsigned* from, int rounds) {
  unsigned a = from[INDEX], b = a ^ 0x9e3779b9, c = ~a;
  for (int i = 0; i < rounds; ++i) {
    a = (a + b) ^ __funnelshift_l(c, c, 7);
    b = (b * 0x85ebca6b) ^ (a >> 13);
    c += a ^ b;
  }
  to[INDEX] = a ^ b ^ c;
}

__global__ void primes(int* count, int first) {
  const unsigned n = first + INDEX;
  bool prime = n > 1;
  for (unsigned d = 2; d * d <= n && prime; ++d) prime = n % d != 0;
  if (prime) atomicAdd(count, 1);
}

__global__ void monte_carlo(float* sums, int times) {
  unsigned state = INDEX * 747796405u + 1;
  float sum = 0;
  for (int i = 0; i < times; ++i) {
    state = state * 1664525u + 1013904223u;
    const float u = (state >> 8) * 0x1p-24f + 1e-9f;
    sum += sqrtf(-2 * __logf(u)) * __cosf(6.2831853f * u);
  }
  sums[INDEX] = sum;
}

// A window of 9 × 9 in shared memory.
__global__ void convolution(float* to, const float* from, const float* weights, int width) {
  __shared__ float tile[24][24], window[81];
  for (int i = threadIdx.y * 16 + threadIdx.x; i < 24 * 24; i += 256)
    tile[i / 24][i % 24] = from[(blockIdx.y * 16 + i / 24) * width + blockIdx.x * 16 + i % 24];
  if (threadIdx.y * 16 + threadIdx.x < 81)
    window[threadIdx.y * 16 + threadIdx.x] = weights[threadIdx.y * 16 + threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int y = 0; y < 9; ++y)
    for (int x = 0; x < 9; ++x) sum += tile[threadIdx.y + y][threadIdx.x + x] * window[y * 9 + x];
  to[(blockIdx.y * 16 + threadIdx.y) * width + blockIdx.x * 16 + threadIdx.x] = sum;
}

__global__ void bitonic_sort(int* keys) {
  __shared__ int own[1024];
  own[threadIdx.x] = keys[blockIdx.x * 1024 + threadIdx.x];
  for (int size = 2; size <= 1024; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      const int i = threadIdx.x, j = i ^ step;
      if (j > i && (own[i] > own[j]) == ((i & size) == 0)) {
        const int key = own[i];
        own[i] = own[j];
        own[j] = key;
      }
    }
  __syncthreads();
  keys[blockIdx.x * 1024 + threadIdx.x] = own[threadIdx.x];
}

// --- Neither.

__global__ void black_scholes(float* call, float* put, const float* price, const float* strike,
                              const float* years, int n) {
  const int i = INDEX;
  if (i >= n) return;
  const float s = price[i], x = strike[i], t = years[i];
  const float root = 0.3f * sqrtf(t);
  const float d1 = (logf(s / x) + (0.02f + 0.045f) * t) / root, d2 = d1 - root;
  const float discount = x * expf(-0.02f * t);
  call[i] = s * normcdff(d1) - discount * normcdff(d2);
  put[i] = discount * normcdff(-d2) - s * normcdff(-d1);
}

}  // extern "C"
