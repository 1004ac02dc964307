// Tests images in a program's memory, passed to CUDA without a size: damaged images, and images at
// the end of readable memory.
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <span>
#include <vector>

#include "common/readable_memory.h"
#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/image.h"
#include "tests/unit/fuzz_seed.h"
#include "tests/unit/protocol/fatbin/samples.h"

namespace cuspan::fatbin {
namespace {

using Image = std::vector<std::uint8_t>;

constexpr std::size_t kPage = 4096;

// Bytes ending at the end of readable memory.
class AtTheEnd {
 public:
  explicit AtTheEnd(std::span<const std::uint8_t> bytes)
      : mapped_((bytes.size() / kPage + 2) * kPage) {
    void* const mapping =
        ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapping, MAP_FAILED);
    begin_ = static_cast<std::uint8_t*>(mapping);
    data_ = begin_ + mapped_ - kPage - bytes.size();
    EXPECT_EQ(::mprotect(begin_ + mapped_ - kPage, kPage, PROT_NONE), 0);
    std::memcpy(data_, bytes.data(), bytes.size());
  }
  AtTheEnd(const AtTheEnd&) = delete;
  ~AtTheEnd() { ::munmap(begin_, mapped_); }
  std::uint8_t* data() const { return data_; }

 private:
  const std::size_t mapped_;
  std::uint8_t* begin_ = nullptr;
  std::uint8_t* data_ = nullptr;
};

// Reads all bytes reported by ImageBytes.
unsigned Sum(const void* image, std::uint64_t bytes) {
  unsigned sum = 0;
  for (std::uint64_t i = 0; i < bytes; ++i) sum += static_cast<const std::uint8_t*>(image)[i];
  return sum;
}

// Reads the image; crashes on access to unreadable memory.
bool Look(const std::uint8_t* image) {
  if (KindOf(image, IsReadable) == ImageKind::kWrapper) {
    const Result<Wrapper> wrapper = ReadWrapper(image, IsReadable);
    return wrapper.ok() && ContainerBytes(wrapper->container, IsReadable).ok();
  }
  const Result<std::uint64_t> bytes = ImageBytes(image, IsReadable);
  if (bytes.ok()) Sum(image, *bytes);
  return bytes.ok();
}

Image SampleCubin() {
  const Image fatbin = ReadSample("none");
  const Result<Container> container = ReadContainer(fatbin);
  EXPECT_TRUE(container.ok());
  for (const Entry& entry : container->entries)
    if (entry.kind == Kind::kElf) return {entry.payload.begin(), entry.payload.end()};
  ADD_FAILURE() << "no machine code in the sample";
  return {};
}

Image SamplePtx() {
  static constexpr char kText[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
  return {kText, kText + sizeof kText};
}

TEST(ReadableMemory, EndsWhereTheMappingEnds) {
  const AtTheEnd memory(Image(3 * kPage / 2));
  EXPECT_TRUE(IsReadable(memory.data(), 3 * kPage / 2));
  EXPECT_TRUE(IsReadable(memory.data() + 3 * kPage / 2, 0));
  EXPECT_FALSE(IsReadable(memory.data(), 3 * kPage / 2 + 1));
  EXPECT_FALSE(IsReadable(memory.data() + 3 * kPage / 2, 1));
  EXPECT_FALSE(IsReadable(memory.data(), ~std::uint64_t{0}));
  EXPECT_FALSE(IsReadable(nullptr, 1));
}

TEST(ReadableMemory, IsReadInSeveralCalls) {
  const std::size_t bytes = 3000 * kPage;
  const AtTheEnd memory(Image(bytes, 1));
  EXPECT_TRUE(IsReadable(memory.data(), bytes));
  EXPECT_FALSE(IsReadable(memory.data(), bytes + 1));
}

TEST(ImageMemory, WholeImagesAreRead) {
  for (const Image& image : {ReadSample("default"), SampleCubin(), SamplePtx()})
    EXPECT_TRUE(Look(AtTheEnd(image).data()));
}

TEST(ImageMemory, ImagesThatAreCutShortAreRefused) {
  for (const Image& image : {ReadSample("default"), SampleCubin(), SamplePtx()}) {
    const std::uint64_t whole = *ImageBytes(image.data(), image.size());
    for (std::size_t bytes = 1; bytes < whole; bytes += 1 + bytes / 8)
      EXPECT_FALSE(Look(AtTheEnd(std::span(image).first(bytes)).data())) << bytes;
  }
}

TEST(ImageMemory, TablesFarOutsideAreRefused) {
  for (const std::uint64_t place : {std::uint64_t{1} << 20, std::uint64_t{1} << 30,
                                    std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    Image image = SampleCubin();
    for (const std::size_t field : {offsetof(Elf64_Ehdr, e_shoff), offsetof(Elf64_Ehdr, e_phoff)}) {
      Image damaged = image;
      std::memcpy(damaged.data() + field, &place, sizeof place);
      EXPECT_FALSE(Look(AtTheEnd(damaged).data())) << place;
    }
  }
}

TEST(ImageMemory, DamagedWrappersAreRefused) {
  const AtTheEnd container(ReadSample("default"));
  struct {
    std::uint32_t magic = kWrapperMagic, version = 2;
    const void* container;
    const void* const* objects = nullptr;
  } wrapper;
  const auto look = [&] {
    Image image(sizeof wrapper);
    std::memcpy(image.data(), &wrapper, sizeof wrapper);
    return Look(AtTheEnd(image).data());
  };
  wrapper.container = container.data();
  EXPECT_TRUE(look());
  // A list without an end mark.
  const AtTheEnd list(Image(3 * sizeof(void*), 0xff));
  wrapper.objects = reinterpret_cast<const void* const*>(list.data());
  EXPECT_FALSE(look());
  wrapper.objects = nullptr;
  wrapper.container = reinterpret_cast<const void*>(std::uintptr_t{16});
  EXPECT_FALSE(look());
  const Image cut = ReadSample("default");
  const AtTheEnd cut_container({cut.data(), cut.size() / 2});
  wrapper.container = cut_container.data();
  EXPECT_FALSE(look());
}

// Random damage, most of it in the headers.
TEST(ImageMemory, RandomDamageIsSurvived) {
  std::mt19937_64 random(FuzzSeed(61));
  const Image images[] = {ReadSample("default"), SampleCubin(), SamplePtx()};
  for (int round = 0; round < 3000; ++round) {
    Image image = images[random() % std::size(images)];
    for (std::uint64_t changes = 1 + random() % 4; changes != 0; --changes) {
      const std::size_t most = random() % 2 == 0 ? sizeof(Elf64_Ehdr) : image.size();
      const std::size_t at = random() % std::min(most, image.size());
      const std::size_t bytes = std::min<std::size_t>(1 << random() % 4, image.size() - at);
      const std::uint64_t value = random() >> random() % 64;
      std::memcpy(image.data() + at, &value, bytes);
    }
    Look(AtTheEnd(image).data());
  }
}

}  // namespace
}  // namespace cuspan::fatbin
