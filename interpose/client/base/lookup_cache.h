// What a thread looked up lately in tables that all threads share, so that looking it up again
// takes no lock.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace cuspan {

// Which of `kEntries` places is a key's. Fibonacci hashing: neighbours get places far apart, also
// handles and pointers, whose low bits are all the same.
template <std::size_t kEntries>
std::size_t EntryOfKey(std::uint64_t key) {
  static_assert(kEntries > 1 && std::has_single_bit(kEntries));
  return key * 0x9E3779B97F4A7C15 >> (64 - std::countr_zero(kEntries));
}
template <typename Entry, std::size_t kEntries>
Entry& PlaceOf(std::array<Entry, kEntries>& places, std::uint64_t key) {
  return places[EntryOfKey<kEntries>(key)];
}

// Values by key, each key in one of `kEntries` places; the last one of a entry stays. Whether a
// value is still what the table has is the caller's to know: by a version of the table, or by
// something in the value. With weak pointers it does not keep the values alive: a thread that looks
// up nothing any more would hold what was destroyed long ago. With shared ones it does, which is
// for small values, and costs no atomic operation. Threads: its own only.
template <typename Value, std::size_t kEntries,
          template <typename> typename Pointer = std::weak_ptr>
class LookupCache {
 public:
  // Null unless it was kept with this key, which is not 0, and version, and still lives.
  std::shared_ptr<Value> Find(std::uint64_t key, std::uint64_t version = 0) const {
    const Entry& entry = entries_[EntryOfKey<kEntries>(key)];
    if (entry.key != key || entry.version != version) return nullptr;
    return std::shared_ptr<Value>(Locked(entry.value));
  }
  // The same without a share of it: there until the next Keep.
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
