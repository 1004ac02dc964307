// Per-thread caches of lookups in shared tables: a repeated lookup takes no lock.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace cuspan {

// Returns the slot of a key. Fibonacci hashing: neighbouring keys get distant slots, also handles
// and pointers with equal low bits.
template <std::size_t kEntries>
std::size_t EntryOfKey(std::uint64_t key) {
  static_assert(kEntries > 1 && std::has_single_bit(kEntries));
  return key * 0x9E3779B97F4A7C15 >> (64 - std::countr_zero(kEntries));
}
template <typename Entry, std::size_t kEntries>
Entry& SlotOf(std::array<Entry, kEntries>& slots, std::uint64_t key) {
  return slots[EntryOfKey<kEntries>(key)];
}

// Values by key. Each key maps to one of `kEntries` slots; a slot keeps its latest value. The
// caller detects stale values, by a version of the table or by a field of the value. Weak pointers
// do not keep values alive: an idle thread does not hold destroyed objects. Shared pointers do, and
// save an atomic operation; they are for small values. Threads: the owner only.
template <typename Value, std::size_t kEntries,
          template <typename> typename Pointer = std::weak_ptr>
class LookupCache {
 public:
  // Returns the value kept with this key (not 0) and version; null if none was kept or it was
  // destroyed.
  std::shared_ptr<Value> Find(std::uint64_t key, std::uint64_t version = 0) const {
    const Entry& entry = entries_[EntryOfKey<kEntries>(key)];
    if (entry.key != key || entry.version != version) return nullptr;
    return std::shared_ptr<Value>(Locked(entry.value));
  }
  // Find without a new reference: the pointer is valid until the next Keep.
  Value* Peek(std::uint64_t key, std::uint64_t version = 0) const
    requires std::same_as<Pointer<Value>, std::shared_ptr<Value>>
  {
    const Entry& entry = entries_[EntryOfKey<kEntries>(key)];
    return entry.key == key && entry.version == version ? entry.value.get() : nullptr;
  }
  // Returns `value`.
  std::shared_ptr<Value> Keep(std::uint64_t key, std::shared_ptr<Value> value,
                              std::uint64_t version = 0) {
    entries_[EntryOfKey<kEntries>(key)] = {key, version, value};
    return value;
  }

 private:
  static std::shared_ptr<Value> Locked(const std::weak_ptr<Value>& value) { return value.lock(); }
  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t version = 0;
    Pointer<Value> value;
  };
  std::array<Entry, kEntries> entries_;
};

}  // namespace cuspan
