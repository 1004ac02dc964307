#include "interpose/load/object_list.h"

#include "interpose/load/syscalls.h"

namespace cuspan::load {

void ObjectList::Begin() {
  position_ = 0;
  current_.count = 0;
}

bool ObjectList::Seen(const link_map* map) {
  for (std::size_t i = position_; i < last_.count; ++i) {
    if (last_.items[i].map == map && last_.items[i].dynamic == map->l_ld) {
      position_ = i + 1;
      return true;
    }
  }
  return false;
}

bool ObjectList::Keep(const link_map* map) {
  if (current_.count == current_.capacity && !Grow(&current_)) return false;
  current_.items[current_.count++] = {map, map->l_ld};
  return true;
}

void ObjectList::End() {
  const Items walked = current_;
  current_ = last_;
  last_ = walked;
}

bool ObjectList::Grow(Items* items) {
  const std::size_t capacity = items->capacity == 0 ? 256 : items->capacity * 2;
  const long mapped = SysMap(nullptr, capacity * sizeof(Item), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (Failed(mapped)) return false;
  auto* const grown = reinterpret_cast<Item*>(mapped);
  for (std::size_t i = 0; i < items->count; ++i) grown[i] = items->items[i];
  if (items->items != nullptr) SysUnmap(items->items, items->capacity * sizeof(Item));
  items->items = grown;
  items->capacity = capacity;
  return true;
}

}  // namespace cuspan::load
