// Tests the choice of a module's PTX equivalent to the code run by the driver.
#include "proxy/objects/module_ptx.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "protocol/fatbin/fatbin.h"

namespace cuspan::proxy {
namespace {

using fatbin::Kind;

struct Image {
  Kind kind;
  std::uint32_t architecture;
  std::string text;
  std::uint64_t flags = 0;
};

// Makes a fat binary as described in protocol/fatbin/fatbin.h.
std::vector<std::byte> FatBinary(const std::vector<Image>& images) {
  std::vector<std::byte> bytes;
  const auto put = [&bytes](auto value) {
    const auto* const first = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof value);
  };
  std::uint64_t all = 0;
  for (const Image& image : images) all += 64 + image.text.size() + 1;
  put(fatbin::kContainerMagic);
  put(std::uint16_t{1});
  put(std::uint16_t{16});
  put(all);
  for (const Image& image : images) {
    put(static_cast<std::uint16_t>(image.kind));
    put(std::uint16_t{0});
    put(std::uint32_t{64});
    put(std::uint64_t{image.text.size() + 1});
    put(std::uint32_t{0});
    put(std::uint32_t{0});
    put(std::uint16_t{0});
    put(std::uint16_t{9});
    put(image.architecture);
    put(std::uint32_t{0});
    put(std::uint32_t{0});
    put(image.flags | fatbin::kFlag64Bit);
    put(std::uint64_t{0});
    put(std::uint64_t{0});
    for (const char c : image.text) put(c);
    put('\0');
  }
  return bytes;
}

std::string Found(const std::vector<Image>& images, std::uint32_t capability) {
  // The image is already freed when its PTX is requested.
  const ModulePtx kept(FatBinary(images), capability);
  const Result<std::string> ptx = kept.Text();
  if (ptx.ok()) return *ptx;
  EXPECT_EQ(ptx.status().code(), StatusCode::kNotFound) << ptx.status().message();
  return "none";
}

TEST(ModulePtxTest, TheNewestThatTheDeviceCanRun) {
  const std::vector<Image> images = {
      {Kind::kPtx, 75, "75"}, {Kind::kPtx, 90, "90"}, {Kind::kPtx, 100, "100"}};
  EXPECT_EQ(Found(images, 75), "75");
  EXPECT_EQ(Found(images, 86), "75");
  EXPECT_EQ(Found(images, 90), "90");
  EXPECT_EQ(Found(images, 103), "100");
  EXPECT_EQ(Found(images, 70), "none");
}

TEST(ModulePtxTest, NotWhereTheDriverRunsMachineCodeOfANewerSource) {
  EXPECT_EQ(Found({{Kind::kElf, 90, ""}, {Kind::kPtx, 90, "90"}}, 90), "90");
  EXPECT_EQ(Found({{Kind::kElf, 90, ""}, {Kind::kPtx, 75, "75"}}, 90), "none");
  EXPECT_EQ(Found({{Kind::kElf, 80, ""}, {Kind::kPtx, 75, "75"}}, 86), "none");
  // Machine code of another generation can not run.
  EXPECT_EQ(Found({{Kind::kElf, 80, ""}, {Kind::kPtx, 75, "75"}}, 90), "75");
  EXPECT_EQ(Found({{Kind::kElf, 100, ""}, {Kind::kPtx, 75, "75"}}, 90), "75");
}

TEST(ModulePtxTest, WhatIsForOneDeviceOnlyIsForNoOther) {
  const std::vector<Image> exact = {{Kind::kPtx, 90, "90a", fatbin::kFlagExactOnly}};
  EXPECT_EQ(Found(exact, 90), "90a");
  EXPECT_EQ(Found(exact, 100), "none");
  const std::vector<Image> family = {{Kind::kPtx, 100, "100f", fatbin::kFlagFamilyOnly}};
  EXPECT_EQ(Found(family, 103), "100f");
  EXPECT_EQ(Found(family, 120), "none");
  EXPECT_EQ(Found({{Kind::kElf, 90, "", fatbin::kFlagExactOnly}, {Kind::kPtx, 80, "80"}}, 90),
            "none");
}

TEST(ModulePtxTest, TextIsWhatItIsAndMachineCodeHasNone) {
  const std::string text = ".version 9.0\n.target sm_75\n";
  const Result<std::string> found =
      ModulePtx(std::as_bytes(std::span(text.c_str(), text.size() + 1)), 90).Text();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, text);
  const std::string elf =
      "\x7f"
      "ELF\x02\x01\x01";
  EXPECT_FALSE(ModulePtx(std::as_bytes(std::span(elf.data(), elf.size())), 90).Text().ok());
}

TEST(ModulePtxTest, NothingElseIsKept) {
  const std::string code(1 << 20, 'x');
  const ModulePtx kept(
      FatBinary({{Kind::kElf, 90, code}, {Kind::kPtx, 75, code}, {Kind::kPtx, 90, "90"}}), 90);
  EXPECT_EQ(kept.Text().value(), "90");
  EXPECT_LT(kept.bytes(), 16U);
  EXPECT_EQ(ModulePtx(FatBinary({{Kind::kElf, 90, code}}), 90).bytes(), 0U);
  EXPECT_EQ(ModulePtx().Text().status().code(), StatusCode::kNotFound);
}

TEST(ModulePtxTest, DamagedFatBinariesAreRefused) {
  const std::vector<std::byte> whole = FatBinary({{Kind::kPtx, 75, "75"}, {Kind::kElf, 75, "x"}});
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    const Result<std::string> found = ModulePtx(std::span(whole).first(bytes), 75).Text();
    EXPECT_TRUE(!found.ok() || *found != "75") << bytes;
  }
}

}  // namespace
}  // namespace cuspan::proxy
