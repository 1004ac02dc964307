// C++ classes for arrays in files, and their functions for kernels: see cuspan/store.h.
//
//   namespace store = cuspan::store;
//   store::Cache cache({8ull << 30, 4096, /*device=*/0});
//   store::Array<uint32_t> edges("/data/web.edges", cache);
//   bfs<<<grid, block>>>(edges.view(), …);
//   edges.check();
//
//   __global__ void bfs(store::View<uint32_t> edges, …) { … edges[i] … }
//
// Kernels need compute capability 7.0: lanes of a warp wait for one another.
#ifndef CUSPAN_STORE_CUH
#define CUSPAN_STORE_CUH

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "cuspan/store.h"
#ifdef __CUDACC__
#include "cuspan/store_device.cuh"
#endif

namespace cuspan::store {

// Failure of a function of cuspan/store.h.
class Error : public std::runtime_error {
 public:
  explicit Error(int code) : std::runtime_error(cuspanStoreLastMessage()), code_(code) {}
  int code() const { return code_; }  // CUSPAN_STORE_…

 private:
  int code_;
};

namespace detail {
inline void Check(int result) {
  if (result != CUSPAN_STORE_SUCCESS) throw Error(result);
}

// NumPy's kind of a type; 0: any.
template <typename T>
constexpr char KindOf() {
  if (std::is_same<T, bool>::value) return 'b';
  if (std::is_floating_point<T>::value) return 'f';
  if (std::is_integral<T>::value) return std::is_signed<T>::value ? 'i' : 'u';
  return 0;
}
}  // namespace detail

struct CacheOptions {
  std::uint64_t bytes = 0;
  std::uint32_t line = 4096;
  int device = 0;
};

class Cache {
 public:
  explicit Cache(const CacheOptions& options) {
    const cuspanCacheConfig_t config = {options.bytes, options.line, options.device};
    detail::Check(cuspanCacheCreate(&cache_, &config));
  }
  // All its arrays have ended.
  ~Cache() { cuspanCacheDestroy(cache_); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  cuspanCache_t get() const { return cache_; }

 private:
  cuspanCache_t cache_ = nullptr;
};

enum class Backing : std::uint8_t {
  kFile = CUSPAN_BACKING_FILE,
  kHost = CUSPAN_BACKING_HOST,
  kHostCached = CUSPAN_BACKING_HOST_CACHED,
  kDevice = CUSPAN_BACKING_DEVICE
};

template <typename T>
class View;

template <typename T>
class Array {
 public:
  static_assert((sizeof(T) & (sizeof(T) - 1)) == 0 && sizeof(T) <= 512,
                "elements must not lie on two lines: their size is a power of two, at most 512");
  static_assert(std::is_trivially_copyable<T>::value, "elements are bytes of a file");

