// Functions of kernels behind cuspan/store.cuh. Not for programs.
//
// The cache. Each line of a file has a word (LineWord) in device memory. Readers load the word, the
// value and the word again: if both words name the same slot and generation, the value is right. So
// a hit writes nothing. A miss sets the word busy, takes a slot, copies the line into it, and
// publishes the word. The line's bytes are in host memory, at its extent's address, or the host is
// asked for them (store_tables.h).
//
// No deadlock. A group of lanes with a busy line waits for nothing but its turn for an entry of the
// mailbox, and for the host; a group with an entry only for the host, and none has two. It tries a
// bounded number of slots. If none of them is free, or other groups keep the line busy again and
// again, it reads the value past the cache. Pinned lines stay, and nobody waits for the end of a
// pin: threads may hold pins while they miss.
#ifndef CUSPAN_STORE_DEVICE_CUH
#define CUSPAN_STORE_DEVICE_CUH

#include <cstddef>
#include <cstdint>

#include "cuspan/store_tables.h"

namespace cuspan::store::detail {

using Tables = cuspanArrayTables;

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
// Waits for a line that another group fetches, in ns. A line in host memory is read past the cache
// after the longest one.
constexpr unsigned kMinBackoff = 125;
constexpr unsigned kMaxBackoff = 8000;
// Fetches by other groups that a group awaits at most.
constexpr unsigned kMaxFetches = 8;
// Waits for the host, in ns: each is longer than the one before by half of it.
constexpr unsigned kMinHostBackoff = 500;
constexpr unsigned kMaxHostBackoff = 128000;

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
__device__ inline std::uint32_t LoadAcquire(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline void StoreRelease(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
// Words shared with the host.
__device__ inline std::uint64_t LoadAcquireOfHost(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
// No release: whoever took the entry before has loaded the values of its place, and said so.
__device__ inline void StoreForHost(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
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
__device__ inline std::uint32_t TakeSlot(const Tables& tables) {
  const std::uint32_t tries = tables.slot_count < kMaxTries / 2 ? 2 * tables.slot_count : kMaxTries;
  for (std::uint32_t i = 0; i < tries; ++i) {
    const std::uint32_t slot = atomicAdd(tables.hand, 1u) % tables.slot_count;
    std::uint64_t* const place = tables.owners + slot;
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

constexpr std::uint32_t kNoEntry = ~std::uint32_t{0};

// A line's bytes in host memory.
struct Source {
  const unsigned char* address = nullptr;  // Null: they are not there.
  std::uint32_t bytes = 0;                 // Fewer than a line at the end of the file.
  std::uint32_t entry = kNoEntry;          // Place of the mailbox with them, until GiveBack.
  std::uint32_t lap = 0;                   // The leader's.
};

// The line's bytes in its extent; none if this has no address.
__device__ inline Source SourceIn(const Tables& tables, std::uint64_t extent, std::uint64_t line) {
  const std::uint64_t offset = line << tables.line_shift;
  const std::uint64_t within = offset & ((std::uint64_t{1} << CUSPAN_EXTENT_SHIFT) - 1);
  const std::uint64_t left = tables.end - offset;
  const std::uint64_t whole = std::uint64_t{1} << tables.line_shift;
  Source source;
  if (extent != 0) source.address = reinterpret_cast<const unsigned char*>(extent + within);
  source.bytes = static_cast<std::uint32_t>(left < whole ? left : whole);
  return source;
}
__device__ inline std::uint64_t* ExtentOf(const Tables& tables, std::uint64_t line) {
  return tables.extents + (line >> (CUSPAN_EXTENT_SHIFT - tables.line_shift));
}

__device__ inline std::uint64_t Broadcast(unsigned mask, std::uint64_t value, int lane) {
  return __shfl_sync(mask, static_cast<unsigned long long>(value), lane);
}

__device__ inline void ReportError(std::uint64_t* report, std::uint64_t error, std::uint64_t index,
                                   std::uint64_t system_error) {
  if (CompareAndSwap(report + CUSPAN_REPORT_ERROR, 0, error) != 0) return;
  report[CUSPAN_REPORT_INDEX] = index;
  report[CUSPAN_REPORT_ERRNO] = system_error;
}

// Waits for the host, and returns the next wait.
__device__ inline unsigned WaitForHost(unsigned backoff) {
  __nanosleep(backoff);
  return backoff < kMaxHostBackoff ? backoff + backoff / 2 : backoff;
}

// Gives an entry of the mailbox to the next one who asks. Loads of this lane precede it.
__device__ inline void EndTurn(const Tables& tables, std::uint32_t entry, std::uint32_t lap) {
  StoreRelease(tables.turns + entry, lap + 1);
}

// Asks the host for a line. Returns the answer, without its lap. Of an answer with bytes, *entry
// and *lap remain taken.
__device__ inline std::uint64_t AskHost(const Tables& tables, std::uint64_t line,
                                        std::uint32_t* entry, std::uint32_t* lap) {
  std::uint32_t multiprocessor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  const std::uint32_t queue = multiprocessor % tables.queues;
  const std::uint32_t ticket = atomicAdd(tables.tickets + queue, 1u);
  *lap = ticket >> tables.depth_shift;
  *entry = (queue << tables.depth_shift) + (ticket & ((1u << tables.depth_shift) - 1));
  // Laps have as many bits as tickets leave them.
  for (unsigned backoff = kMinHostBackoff;
       ((LoadAcquire(tables.turns + *entry) - *lap) << tables.depth_shift) != 0;)
    backoff = WaitForHost(backoff);
  const std::uint64_t mark = std::uint64_t{(*lap + 1) & 0xff} << CUSPAN_LAP_SHIFT;
  StoreForHost(tables.asked + *entry, mark | std::uint64_t{CUSPAN_ASK_READ} << CUSPAN_ASK_SHIFT |
                                          std::uint64_t{tables.array} << CUSPAN_ASK_ARRAY_SHIFT |
                                          line);
  std::uint64_t answer = 0;
  for (unsigned backoff = kMinHostBackoff;;) {
    backoff = WaitForHost(backoff);
    answer = LoadAcquireOfHost(tables.answered + *entry);
    if ((answer ^ mark) >> CUSPAN_LAP_SHIFT == 0) break;
  }
  answer ^= mark;
  if (answer >> CUSPAN_ANSWER_SHIFT != CUSPAN_ANSWER_BYTES) {
    EndTurn(tables, *entry, *lap);
    *entry = kNoEntry;
  }
  return answer;
}

// Gets a line's bytes from the host. All lanes of the mask call it. The source's address stays null
// if the host can not read them: then that is reported.
__device__ inline void Ask(const Tables& tables, unsigned mask, int leader, std::uint64_t line,
                           Source* source) {
  std::uint64_t answer = 0;
  std::uint32_t entry = kNoEntry;
  if (static_cast<int>(Lane()) == leader) answer = AskHost(tables, line, &entry, &source->lap);
  answer = Broadcast(mask, answer, leader);
  source->entry = __shfl_sync(mask, entry, leader);
  __syncwarp(mask);  // The leader's acquire holds for all lanes.
  const std::uint64_t value = answer & ((std::uint64_t{1} << CUSPAN_ANSWER_SHIFT) - 1);
  switch (answer >> CUSPAN_ANSWER_SHIFT) {
    case CUSPAN_ANSWER_BYTES:
      source->address =
          tables.places + (static_cast<std::uint64_t>(source->entry) << tables.line_shift);
      break;
    case CUSPAN_ANSWER_RESIDENT: {
      const std::uint64_t extent = value << 12;
      source->address = SourceIn(tables, extent, line).address;
      // The host's stores to the extent are seen by whoever sees its address.
      if (static_cast<int>(Lane()) == leader) StoreRelease(ExtentOf(tables, line), extent);
      break;
    }
    default:
      if (static_cast<int>(Lane()) == leader)
        ReportError(tables.report, CUSPAN_ERROR_READ, line << tables.line_shift, value);
  }
}

// Ends the use of a source. Loads of all lanes of the mask precede it.
__device__ inline void GiveBack(const Tables& tables, unsigned mask, int leader, Source* source) {
  if (source->entry == kNoEntry) return;
  __syncwarp(mask);
  if (static_cast<int>(Lane()) == leader) EndTurn(tables, source->entry, source->lap);
  source->entry = kNoEntry;
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
__device__ inline Position PositionOf(std::uint64_t offset, std::uint8_t line_shift) {
  return {offset >> line_shift,
          static_cast<std::uint32_t>(offset & ((std::uint64_t{1} << line_shift) - 1))};
}

// The parts of an array that a hit needs: of its tables or its view.
struct Lines {
  std::uint64_t* words;
  unsigned char* slots;
  std::uint8_t line_shift;

  __device__ unsigned char* AddressIn(std::uint64_t word, std::uint32_t within) const {
    return slots + ((word & LineWord::kSlot) << line_shift) + within;
  }
};
__device__ inline Lines LinesOf(const Tables& tables) {
  return {tables.words, tables.slots, tables.line_shift};
}

// Reads a value if its line is in the cache.
template <typename T>
__device__ bool TryHit(const Lines& lines, const Position& at, T* value) {
  std::uint64_t* const place = lines.words + at.line;
  const std::uint64_t word = LoadAcquire(place);
  if (!LineWord::Readable(word)) return false;
  const T loaded = LoadValue<T>(lines.AddressIn(word, at.within));
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

// Result of an attempt to fetch a line by lanes that stay together.
struct Fetched {
  bool again = false;      // Another group had it: the line may be in the cache now.
  bool cached = false;     // It is in a slot, and busy until Publish. Otherwise only at `source`.
  std::uint64_t word = 0;  // The word to be published.
  Source source{};         // Without an address: not cached, and not to be had.
};

// Attempts of a group to get one line, while other groups fetch it.
struct Patience {
  unsigned backoff = kMinBackoff;
  unsigned fetches = 0;
  std::uint64_t last = 0;  // The busy word seen last.

  // Waits for a moment. False: long enough, the line is better read past the cache. `resident`: it
  // can be read at once.
  __device__ bool Wait(std::uint64_t busy, bool resident) {
    if (busy != last) {
      last = busy;
      ++fetches;
    }
    if (!resident && fetches > kMaxFetches) return false;
    __nanosleep(backoff);
    if (backoff == kMaxBackoff) return !resident;
    backoff *= 2;
    return true;
  }
};

// Claims a line for the cache: sets its word busy, and takes a slot. Returns the word to be
// published; 0: no slot is free, or others are too quick; kTryAgain: the line may be there now.
constexpr std::uint64_t kTryAgain = 1;
__device__ inline std::uint64_t Claim(const Tables& tables, std::uint64_t line, bool resident,
                                      Patience* patience) {
  std::uint64_t* const place = tables.words + line;
  const std::uint64_t word = LoadAcquire(place);
  if ((word & LineWord::kBusy) != 0) return patience->Wait(word, resident) ? kTryAgain : 0;
  if (LineWord::Readable(word)) return kTryAgain;
  const std::uint64_t generation = word & LineWord::kGeneration;
  if (CompareAndSwap(place, word, generation | LineWord::kBusy) != word) return kTryAgain;
  const std::uint32_t slot = TakeSlot(tables);
  if (slot != kNoSlot) return generation | LineWord::kValid | slot;
  StoreRelaxed(place, generation);  // So nobody waits for readers past the cache.
  return 0;
}

// Fetches a line unless another group does. All lanes of the mask call it with the same line.
// `past`: the line is wanted, though there is no slot for it.
__device__ inline Fetched Fetch(const Tables& tables, unsigned mask, int leader, std::uint64_t line,
                                Patience* patience, bool past) {
  std::uint64_t claimed = 0;
  std::uint64_t extent = 0;
  if (static_cast<int>(Lane()) == leader) {
    extent = LoadAcquire(ExtentOf(tables, line));
    claimed = Claim(tables, line, extent != 0, patience);
  }
  Fetched fetched;
  fetched.word = Broadcast(mask, claimed, leader);
  fetched.again = fetched.word == kTryAgain;
  if (fetched.again) return fetched;
  fetched.cached = fetched.word != 0;
  // Other groups may store the address meanwhile: all lanes take the leader's.
  fetched.source = SourceIn(tables, Broadcast(mask, extent, leader), line);
  if (fetched.source.address == nullptr && (fetched.cached || past))
    Ask(tables, mask, leader, line, &fetched.source);
  if (!fetched.cached) return fetched;
  if (fetched.source.address == nullptr) {
    fetched.cached = false;
    if (static_cast<int>(Lane()) == leader) {
      StoreRelaxed(tables.owners + (fetched.word & LineWord::kSlot), 0);
      StoreRelaxed(tables.words + line, fetched.word & LineWord::kGeneration);
    }
    return fetched;
  }
  __syncwarp(mask);
  CopyLine(mask, LinesOf(tables).AddressIn(fetched.word, 0), fetched.source);
  GiveBack(tables, mask, leader, &fetched.source);
  __syncwarp(mask);
  return fetched;
}

// Ends a fetch, after all lanes have what they need of it. `word`: with pins, if any. `values` and
// `bytes_past`: what these lanes read, counted if it is past the cache.
__device__ inline void Publish(const Tables& tables, unsigned mask, int leader, std::uint64_t line,
                               Fetched* fetched, std::uint64_t word, std::uint32_t values,
                               std::uint32_t bytes_past) {
  GiveBack(tables, mask, leader, &fetched->source);
  __syncwarp(mask);
  if (static_cast<int>(Lane()) != leader) return;
  if (!fetched->cached) {
    if (fetched->source.address == nullptr) return;
    Count(tables.report + CUSPAN_REPORT_PAST, values);
    Count(tables.report + CUSPAN_REPORT_BYTES, bytes_past);
    return;
  }
  std::uint64_t* const place = tables.words + line;
  StoreRelaxed(tables.owners + (word & LineWord::kSlot), reinterpret_cast<std::uint64_t>(place));
  StoreRelease(place, word);
  Count(tables.report + CUSPAN_REPORT_LINES, 1);
  Count(tables.report + CUSPAN_REPORT_BYTES, fetched->source.bytes);
}

// Lanes of the mask with these tables. Lanes with several arrays go on in a group for each.
__device__ inline unsigned LanesWith(const Tables* tables, unsigned mask) {
  return __match_any_sync(mask, reinterpret_cast<unsigned long long>(tables));
}

// Reads the values of all lanes of the mask without one, together: a group divided by its own
// misses would take slots from itself. A value that can not be read is left as it is.
template <typename T>
__device__ __noinline__ T ReadMissing(const Tables* array, unsigned mask, bool have, Position at,
                                      T value) {
  mask = LanesWith(array, mask);
  const Tables& tables = *array;
  Patience patience;
  while (const unsigned missing = __ballot_sync(mask, !have)) {
    const int leader = __ffs(static_cast<int>(missing)) - 1;
    const std::uint64_t line = Broadcast(mask, at.line, leader);
    const bool mine = !have && at.line == line;
    if (mine) have = TryHit(LinesOf(tables), at, &value);
    const unsigned left = __ballot_sync(mask, mine && !have);
    if (left == 0) continue;
    Fetched fetched = Fetch(tables, mask, leader, line, &patience, true);
    if (fetched.again) continue;
    if (mine && !have) {
      if (fetched.cached)
        value = LoadValue<T>(LinesOf(tables).AddressIn(fetched.word, at.within));
      else if (fetched.source.address != nullptr)
        value = *reinterpret_cast<const T*>(fetched.source.address + at.within);
      have = true;
    }
    Publish(tables, mask, leader, line, &fetched, fetched.word, __popc(left),
            __popc(left) * sizeof(T));
    patience = Patience();
  }
  return value;
}

// A line held for a thread.
struct PinnedLine {
  // First byte of the line; null: it is neither in the cache nor in host memory.
  const unsigned char* address = nullptr;
  std::uint64_t* word = nullptr;  // The word with the pin; null: the line is past the cache.
};

// Pins the lines of all lanes of the mask that want one.
__device__ __noinline__ inline PinnedLine PinTogether(const Tables* array, unsigned mask,
                                                      bool wanted, std::uint64_t own_line) {
  mask = LanesWith(array, mask);
  const Tables& tables = *array;
  PinnedLine pinned;
  Patience patience;
  while (const unsigned missing = __ballot_sync(mask, wanted)) {
    const int leader = __ffs(static_cast<int>(missing)) - 1;
    const std::uint64_t line = Broadcast(mask, own_line, leader);
    const bool mine = wanted && own_line == line;
    const std::uint32_t pins = __popc(__ballot_sync(mask, mine));
    std::uint64_t* const place = tables.words + line;
    std::uint64_t word = static_cast<int>(Lane()) == leader ? TryPin(place, pins) : 0;
    word = Broadcast(mask, word, leader);
    Fetched fetched;
    if (word == kFull) {
      const std::uint64_t extent =
          static_cast<int>(Lane()) == leader ? LoadAcquire(ExtentOf(tables, line)) : 0;
      fetched.source = SourceIn(tables, Broadcast(mask, extent, leader), line);
    }
    const bool missed = word == 0;
    if (missed) {
      fetched = Fetch(tables, mask, leader, line, &patience, false);
      if (fetched.again) continue;
      word = fetched.cached ? fetched.word : kFull;
    }
    if (mine) {
      wanted = false;
      pinned.address = word != kFull ? LinesOf(tables).AddressIn(word, 0) : fetched.source.address;
      pinned.word = word != kFull ? place : nullptr;
    }
    if (missed || word == kFull)
      Publish(tables, mask, leader, line, &fetched, fetched.word + pins * LineWord::kOnePin, pins,
              fetched.source.bytes);
    patience = Patience();
    __syncwarp(mask);  // The leader's acquire holds for all lanes.
  }
  return pinned;
}

}  // namespace cuspan::store::detail

#endif
