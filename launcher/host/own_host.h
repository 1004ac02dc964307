// Name of this node.
#pragma once

#include <unistd.h>

#include <climits>
#include <string>

namespace cuspan {

inline std::string OwnHostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace cuspan
