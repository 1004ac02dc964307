// The three forms documented for cudaDeviceGetByPCIBusId.
#include "interpose/calls/pci_bus_id.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

TEST(PciBusId, ReadsItsThreeForms) {
  EXPECT_EQ(ParsePciBusId("0001:1A:0f.3"), (PciBusId{1, 0x1a, 0xf, 3}));
  EXPECT_EQ(ParsePciBusId("0001:1a:0f"), (PciBusId{1, 0x1a, 0xf, 0}));
  EXPECT_EQ(ParsePciBusId("1a:0f.3"), (PciBusId{0, 0x1a, 0xf, 3}));
  EXPECT_EQ(ParsePciBusId("00000000:00:06.0"), (PciBusId{0, 0, 6, 0}));
}

TEST(PciBusId, RefusesOtherText) {
  for (const char* text : {"", "zz", "0000:00", "00", "1:2:3:4", "1:2:3.4.5", "1.2:3",
                           "0000:00:06.", "0000:00:06.0 ", "-1:2:3", "fffffffff:1:2"}) {
    EXPECT_FALSE(ParsePciBusId(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace cuspan
