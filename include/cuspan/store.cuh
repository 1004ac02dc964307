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
//
// The cache. Each line of a file has a word (LineWord) in device memory. Readers load the word, the
// value and the word again: if both words name the same slot and generation, the value is right. So
// a hit writes nothing. A miss sets the word busy, takes a slot, copies the line into it, and
// publishes the word. A thread with a busy line waits for nothing but the host's memory, and tries
// a bounded number of slots. If none of them is free, or another thread keeps the line busy for
// some 16 us, it reads the value past the cache. Pinned lines stay, and nobody waits for the end of
// a pin: threads may hold pins while they miss.
#ifndef CUSPAN_STORE_CUH
#define CUSPAN_STORE_CUH

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "cuspan/store.h"

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

namespace detail {

// A line's word: slot 28 bits, generation 15, used, three bits for later, busy, valid, pins 16. Of
// a word that is neither valid nor busy, only the generation counts: it changes whenever the line
// leaves a slot.
struct LineWord {
  static constexpr std::uint64_t kSlot = (std::uint64_t{1} << 28) - 1;
  static constexpr int kGenerationShift = 28;
  static constexpr std::uint64_t kGeneration = std::uint64_t{0x7fff} << kGenerationShift;
  static constexpr std::uint64_t kUsed = std::uint64_t{1} << 43;
  static constexpr std::uint64_t kBusy = std::uint64_t{1} << 46;
  static constexpr std::uint64_t kValid = std::uint64_t{1} << 47;
  static constexpr std::uint64_t kOnePin = std::uint64_t{1} << 48;
  static constexpr std::uint64_t kMaxPins = 0xffff;
  // Bits that tell whether two words name the same bytes.
  static constexpr std::uint64_t kSame = kSlot | kGeneration | kBusy | kValid;

