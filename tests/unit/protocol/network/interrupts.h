// Creates interrupts for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "protocol/network/sockets.h"

namespace cuspan::net {

inline std::shared_ptr<Interrupt> NewInterrupt() {
  Result<std::shared_ptr<Interrupt>> made = Interrupt::Make("interrupted");
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

}  // namespace cuspan::net