  Array(const char* path, const Cache& cache, Backing backing = Backing::kFile) {
    cuspanArrayConfig_t config = {};
    config.path = path;
    config.backing = static_cast<std::uint8_t>(backing);
    Open(config, cache);
  }
  Array(const std::string& path, const Cache& cache, Backing backing = Backing::kFile)
      : Array(path.c_str(), cache, backing) {}
  // The file of a descriptor, closed by the program whenever it wants.
  Array(int fd, const Cache& cache, Backing backing = Backing::kFile) {
    cuspanArrayConfig_t config = {};
    config.fd = fd;
    config.backing = static_cast<std::uint8_t>(backing);
    Open(config, cache);
  }
  // `config`: without element and kind.
  Array(const cuspanArrayConfig_t& config, const Cache& cache) { Open(config, cache); }
  ~Array() { cuspanArrayClose(array_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  View<T> view() const {
    View<T> view;
    detail::Check(cuspanArrayGetView(array_, &view.data));
    return view;
  }
  std::uint64_t size() const { return view().data.count; }
  void check() const { detail::Check(cuspanArrayCheck(array_)); }
  cuspanArrayStatistics_t stats() const {
    cuspanArrayStatistics_t statistics;
    detail::Check(cuspanArrayGetStatistics(array_, &statistics));
    return statistics;
  }
  cuspanArray_t get() const { return array_; }

 private:
  void Open(cuspanArrayConfig_t config, const Cache& cache) {
    config.element = sizeof(T);
    config.kind = detail::KindOf<T>();
    detail::Check(cuspanArrayOpen(&array_, &config, cache.get()));
  }

  cuspanArray_t array_ = nullptr;
};

#ifdef __CUDACC__

// A line held in the cache by a thread, until the end of this object. Its elements are read like
// memory; one by one, if the cache has no place for the line.
template <typename T>
class Pin {
 public:
  __device__ Pin(Pin&& other)
      : elements_(other.elements_),
        word_(other.word_),
        tables_(other.tables_),
        first_(other.first_),
        count_(other.count_) {
    other.word_ = nullptr;
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  __device__ ~Pin() {
    if (word_ == nullptr) return;
    const unsigned together = __activemask();
    // Loads of these lanes precede the decrement.
    const unsigned same = __match_any_sync(together, reinterpret_cast<unsigned long long>(word_));
    __syncwarp(same);
    if (static_cast<int>(detail::Lane()) == __ffs(static_cast<int>(same)) - 1)
      asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(word_),
                   "l"(0 - __popc(same) * detail::LineWord::kOnePin)
                   : "memory");
  }

  // Index in the array of the line's first element, and number of elements: 0 for a pin of an index
  // out of range.
  __device__ std::uint64_t first() const { return first_; }
  __device__ std::uint32_t count() const { return count_; }
  // The line's elements in memory, for the fastest loops; null if the cache has no place for them.
  __device__ const T* data() const { return elements_; }
  // Elements of the line, from 0; unchecked.
  __device__ T operator[](std::uint32_t i) const {
    return elements_ != nullptr ? elements_[i] : ReadPast(i);
  }

 private:
  friend class View<T>;
  __device__ Pin() {}

  __device__ T ReadPast(std::uint32_t i) const {
    const std::uint64_t offset = tables_->start + (first_ + i) * sizeof(T);
    return detail::ReadMissing<T>(tables_, __activemask(), false,
                                  detail::PositionOf(offset, tables_->line_shift), T{});
  }

  const T* elements_ = nullptr;  // Null: the line is not held.
  std::uint64_t* word_ = nullptr;
  const detail::Tables* tables_ = nullptr;
  std::uint64_t first_ = 0;
  std::uint32_t count_ = 0;
};

#endif  // __CUDACC__

// An array as seen by kernels. Passed to them by value; valid until the array is closed.
template <typename T>
class View {
 public:
  cuspanArrayView_t data;

#ifdef __CUDACC__
  __device__ std::uint64_t size() const { return data.count; }

  // Element i, also of an array of more dimensions. Any threads. T{} for an index out of range: see
  // cuspanArrayCheck.
  __device__ T operator[](std::uint64_t i) const { return Read(__activemask(), i); }

  // Element of an array with this number of dimensions.
  template <typename... Inner>
  __device__ T operator()(std::uint64_t i, Inner... inner) const {
    static_assert(sizeof...(Inner) < CUSPAN_MAX_DIMENSIONS, "at most 4 dimensions");
    const std::uint64_t indices[] = {i, static_cast<std::uint64_t>(inner)...};
    bool inside = data.dimensions == 1 + sizeof...(Inner);
    std::uint64_t index = 0;
#pragma unroll
    for (std::size_t d = 0; d < 1 + sizeof...(Inner); ++d) {
      inside = inside && indices[d] < data.shape[d];
      index = index * data.shape[d] + indices[d];
    }
    return Read(__activemask(), inside ? index : ~std::uint64_t{0});
  }

  // Element i of each lane; all 32 lanes of the warp call it together.
  __device__ T warp(std::uint64_t i) const { return Read(~0u, i); }

  // Holds the line of element i. Any threads.
  __device__ Pin<T> pin(std::uint64_t i) const {
    const unsigned together = __activemask();
    const bool inside = i < data.count;
    Pin<T> pin;
    if (!inside) Report(i);
    const std::uint64_t line = inside ? (data.start_ + i * sizeof(T)) >> data.line_shift_ : 0;
    const std::uint64_t begin = line << data.line_shift_;
    const std::uint64_t first = begin > data.start_ ? begin : data.start_;
    if (inside) {
      const std::uint64_t end = begin + (std::uint64_t{1} << data.line_shift_);
      const std::uint64_t all = data.start_ + data.count * sizeof(T);
      pin.first_ = (first - data.start_) / sizeof(T);
      pin.count_ = static_cast<std::uint32_t>(((end < all ? end : all) - first) / sizeof(T));
    }
    const bool wanted = inside && data.all_ == nullptr;
    if (data.all_ != nullptr) pin.elements_ = reinterpret_cast<const T*>(data.all_) + pin.first_;
    if (__any_sync(together, wanted)) {
      const detail::PinnedLine pinned = detail::PinTogether(data.tables_, together, wanted, line);
      if (wanted) {
        if (pinned.address != nullptr)
          pin.elements_ = reinterpret_cast<const T*>(pinned.address + (first - begin));
        pin.word_ = pinned.word;
        pin.tables_ = data.tables_;
      }
    }
    return pin;
  }

 private:
  // `mask`: the lanes that are together here.
  __device__ T Read(unsigned mask, std::uint64_t i) const {
    const bool inside = i < data.count;
    if (!inside) Report(i);
    if (data.counts_reads_ != 0) detail::Count(data.report_ + CUSPAN_REPORT_READS, 1);
    T value{};
    detail::Position at{};
    bool have = true;
    if (data.all_ != nullptr) {
      if (inside) value = reinterpret_cast<const T*>(data.all_)[i];
    } else if (inside) {
      at = detail::PositionOf(data.start_ + i * sizeof(T), data.line_shift_);
      have = detail::TryHit<T>({data.words_, data.slots_, data.line_shift_}, at, &value);
    }
    // Lanes may have different arrays: none of them is left behind.
    if (__any_sync(mask, !have)) value = detail::ReadMissing(data.tables_, mask, have, at, value);
    return value;
  }

  __device__ void Report(std::uint64_t i) const {
    detail::ReportError(data.report_, CUSPAN_ERROR_INDEX, i, 0);
  }
#endif
};

}  // namespace cuspan::store

#endif
