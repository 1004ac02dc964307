#include "protocol/fatbin/fatbin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/protocol/fatbin/samples.h"

namespace cuspan::fatbin {
namespace {

struct WrapperBytes {
  std::uint32_t magic = kWrapperMagic;
  std::uint32_t version = 1;
  const void* container = nullptr;
  const void* const* objects = nullptr;
};

TEST(FatbinTest, ListsImagesOfEachCompressMode) {
  const struct {
    const char* name;
    Compression ptx, elf;
  } samples[] = {{"default", Compression::kZstd, Compression::kNone},
                 {"size", Compression::kZstd, Compression::kZstd},
                 {"speed", Compression::kLz4, Compression::kNone},
                 {"none", Compression::kNone, Compression::kNone}};
  for (const auto& sample : samples) {
    SCOPED_TRACE(sample.name);
    const auto bytes = ReadSample(sample.name);
    auto container = ReadContainer(bytes);
    ASSERT_TRUE(container.ok()) << container.status().message();
    EXPECT_EQ(container->bytes, bytes.size());
    ASSERT_EQ(container->entries.size(), 2u);
    for (const Entry& entry : container->entries) {
      EXPECT_EQ(entry.architecture, 80u);
      EXPECT_TRUE(entry.flags & kFlag64Bit);
      EXPECT_FALSE(entry.flags & kFlagDebug);
      EXPECT_THAT(entry.kind, testing::AnyOf(Kind::kPtx, Kind::kElf));
      EXPECT_EQ(entry.compression, entry.kind == Kind::kPtx ? sample.ptx : sample.elf);
      if (entry.kind == Kind::kPtx) {
        EXPECT_GE(entry.version, 10u);
      }
    }
  }
}

TEST(FatbinTest, CarriesTheObjectsOfALink) {
  const auto linked = ReadSample("default"), one = ReadSample("none"), other = ReadSample("size");
  const std::span<const std::byte> objects[] = {std::as_bytes(std::span(one)),
                                                std::as_bytes(std::span(other))};
  std::vector<std::byte> made = WithObjects(std::as_bytes(std::span(linked)), objects);
  const std::span whole(reinterpret_cast<const std::uint8_t*>(made.data()), made.size());
  ASSERT_TRUE(ContainerBytes(made.data()).ok());
  EXPECT_EQ(*ContainerBytes(made.data()), made.size());
  auto container = ReadContainer(whole);
  ASSERT_TRUE(container.ok()) << container.status().message();
  ASSERT_EQ(container->entries.size(), ReadContainer(linked)->entries.size() + 2);
  const Entry& last = container->entries.back();
  EXPECT_EQ(last.kind, Kind::kObject);
  EXPECT_THAT(last.payload, testing::ElementsAreArray(other));
  EXPECT_THAT(container->entries[container->entries.size() - 2].payload,
              testing::ElementsAreArray(one));
  HideObjects(made);
  const std::size_t before = *ContainerBytes(linked.data());
  ASSERT_EQ(*ContainerBytes(made.data()), before);
  EXPECT_THAT(whole.first(before), testing::ElementsAreArray(std::span(linked).first(before)));
}

TEST(FatbinTest, HidesNothingInWhatItDoesNotRead) {
  auto damaged = ReadSample("default");
  damaged.resize(damaged.size() / 2);
  const auto before = damaged;
  HideObjects(std::as_writable_bytes(std::span(damaged)));
  EXPECT_EQ(damaged, before);
}

TEST(FatbinTest, KnowsArchitectureFlags) {
  const auto bytes = ReadSample("many");
  auto container = ReadContainer(bytes);
  ASSERT_TRUE(container.ok()) << container.status().message();
  std::vector<std::pair<std::uint32_t, std::uint64_t>> seen;
  for (const Entry& entry : container->entries) {
    if (entry.kind == Kind::kPtx) {
      seen.emplace_back(entry.architecture, entry.flags & (kFlagExactOnly | kFlagFamilyOnly));
    }
  }
  EXPECT_THAT(seen,
              testing::UnorderedElementsAre(testing::Pair(80, 0), testing::Pair(90, kFlagExactOnly),
                                            testing::Pair(100, kFlagFamilyOnly)));
}

TEST(FatbinTest, ReadsNameAndOptionsOfDebugBuild) {
  const auto bytes = ReadSample("debug");
  auto container = ReadContainer(bytes);
  ASSERT_TRUE(container.ok());
  for (const Entry& entry : container->entries) {
    EXPECT_TRUE(entry.flags & kFlagDebug);
    EXPECT_THAT(entry.name, testing::EndsWith("kernels.cu"));
    if (entry.kind == Kind::kPtx) {
      EXPECT_THAT(entry.options, testing::HasSubstr("-g"));
    }
  }
}

TEST(FatbinTest, LinkTimeImageIsListedButNotDecodable) {
  const auto bytes = ReadSample("lto");
  auto container = ReadContainer(bytes);
  ASSERT_TRUE(container.ok());
  int found = 0;
  for (const Entry& entry : container->entries) {
    if (entry.kind != Kind::kLtoIr) continue;
    ++found;
    EXPECT_EQ(entry.compression, Compression::kUnknown);
  }
  EXPECT_EQ(found, 1);
}

TEST(FatbinTest, IgnoresBytesBehindTheContainer) {
  auto bytes = ReadSample("default");
  const auto size = bytes.size();
  bytes.resize(size + 100, 0xee);
  auto container = ReadContainer(bytes);
  ASSERT_TRUE(container.ok());
  EXPECT_EQ(container->bytes, size);
}

TEST(FatbinTest, WorksAtOddAddresses) {
  auto bytes = ReadSample("default");
  const auto size = bytes.size();
  bytes.insert(bytes.begin(), 0);
  auto length = ContainerBytes(bytes.data() + 1);
  ASSERT_TRUE(length.ok());
  EXPECT_EQ(*length, size);
  EXPECT_TRUE(ReadContainer(std::span(bytes).subspan(1)).ok());
}

TEST(FatbinTest, ReadsWrappers) {
  const auto bytes = ReadSample("default");
  WrapperBytes one;
  one.container = bytes.data();
  auto read = ReadWrapper(&one);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->version, 1u);
  EXPECT_EQ(read->container, bytes.data());
  EXPECT_TRUE(read->objects.empty());

