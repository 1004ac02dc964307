// Registrations of static constructors, with containers made by the test.
#include "interpose/client/base/registry.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <list>
#include <memory>

#include "protocol/fatbin/fatbin.h"

namespace cuspan {
namespace {

// A container with no image, and the wrapper passed by nvcc's code.
struct Program {
  struct Wrapper {
    std::uint32_t magic = fatbin::kWrapperMagic;
    std::uint32_t version = 1;
    const void* container;
    const void* others = nullptr;
  } wrapper;
  alignas(8) std::byte container[16 + 8] = {};

  Program() {
    const std::uint32_t magic = fatbin::kContainerMagic;
    const std::uint16_t version = 1;
    const std::uint16_t header = 16;
    const std::uint64_t payload = 8;
    std::memcpy(container, &magic, 4);
    std::memcpy(container + 4, &version, 2);
    std::memcpy(container + 6, &header, 2);
    std::memcpy(container + 8, &payload, 8);
    wrapper.container = container;
  }
};

TEST(Registry, KeepsTheWholeContainer) {
  Registry registry;
  const Program program;
  const FatbinRecord* const fatbin = registry.AddFatbin(&program.wrapper);
  ASSERT_NE(fatbin, nullptr);
  EXPECT_EQ(fatbin->image.data(), program.container);
  EXPECT_EQ(fatbin->image.size(), sizeof program.container);
}

TEST(Registry, GivesEachFatBinaryItsOwnNumber) {
  Registry registry;
  const Program program;
  EXPECT_NE(registry.AddFatbin(&program.wrapper)->module,
            registry.AddFatbin(&program.wrapper)->module);
}

TEST(Registry, RemembersADamagedFatBinaryAsEmpty) {
  Registry registry;
  Program program;
  program.container[0] = std::byte{0};
  EXPECT_TRUE(registry.AddFatbin(&program.wrapper)->image.empty());
  program.wrapper.magic = 0;
  EXPECT_TRUE(registry.AddFatbin(&program.wrapper)->image.empty());
}

TEST(Registry, FindsKernelsByStubAndByHandle) {
  Registry registry;
  const Program program;
  FatbinRecord* const fatbin = registry.AddFatbin(&program.wrapper);
  const int stub = 0;
  const FunctionRecord* const function = registry.AddFunction(fatbin, &stub, "kernel");
  EXPECT_EQ(registry.FindFunction(&stub), function);
  EXPECT_EQ(registry.FindFunction(function->handle), function);
  EXPECT_EQ(function->name, "kernel");
  EXPECT_EQ(registry.FindFunction(&program), nullptr);
  EXPECT_EQ(registry.FindFunction(nullptr), nullptr);
}

TEST(Registry, FindsVariables) {
  Registry registry;
  const Program program;
  FatbinRecord* const fatbin = registry.AddFatbin(&program.wrapper);
  const int shadow[10] = {};
  const VariableRecord* const variable =
      registry.AddVariable(fatbin, shadow, "table", sizeof shadow, true);
  EXPECT_EQ(registry.FindVariable(shadow), variable);
  EXPECT_EQ(variable->bytes, sizeof shadow);
  EXPECT_TRUE(variable->constant);
  EXPECT_EQ(registry.FindVariable(shadow + 1), nullptr);
}

// Another library may be loaded at the address of the first one.
TEST(Registry, ForgetsTheAddressesOfAnUnloadedLibrary) {
  Registry registry;
  const Program program;
  FatbinRecord* const gone = registry.AddFatbin(&program.wrapper);
  const int stub = 0;
  const int shadow = 0;
  const void* const old_handle = registry.AddFunction(gone, &stub, "old")->handle;
  registry.AddVariable(gone, &shadow, "old", 4, false);
  EXPECT_NE(registry.RemoveFatbin(gone), nullptr);
  EXPECT_EQ(registry.RemoveFatbin(gone), nullptr);
  EXPECT_EQ(registry.FindFunction(&stub), nullptr);
  EXPECT_EQ(registry.FindFunction(old_handle), nullptr);
  EXPECT_EQ(registry.FindVariable(&shadow), nullptr);

  FatbinRecord* const next = registry.AddFatbin(&program.wrapper);
  const FunctionRecord* const function = registry.AddFunction(next, &stub, "new");
  EXPECT_EQ(registry.FindFunction(&stub), function);
}

// Case: a library is loaded there before the unloaded one has unregistered itself.
TEST(Registry, KeepsAnAddressThatIsAnotherLibrarysMeanwhile) {
  Registry registry;
  const Program program;
  FatbinRecord* const gone = registry.AddFatbin(&program.wrapper);
  FatbinRecord* const next = registry.AddFatbin(&program.wrapper);
  const int stub = 0;
  const int shadow = 0;
  registry.AddFunction(gone, &stub, "old");
  registry.AddVariable(gone, &shadow, "old", 4, false);
  const FunctionRecord* const function = registry.AddFunction(next, &stub, "new");
  const VariableRecord* const variable = registry.AddVariable(next, &shadow, "new", 4, false);
  EXPECT_NE(registry.RemoveFatbin(gone), nullptr);
  EXPECT_EQ(registry.FindFunction(&stub), function);
  EXPECT_EQ(registry.FindVariable(&shadow), variable);
}

TEST(Registry, CopiesTheImageOfALibrary) {
  Registry registry;
  Program program;
  char text[] = ".version 8.0\n";
  Result<FatbinRecord*> copied = registry.AddImage(text, false);
  Result<FatbinRecord*> preserved = registry.AddImage(text, true);
  Result<FatbinRecord*> container = registry.AddImage(program.container, false);
  Result<FatbinRecord*> wrapped = registry.AddImage(&program.wrapper, false);
  ASSERT_TRUE(copied.ok() && preserved.ok() && container.ok() && wrapped.ok());
  EXPECT_EQ((*preserved)->image.data(), reinterpret_cast<std::byte*>(text));
  for (FatbinRecord* const record : {*container, *wrapped}) {
    EXPECT_NE(record->image.data(), program.container);
    ASSERT_EQ(record->image.size(), sizeof program.container);
    EXPECT_EQ(std::memcmp(record->image.data(), program.container, sizeof program.container), 0);
  }
  text[1] = '!';
  ASSERT_EQ((*copied)->image.size(), sizeof text);
  EXPECT_EQ(static_cast<char>((*copied)->image[1]), 'v');
  const std::shared_ptr<FatbinRecord> removed = registry.RemoveFatbin(*copied);
  ASSERT_NE(removed, nullptr);
  EXPECT_TRUE(removed->image.empty());
  EXPECT_EQ(removed->owned.size(), 0U);
  program.container[4] = std::byte{9};  // An unknown version.
  EXPECT_FALSE(registry.AddImage(program.container, false).ok());
  program.wrapper.container = nullptr;
  EXPECT_FALSE(registry.AddImage(&program.wrapper, false).ok());
}

// Nothing beyond the end of the image is read or copied.
TEST(Registry, RefusesAnImageThatClaimsMoreThanThereIs) {
  Registry registry;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 1;
  for (const bool preserved : {false, true}) {
    for (const std::uint64_t place : {std::uint64_t{1} << 28, std::uint64_t{1} << 60}) {
      // Other memory may follow the header, but ends long before this offset.
      header.e_shoff = place;
      EXPECT_FALSE(registry.AddImage(&header, preserved).ok()) << place;
    }
    EXPECT_FALSE(
        registry.AddImage(reinterpret_cast<const void*>(std::uintptr_t{8}), preserved).ok());
  }
}

TEST(Registry, KnowsALibrarysKernelsByTheirHandles) {
  Registry registry;
  const Program program;
  FatbinRecord* const fatbin = *registry.AddImage(program.container, true);
  std::list<FunctionRecord> kernels;
  kernels.push_back(NewKernel(*fatbin, "kernel"));
  const FunctionRecord* const kernel = &kernels.front();
  const void* const handle = kernel->handle;
  const std::uint64_t before = registry.version();
  registry.AddKernels(fatbin, std::move(kernels));
  EXPECT_EQ(registry.FindFunction(handle), kernel);
  EXPECT_EQ(registry.FindFunction(nullptr), nullptr);
  EXPECT_NE(registry.version(), before);
  EXPECT_NE(registry.RemoveFatbin(fatbin), nullptr);
  EXPECT_EQ(registry.FindFunction(handle), nullptr);
}

// Case: the node of a graph keeps a kernel of an unloaded library.
TEST(Registry, KeepsTheRecordsThatAreShared) {
  Registry registry;
  const Program program;
  FatbinRecord* const fatbin = registry.AddFatbin(&program.wrapper);
  const int stub = 0;
  const std::shared_ptr<const FunctionRecord> kernel =
      SharedRecord(*registry.AddFunction(fatbin, &stub, "kernel"));
  const std::weak_ptr<FatbinRecord> known = fatbin->weak_from_this();
  EXPECT_NE(registry.RemoveFatbin(fatbin), nullptr);
  EXPECT_EQ(kernel->name, "kernel");
  EXPECT_EQ(registry.FindFunction(kernel->handle), nullptr);
  EXPECT_FALSE(known.expired());
}

TEST(Registry, EndsTheRecordsThatNobodyShares) {
  Registry registry;
  const Program program;
  FatbinRecord* const fatbin = registry.AddFatbin(&program.wrapper);
  const std::weak_ptr<FatbinRecord> known = fatbin->weak_from_this();
  EXPECT_NE(registry.RemoveFatbin(fatbin), nullptr);
  EXPECT_TRUE(known.expired());
}

TEST(Registry, GivesALibrarysManagedVariableAPlace) {
  Registry registry;
  const Program program;
  FatbinRecord* const fatbin = *registry.AddImage(program.container, true);
  void** const place = registry.AddManaged(fatbin, nullptr, "variable");
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(*place, nullptr);
  const auto records = registry.ManagedOf(*fatbin);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0]->host, place);
}

TEST(Registry, KeepsTheFirstReasonOfWhatIsUnsupported) {
  Registry registry;
  const Program program;
  FatbinRecord* const fatbin = registry.AddFatbin(&program.wrapper);
  EXPECT_TRUE(fatbin->unsupported.empty());
  registry.SetUnsupported(fatbin, "first");
  registry.SetUnsupported(fatbin, "second");
  EXPECT_EQ(fatbin->unsupported, "first");
}

}  // namespace
}  // namespace cuspan
