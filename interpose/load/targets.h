// Functions of a program or library to be replaced.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuspan::load {

// One function to be replaced.
struct Target {
  std::uint64_t address;  // Virtual address of its first byte in the file.
  std::uint64_t size;     // From the file; 0 if unknown.
  std::uint64_t limit;    // Start of its successor, or end of the section.
  std::size_t export_index;
};

struct TargetList {
  static constexpr std::size_t kCapacity = 2048;
  Target targets[kCapacity];
  std::size_t count;
};

// Shell sort by `before`: no recursion, no memory, no library.
template <typename T, typename Before>
void Sort(T* items, std::size_t count, Before before) {
  for (std::size_t gap = count / 2; gap > 0; gap /= 2) {
    for (std::size_t i = gap; i < count; ++i) {
      const T moved = items[i];
      std::size_t j = i;
      for (; j >= gap && before(moved, items[j - gap]); j -= gap) items[j] = items[j - gap];
      items[j] = moved;
    }
  }
}

inline void SortByAddress(TargetList* list) {
  Sort(list->targets, list->count,
       [](const Target& a, const Target& b) { return a.address < b.address; });
}

}  // namespace cuspan::load