  // Version 2, used for relocatable code.
  const void* objects[] = {bytes.data() + 8, bytes.data() + 16, nullptr};
  WrapperBytes two{kWrapperMagic, 2, bytes.data(), objects};
  read = ReadWrapper(&two);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->version, 2u);
  EXPECT_THAT(read->objects, testing::ElementsAre(objects[0], objects[1]));

  // Version 1 has no list; the field is ignored.
  two.version = 1;
  read = ReadWrapper(&two);
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->objects.empty());
}

TEST(FatbinTest, RefusesWrongWrappers) {
  const auto bytes = ReadSample("default");
  EXPECT_EQ(ReadWrapper(nullptr).status().code(), StatusCode::kInvalid);
  WrapperBytes wrapper{kContainerMagic, 1, bytes.data(), nullptr};
  EXPECT_EQ(ReadWrapper(&wrapper).status().code(), StatusCode::kInvalid);
  wrapper = {kWrapperMagic, 3, bytes.data(), nullptr};
  EXPECT_EQ(ReadWrapper(&wrapper).status().code(), StatusCode::kUnsupported);
  wrapper = {kWrapperMagic, 1, nullptr, nullptr};
  EXPECT_EQ(ReadWrapper(&wrapper).status().code(), StatusCode::kInvalid);
  EXPECT_EQ(ContainerBytes(nullptr).status().code(), StatusCode::kInvalid);
}

TEST(FatbinTest, TellsWrapperFromContainer) {
  const auto bytes = ReadSample("default");
  WrapperBytes wrapper;
  EXPECT_TRUE(IsContainer(bytes.data()));
  EXPECT_FALSE(IsWrapper(bytes.data()));
  EXPECT_TRUE(IsWrapper(&wrapper));
  EXPECT_FALSE(IsContainer(&wrapper));
}

}  // namespace
}  // namespace cuspan::fatbin
