#include "common/strict.h"

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "common/log.h"
#include "common/settings.h"

namespace cuspan {

void EndIfStrict() {
  if (SettingText(settings::kStrict) != std::string_view("on")) return;
  LogError("CUSPAN_STRICT is on: the program ends here");
  std::fflush(nullptr);
  ::_exit(kStrictExitStatus);
}

}  // namespace cuspan