  __device__ static bool Readable(std::uint64_t word) {
    return (word & (kValid | kBusy)) == kValid;
  }
  __device__ static std::uint64_t Pins(std::uint64_t word) { return word >> 48; }
  // The word after its line has left the slot.
  __device__ static std::uint64_t Emptied(std::uint64_t word) {
    return (word + (std::uint64_t{1} << kGenerationShift)) & kGeneration;
  }
};

// Owner of a slot being filled or emptied. Others are 0 or the address of a line's word.
constexpr std::uint64_t kTakenSlot = 1;
constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
// Slots tried in one miss: the first half leaves lines read twice.
constexpr std::uint32_t kMaxTries = 64;
// Waits for a line that another group fetches, in ns.
constexpr unsigned kMinBackoff = 125;
constexpr unsigned kMaxBackoff = 8000;

__device__ inline std::uint64_t LoadAcquire(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline std::uint64_t LoadRelaxed(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline void StoreRelease(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
// Words without a meaning for other memory.
__device__ inline void StoreRelaxed(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ inline std::uint64_t CompareAndSwap(std::uint64_t* word, std::uint64_t expected,
                                               std::uint64_t wanted) {
  std::uint64_t before;
  asm volatile("atom.acquire.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(word), "l"(expected), "l"(wanted)
               : "memory");
  return before;
}
__device__ inline void Count(std::uint64_t* counter, std::uint64_t amount) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(counter), "l"(amount) : "memory");
}

// Loads a value that another thread may overwrite meanwhile. Loads of this thread after it are
// performed after it.
template <int kBytes>
struct Part;
#define CUSPAN_PART(bytes, type, constraint, wide)                     \
  template <>                                                          \
  struct Part<bytes> {                                                 \
    __device__ static void Load(void* to, const unsigned char* from) { \
      wide value;                                                      \
      asm volatile("ld.acquire.gpu.global." type " %0, [%1];"          \
                   : constraint(value)                                 \
                   : "l"(from)                                         \
                   : "memory");                                        \
      __builtin_memcpy(to, &value, bytes);                             \
    }                                                                  \
  };
CUSPAN_PART(1, "u8", "=h", std::uint16_t)
CUSPAN_PART(2, "u16", "=h", std::uint16_t)
CUSPAN_PART(4, "u32", "=r", std::uint32_t)
CUSPAN_PART(8, "u64", "=l", std::uint64_t)
#undef CUSPAN_PART

template <typename T>
__device__ T LoadValue(const unsigned char* from) {
  constexpr int kBytes = sizeof(T) < 8 ? sizeof(T) : 8;
  T value;
  for (std::size_t at = 0; at < sizeof(T); at += kBytes)
    Part<kBytes>::Load(reinterpret_cast<unsigned char*>(&value) + at, from + at);
  return value;
}

__device__ inline unsigned Lane() {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// Empties a slot for another line, or returns kNoSlot. The slot's owner is kTakenSlot then.
__device__ inline std::uint32_t TakeSlot(const cuspanArrayView_t& view) {
  const std::uint32_t tries = view.slot_count_ < kMaxTries / 2 ? 2 * view.slot_count_ : kMaxTries;
  for (std::uint32_t i = 0; i < tries; ++i) {
    const std::uint32_t slot = atomicAdd(view.hand_, 1u) % view.slot_count_;
    std::uint64_t* const place = view.owners_ + slot;
    const std::uint64_t owner = LoadAcquire(place);
    if (owner == kTakenSlot || CompareAndSwap(place, owner, kTakenSlot) != owner) continue;
    if (owner == 0) return slot;
    std::uint64_t* const word = reinterpret_cast<std::uint64_t*>(owner);
    const std::uint64_t current = LoadAcquire(word);
    if (LineWord::Readable(current) && LineWord::Pins(current) == 0) {
      if ((current & LineWord::kUsed) != 0 && i < tries / 2)
        CompareAndSwap(word, current, current & ~LineWord::kUsed);
      else if (CompareAndSwap(word, current, LineWord::Emptied(current)) == current)
        return slot;
    }
    StoreRelaxed(place, owner);
  }
  return kNoSlot;
}

// A line, and the address of its bytes on the host.
struct Source {
  const unsigned char* address;
  std::uint32_t bytes;  // Fewer at the end of the file.
};
__device__ inline Source SourceOf(const cuspanArrayView_t& view, std::uint64_t line) {
  const std::uint64_t offset = line << view.line_shift_;
  const std::uint64_t extent = view.extents_[offset >> CUSPAN_EXTENT_SHIFT];
  const std::uint64_t within = offset & ((std::uint64_t{1} << CUSPAN_EXTENT_SHIFT) - 1);
  const std::uint64_t left = view.end_ - offset;
  const std::uint64_t whole = std::uint64_t{1} << view.line_shift_;
  return {reinterpret_cast<const unsigned char*>(extent + within),
          static_cast<std::uint32_t>(left < whole ? left : whole)};
}

// Stores a part of a line. It leaves the L2 cache before other memory: otherwise random lines of
// 512 bytes come at 38 instead of 42 million a second (H200).
__device__ inline void StorePart(unsigned char* to, const uint4& part) {
#if __CUDA_ARCH__ >= 800
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("st.relaxed.gpu.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to),
               "r"(part.x), "r"(part.y), "r"(part.z), "r"(part.w), "l"(policy)
               : "memory");
#else
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(part.x),
               "r"(part.y), "r"(part.z), "r"(part.w)
               : "memory");
#endif
}

// Copies a line into a slot, by all lanes of the mask. Both are aligned to 512 bytes; the host's
// memory goes on to a multiple of 16 bytes.
__device__ inline void CopyLine(unsigned mask, unsigned char* slot, const Source& source) {
  constexpr int kAtOnce = 2;
  const std::uint32_t lanes = __popc(mask);
  const std::uint32_t rank = __popc(mask & ((1u << Lane()) - 1));
  const std::uint32_t parts = (source.bytes + 15) / 16;
  const uint4* const from = reinterpret_cast<const uint4*>(source.address);
  // Readers of the slot's former line see that it has left before they see these bytes.
  __threadfence();
  for (std::uint32_t first = rank; first < parts; first += kAtOnce * lanes) {
    uint4 part[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i * lanes < parts) part[i] = __ldcg(from + first + i * lanes);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i * lanes < parts) StorePart(slot + 16 * (first + i * lanes), part[i]);
  }
}

// A value's line, and its offset there.
struct Position {
  std::uint64_t line;
  std::uint32_t within;
};

__device__ inline unsigned char* AddressIn(const cuspanArrayView_t& view, std::uint64_t word,
                                           std::uint32_t within) {
  return view.slots_ + ((word & LineWord::kSlot) << view.line_shift_) + within;
}

// Reads a value if its line is in the cache.
template <typename T>
__device__ bool TryHit(const cuspanArrayView_t& view, const Position& at, T* value) {
  std::uint64_t* const place = view.words_ + at.line;
  const std::uint64_t word = LoadAcquire(place);
  if (!LineWord::Readable(word)) return false;
  const T loaded = LoadValue<T>(AddressIn(view, word, at.within));
  const std::uint64_t again = LoadRelaxed(place);
  if (((word ^ again) & LineWord::kSame) != 0) return false;
  if ((word & LineWord::kUsed) == 0)
    atomicOr(reinterpret_cast<unsigned long long*>(place), LineWord::kUsed);
  *value = loaded;
  return true;
}

// Result of TryPin: the line has as many pins as its word can count.
constexpr std::uint64_t kFull = 1;

// Adds pins to a line in the cache. Returns its word, kFull, or 0 for a line that is not there.
__device__ inline std::uint64_t TryPin(std::uint64_t* place, std::uint32_t pins) {
  std::uint64_t word = LoadRelaxed(place);
  while (LineWord::Readable(word)) {
    if (LineWord::Pins(word) + pins > LineWord::kMaxPins) return kFull;
    const std::uint64_t pinned = (word + pins * LineWord::kOnePin) | LineWord::kUsed;
    const std::uint64_t before = CompareAndSwap(place, word, pinned);
    if (before == word) return word;
    word = before;
  }
  return 0;
}

__device__ inline std::uint64_t Broadcast(unsigned mask, std::uint64_t value, int lane) {
  return __shfl_sync(mask, static_cast<unsigned long long>(value), lane);
}

// Result of an attempt to fetch a line by lanes that stay together.
struct Fetched {
  bool again = false;      // Another group had it: the line may be in the cache now.
  bool cached = false;     // It is in a slot, and busy until Publish. Otherwise only at `source`.
  std::uint64_t word = 0;  // The word to be published.
  Source source{};
};

// Attempts of a group to get one line.
struct Patience {
  unsigned backoff = kMinBackoff;
  // Waits for a moment. False: long enough, the line is better read past the cache.
  __device__ bool Wait() {
    __nanosleep(backoff);
    backoff *= 2;
    return backoff <= kMaxBackoff;
  }
};

// Fetches a line unless another group does. All lanes of the mask call it with the same line.
__device__ inline Fetched Fetch(const cuspanArrayView_t& view, unsigned mask, int leader,
                                std::uint64_t line, Patience* patience) {
  std::uint64_t* const place = view.words_ + line;
  std::uint64_t claimed = 0;  // The word to be published.
  bool again = false;
  if (static_cast<int>(Lane()) == leader) {
    const std::uint64_t word = LoadAcquire(place);
    if ((word & LineWord::kBusy) != 0) {
      again = patience->Wait();
    } else if (LineWord::Readable(word)) {
      again = true;
    } else {
      const std::uint64_t generation = word & LineWord::kGeneration;
      again = CompareAndSwap(place, word, generation | LineWord::kBusy) != word;
      if (!again) {
        const std::uint32_t slot = TakeSlot(view);
        if (slot != kNoSlot)
          claimed = generation | LineWord::kValid | slot;
        else
          StoreRelaxed(place, generation);  // So nobody waits for readers past the cache.
      }
    }
  }
  Fetched fetched;
  fetched.again = __shfl_sync(mask, static_cast<int>(again), leader) != 0;
  if (fetched.again) return fetched;
  fetched.word = Broadcast(mask, claimed, leader);
  fetched.cached = fetched.word != 0;
  fetched.source = SourceOf(view, line);
  if (fetched.cached) {
    __syncwarp(mask);
    CopyLine(mask, AddressIn(view, fetched.word, 0), fetched.source);
    __syncwarp(mask);
  }
  return fetched;
}

// Ends a fetch, after all lanes have what they need of it. `word`: with pins, if any. `values` and
// `bytes_past`: what these lanes read, counted if it is past the cache.
__device__ inline void Publish(const cuspanArrayView_t& view, unsigned mask, int leader,
                               std::uint64_t line, const Fetched& fetched, std::uint64_t word,
                               std::uint32_t values, std::uint32_t bytes_past) {
  __syncwarp(mask);
  if (static_cast<int>(Lane()) != leader) return;
  if (!fetched.cached) {
    Count(view.report_ + CUSPAN_REPORT_PAST, values);
    Count(view.report_ + CUSPAN_REPORT_BYTES, bytes_past);
    return;
  }
  std::uint64_t* const place = view.words_ + line;
  StoreRelaxed(view.owners_ + (word & LineWord::kSlot), reinterpret_cast<std::uint64_t>(place));
  StoreRelease(place, word);
  Count(view.report_ + CUSPAN_REPORT_LINES, 1);
  Count(view.report_ + CUSPAN_REPORT_BYTES, fetched.source.bytes);
}

// Lanes of the mask with this view. Lanes with several arrays go on in a group for each.
__device__ inline unsigned LanesOf(unsigned mask, const cuspanArrayView_t* copy) {
  return __match_any_sync(mask, reinterpret_cast<unsigned long long>(copy));
}

// Reads the values of all lanes of the mask without one, together: a group divided by its own
// misses would take slots from itself.
// `copy`: a view in device memory. A view by value would take registers of every caller.
template <typename T>
__device__ __noinline__ T ReadMissing(const cuspanArrayView_t* copy, unsigned mask, bool have,
                                      Position at, T value) {
  mask = LanesOf(mask, copy);
  const cuspanArrayView_t& view = *copy;
  Patience patience;
  while (const unsigned missing = __ballot_sync(mask, !have)) {
    const int leader = __ffs(static_cast<int>(missing)) - 1;
    const std::uint64_t line = Broadcast(mask, at.line, leader);
    const bool mine = !have && at.line == line;
    if (mine) have = TryHit(view, at, &value);
    const unsigned left = __ballot_sync(mask, mine && !have);
    if (left == 0) continue;
    const Fetched fetched = Fetch(view, mask, leader, line, &patience);
    if (fetched.again) continue;
    if (mine && !have) {
      value = fetched.cached ? LoadValue<T>(AddressIn(view, fetched.word, at.within))
                             : *reinterpret_cast<const T*>(fetched.source.address + at.within);
      have = true;
    }
    Publish(view, mask, leader, line, fetched, fetched.word, __popc(left),
            __popc(left) * sizeof(T));
    patience = Patience();
  }
  return value;
}

struct PinnedLine {
  const unsigned char* address = nullptr;  // First byte of the line.
  std::uint64_t* word = nullptr;  // The word with the pin; null: the line is past the cache.
};

// Pins the lines of all lanes of the mask that want one.
__device__ __noinline__ inline PinnedLine PinTogether(const cuspanArrayView_t* copy, unsigned mask,
                                                      bool wanted, std::uint64_t own_line) {
  mask = LanesOf(mask, copy);
  const cuspanArrayView_t& view = *copy;
  PinnedLine pinned;
  Patience patience;
  while (const unsigned missing = __ballot_sync(mask, wanted)) {
    const int leader = __ffs(static_cast<int>(missing)) - 1;
    const std::uint64_t line = Broadcast(mask, own_line, leader);
    const bool mine = wanted && own_line == line;
    const std::uint32_t pins = __popc(__ballot_sync(mask, mine));
    std::uint64_t* const place = view.words_ + line;
    std::uint64_t word = static_cast<int>(Lane()) == leader ? TryPin(place, pins) : 0;
    word = Broadcast(mask, word, leader);
    Fetched fetched;
    const bool missed = word == 0;
    if (missed) {
      fetched = Fetch(view, mask, leader, line, &patience);
      if (fetched.again) continue;
      word = fetched.cached ? fetched.word : kFull;
    }
    if (mine) {
      wanted = false;
      pinned.address = word != kFull ? AddressIn(view, word, 0) : SourceOf(view, line).address;
      pinned.word = word != kFull ? place : nullptr;
    }
    if (missed || word == kFull)
      Publish(view, mask, leader, line, fetched, fetched.word + pins * LineWord::kOnePin, pins,
              fetched.source.bytes);
    patience = Patience();
    __syncwarp(mask);  // The leader's acquire holds for all lanes.
  }
  return pinned;
}

}  // namespace detail

// A line held in the cache by a thread, until the end of this object. Its elements are read like
// memory.
template <typename T>
class Pin {
 public:
  __device__ Pin(Pin&& other)
      : elements_(other.elements_), word_(other.word_), first_(other.first_), count_(other.count_) {
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
  // Elements of the line, from 0; unchecked.
  __device__ const T& operator[](std::uint32_t i) const { return elements_[i]; }

 private:
  friend class View<T>;
  __device__ Pin() {}

  const T* elements_ = nullptr;
  std::uint64_t* word_ = nullptr;
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
    const std::uint64_t line = inside ? PositionOf(i).line : 0;
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
      const detail::PinnedLine pinned = detail::PinTogether(data.copy_, together, wanted, line);
      if (wanted) {
        pin.elements_ = reinterpret_cast<const T*>(pinned.address + (first - begin));
        pin.word_ = pinned.word;
      }
    }
    return pin;
  }

 private:
  __device__ detail::Position PositionOf(std::uint64_t i) const {
    const std::uint64_t offset = data.start_ + i * sizeof(T);
    return {offset >> data.line_shift_,
            static_cast<std::uint32_t>(offset & ((std::uint64_t{1} << data.line_shift_) - 1))};
  }

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
      at = PositionOf(i);
      have = detail::TryHit(data, at, &value);
    }
    // Lanes may have different arrays: none of them is left behind.
    if (__any_sync(mask, !have)) value = detail::ReadMissing(data.copy_, mask, have, at, value);
    return value;
  }

  __device__ void Report(std::uint64_t i) const {
    if (detail::CompareAndSwap(data.report_ + CUSPAN_REPORT_ERROR, 0, CUSPAN_ERROR_INDEX) == 0)
      data.report_[CUSPAN_REPORT_INDEX] = i;
  }
#endif
};

}  // namespace cuspan::store

#endif
