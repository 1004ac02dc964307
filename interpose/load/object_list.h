// List of the dynamic loader's objects seen so far. The loader appends to its lists and removes
// anywhere, so a single walk finds all recorded objects. Memory comes from the kernel, in pages.
// Threads: one at a time.
#pragma once

#include <link.h>

#include <cstddef>

namespace cuspan::load {

class ObjectList {
 public:
  // Begins a walk over all current objects.
  void Begin();
  // Next object of the walk. True if it was already in the last walk.
  bool Seen(const link_map* map);
  // Keeps the object for the next walk. False if there is no memory.
  bool Keep(const link_map* map);
  // Ends the walk and forgets objects not kept in it.
  void End();

 private:
  struct Item {
    const link_map* map;
    const void* dynamic;  // Distinguishes a new object at the same address.
  };
  struct Items {
    Item* items = nullptr;
    std::size_t count = 0;
    std::size_t capacity = 0;
  };
  static bool Grow(Items* items);

  Items last_;
  Items current_;
  std::size_t position_ = 0;  // Index in last_; earlier items are done.
};

}  // namespace cuspan::load
