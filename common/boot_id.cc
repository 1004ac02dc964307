#include "common/boot_id.h"

#include <fstream>

namespace cuspan {

std::string BootId() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, boot);
  return boot;
}

}  // namespace cuspan
