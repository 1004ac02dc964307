// Conversion between structures of runtime and driver with the same layout and different names.
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
