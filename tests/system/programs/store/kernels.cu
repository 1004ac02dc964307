// Kernels of the program `store`: reads of arrays in files.
#include "cuspan/store.cuh"

namespace store = cuspan::store;

namespace {

// Ways to read an element, in the order of `store`'s names of them.
enum class Way : int { kIndex, kWarp, kPin, kDivergent, kHeld };

// Elements of any size. Large ones consist of words: fewer instructions.
template <int kBytes>
struct Element {
  std::uint64_t words[kBytes / 8];
};
template <>
struct Element<1> {
  std::uint8_t word;
};
template <>
struct Element<2> {
  std::uint16_t word;
};
template <>
struct Element<4> {
  std::uint32_t word;
};

__device__ std::uint64_t Next(std::uint64_t* state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return *state >> 33;
}

// out[i] = view[indices[i]] for i < count; a multiple of 32 for kWarp.
template <typename T>
__device__ void Gather(const store::View<T>& view, const std::uint64_t* indices,
                       std::uint64_t count, T* out, Way way) {
  const std::uint64_t threads = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += threads) {
    const std::uint64_t index = indices[i];
    switch (way) {
      case Way::kIndex:
        out[i] = view[index];
        break;
      case Way::kWarp:
        out[i] = view.warp(index);
        break;
      case Way::kPin: {
        const store::Pin<T> line = view.pin(index);
        if (line.count() != 0) out[i] = line[static_cast<std::uint32_t>(index - line.first())];
        break;
      }
      case Way::kDivergent:
        if ((index & 1) != 0)
          out[i] = view[index];
        else if ((index & 2) != 0)
          out[i] = view[index];
        else
          out[i] = view[index];
        break;
      case Way::kHeld: {
        // Misses while a line is held.
        const store::Pin<T> line = view.pin(index);
        const T other = view[(index + view.size() / 2) % view.size()];
        out[i] = line.count() != 0 ? line[static_cast<std::uint32_t>(index - line.first())] : other;
        break;
      }
    }
  }
}

}  // namespace

#define CUSPAN_GATHER(bytes)                                                                   \
  extern "C" __global__ void gather_##bytes(store::View<Element<bytes>> view,                  \
                                            const std::uint64_t* indices, std::uint64_t count, \
                                            Element<bytes>* out, int way) {                    \
    Gather(view, indices, count, out, static_cast<Way>(way));                                  \
  }
CUSPAN_GATHER(1)
CUSPAN_GATHER(2)
CUSPAN_GATHER(4)
CUSPAN_GATHER(8)
CUSPAN_GATHER(16)
CUSPAN_GATHER(64)
CUSPAN_GATHER(512)

// Each thread reads `reads` random elements, with `holds` some of them while it holds one or two
// lines. Element
// i is a word that depends on i only: *wrong counts others.
extern "C" __global__ void stress(store::View<std::uint32_t> view, std::uint64_t seed,
                                  std::uint32_t reads, int holds, unsigned long long* wrong) {
  std::uint64_t state = seed + std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const auto expected = [](std::uint64_t i) {
    return static_cast<std::uint32_t>(i * 2654435761u + 12345u);
  };
  unsigned long long errors = 0;
  for (std::uint32_t read = 0; read < reads;) {
    const std::uint64_t index = Next(&state) % view.size();
    switch (holds != 0 ? Next(&state) % 4 : 2) {
      case 0: {
        const store::Pin<std::uint32_t> held = view.pin(index);
        const std::uint64_t other = Next(&state) % view.size();
        errors += view[other] != expected(other);
        errors += held[static_cast<std::uint32_t>(index - held.first())] != expected(index);
        read += 2;
        break;
      }
      case 1: {
        const store::Pin<std::uint32_t> held = view.pin(index);
        const std::uint64_t other = Next(&state) % view.size();
        const store::Pin<std::uint32_t> second = view.pin(other);
        errors += second[static_cast<std::uint32_t>(other - second.first())] != expected(other);
        errors += held[static_cast<std::uint32_t>(index - held.first())] != expected(index);
        read += 2;
        break;
      }
      default:
        errors += view[index] != expected(index);
        ++read;
    }
  }
  if (errors != 0) atomicAdd(wrong, errors);
}

// out[k] = view(k / (b * c), k / c % b, k % c) of a row, and of indices out of range in one
// dimension.
extern "C" __global__ void dimensions(store::View<float> view, std::uint64_t b, std::uint64_t c,
                                      std::uint64_t count, float* out) {
  for (std::uint64_t k = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < count;
       k += std::uint64_t{gridDim.x} * blockDim.x)
    out[k] = view.data.dimensions == 1   ? view(k)
             : view.data.dimensions == 2 ? view(k / c, k % c)
                                         : view(k / (b * c), k / c % b, k % c);
}

// Neighbouring lanes read the same indices of different arrays: out[i] is element indices[i] of
// array i % 3, by a pin if i is odd.
extern "C" __global__ void mixed(store::View<std::uint32_t> a, store::View<std::uint32_t> b,
                                 store::View<std::uint32_t> c, const std::uint64_t* indices,
                                 std::uint64_t count, std::uint32_t* out) {
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    const store::View<std::uint32_t> view = i % 3 == 0 ? a : i % 3 == 1 ? b : c;
    const std::uint64_t index = indices[i];
    const std::uint32_t value = view[index];
    const store::Pin<std::uint32_t> line = view.pin(index);
    out[i] = i % 2 == 0 ? value : line[static_cast<std::uint32_t>(index - line.first())];
  }
}

extern "C" __global__ void one(store::View<std::uint32_t> view, std::uint64_t i, std::uint64_t j,
                               std::uint32_t* out) {
  *out = j == 0 ? view[i] : view(i, j);
}
