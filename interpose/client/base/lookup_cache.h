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

// Which of `kPlaces` places is a key's. Fibonacci hashing: neighbours get places far apart, also
// handles and pointers, whose low bits are all the same.
template <std::size_t kPlaces>
std::size_t PlaceOfKey(std::uint64_t key) {
  static_assert(kPlaces > 1 && std::has_single_bit(kPlaces));
  return key * 0x9E3779B97F4A7C15 >> (64 - std::countr_zero(kPlaces));
}
template <typename Place, std::size_t kPlaces>
Place& PlaceOf(std::array<Place, kPlaces>& places, std::uint64_t key) {
  return places[PlaceOfKey<kPlaces>(key)];
}

// Values by key, each key in one of `kPlaces` places; the last one of a place stays. Whether a
// value is still what the table has is the caller's to know: by a version of the table, or by
// something in the value. With weak pointers it does not keep the values alive: a thread that looks
// up nothing any more would hold what was destroyed long ago. With shared ones it does, which is
// for small values, and costs no atomic operation. Threads: its own only.
template <typename Value, std::size_t kPlaces, template <typename> typename Pointer = std::weak_ptr>
class LookupCache {
 public:
  // Null unless it was kept with this key, which is not 0, and version, and still lives.
  std::shared_ptr<Value> Find(std::uint64_t key, std::uint64_t version = 0) const {
    const Place& place = places_[PlaceOfKey<kPlaces>(key)];
    if (place.key != key || place.version != version) return nullptr;
    return std::shared_ptr<Value>(Locked(place.value));
  }
  // The same without a share of it: there until the next Keep.
  Value* Peek(std::uint64_t key, std::uint64_t version = 0) const
    requires std::same_as<Pointer<Value>, std::shared_ptr<Value>>
  {
    const Place& place = places_[PlaceOfKey<kPlaces>(key)];
    return place.key == key && place.version == version ? place.value.get() : nullptr;
  }
  // Returns `value`.
  std::shared_ptr<Value> Keep(std::uint64_t key, std::shared_ptr<Value> value,
                              std::uint64_t version = 0) {
    places_[PlaceOfKey<kPlaces>(key)] = {key, version, value};
    return value;
  }

 private:
  static std::shared_ptr<Value> Locked(const std::weak_ptr<Value>& value) { return value.lock(); }
  struct Place {
    std::uint64_t key = 0;
    std::uint64_t version = 0;
    Pointer<Value> value;
  };
  std::array<Place, kPlaces> places_;
};

}  // namespace cuspan
