// Which of the dynamic loader's objects have been looked at. The loader appends
// to its lists and takes away from anywhere, so the remembered ones are found in
// one walk. One thread at a time; memory comes from the kernel, page by page.
#pragma once

#include <link.h>

#include <cstddef>

namespace cuspan::load {

class ObjectList {
 public:
  // Begins a walk over all objects there are now.
  void Begin();
  // The next object of the walk; true when it was in the last walk already.
  bool Seen(const link_map* map);
  // Keeps the object for the next walk; false when there is no memory.
  bool Keep(const link_map* map);
  // Ends the walk: objects not kept in it are forgotten.
  void End();

 private:
  struct Item {
    const link_map* map;
    const void* dynamic;  // Tells a new object at an old one's address.
  };
  struct Items {
    Item* items = nullptr;
    std::size_t count = 0;
    std::size_t capacity = 0;
  };
  static bool Grow(Items* items);

  Items last_;
  Items current_;
  std::size_t position_ = 0;  // In last_: those before are done with.
};

}  // namespace cuspan::load
