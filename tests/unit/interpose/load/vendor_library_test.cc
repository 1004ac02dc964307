#include "interpose/load/vendor_library.h"

#include <gtest/gtest.h>

#include "interpose/load/exported_functions.h"
#include "tests/unit/interpose/load/test_files.h"

namespace cuspan::load {
namespace {

constexpr std::size_t kRoomForNvml = 64;

void Count() {}
void Init() {}

constexpr FaceExport kExports[] = {{"nvmlDeviceGetCount_v2", &Count, 2, false},
                                   {"nvmlDeviceGetName", &Count, 1, false},
                                   {"nvmlInit_v2", &Init, 2, false}};
constexpr FaceTable kTable{kExports, 3};

ElfImage Parsed(const std::vector<std::uint8_t>& file) {
  ElfImage image;
  EXPECT_EQ(image.Parse(View(file)), ElfImage::Verdict::kUsable);
  return image;
}

TEST(VendorLibrary, IsToldFromOurs) {
  const std::vector<std::uint8_t> vendor = ReadFile(VENDOR_NVML);
  const std::vector<std::uint8_t> own = ReadFile(OWN_NVML);
  EXPECT_EQ(VendorLibraryAt("/usr/lib/libnvidia-ml.so.1", Parsed(vendor)), VendorLibrary::kNvml);
  EXPECT_EQ(VendorLibraryAt("/usr/lib/libnvidia-ml.so.580.65.06", Parsed(vendor)),
            VendorLibrary::kNvml);
  EXPECT_EQ(VendorLibraryAt("/usr/lib/libnvidia-ptxjitcompiler.so.1", Parsed(vendor)),
            VendorLibrary::kNone);
  EXPECT_EQ(VendorLibraryAt("/usr/lib/libnvidia-ml.so.1", Parsed(own)), VendorLibrary::kNone);
}

TEST(VendorLibrary, FunctionsLeadToOursOrRefuse) {
  const std::vector<std::uint8_t> file = ReadFile(VENDOR_NVML);
  Entry entries[kRoomForNvml];
  ASSERT_EQ(ListVendorLibrary(VendorLibrary::kNvml, Parsed(file), kTable, entries, kRoomForNvml),
            3U);
  int counts = 0;
  int inits = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    counts += entries[i].destination == reinterpret_cast<std::uint64_t>(&Count) ? 1 : 0;
    inits += entries[i].destination == reinterpret_cast<std::uint64_t>(&Init) ? 1 : 0;
  }
  EXPECT_EQ(counts, 1);
  EXPECT_EQ(inits, 1);
  // Without a table all functions are refused: none remains the library's own.
  EXPECT_EQ(
      ListVendorLibrary(VendorLibrary::kNvml, Parsed(file), {nullptr, 0}, entries, kRoomForNvml),
      3U);
}

}  // namespace
}  // namespace cuspan::load
