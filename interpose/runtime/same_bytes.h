// Structures of the runtime that the driver has, too, with the same layout and other names.
#pragma once

#include <cstring>
#include <type_traits>

namespace cuspan {

template <typename To, typename From>
To SameBytes(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && alignof(To) == alignof(From));
  static_assert(std::is_trivially_copyable_v<To> && std::is_trivially_copyable_v<From>);
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace cuspan
