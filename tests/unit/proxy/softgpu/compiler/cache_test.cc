// Tests the disk cache of compiled kernels: the store, its keys, and programs using it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "proxy/ptx/index.h"
#include "proxy/softgpu/jit/kernel_cache.h"
#include "proxy/softgpu/jit/kernel_key.h"
#include "proxy/softgpu/jit/program.h"
#include "tests/unit/proxy/softgpu/compiler/device.h"

namespace cuspan::softgpu {
namespace {

namespace fs = std::filesystem;

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "cuspan-cache-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    base_ = path;
  }
  void TearDown() override { fs::remove_all(base_); }

  std::unique_ptr<KernelCache> Open(std::uint64_t most_bytes = 1 << 20) {
    auto cache = KernelCache::Open(folder(), most_bytes);
    EXPECT_TRUE(cache.ok()) << cache.status().message();
    return cache.ok() ? std::move(*cache) : nullptr;
  }
  std::string folder() const { return (base_ / "made" / "by" / "us").string(); }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder())) files.push_back(entry.path());
    return files;
  }
  fs::path OnlyFile() const {
    const auto files = Files();
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? fs::path() : files[0];
  }
  std::uint64_t Bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& file : Files()) bytes += fs::file_size(file);
    return bytes;
  }

  fs::path base_;
};

constexpr CacheKey kKey{1, 2};

// A full disk is reported once and leaves no partial file. Existing entries are still found.
TEST_F(Cache, GoesOnWithAFullDisk) {
  fs::create_directories(folder());
  // Visible to this process only.
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", folder().c_str(), "tmpfs", 0, "size=64k,mode=700") != 0)
    GTEST_SKIP() << "mounting a small file system: " << std::strerror(errno);
  {
    const auto cache = Open();
    const std::string small(1000, 's');
    cache->Store(kKey, small);
    testing::internal::CaptureStderr();
    const std::string large(100'000, 'l');
    for (std::uint64_t key = 10; key < 15; ++key) cache->Store({key, 0}, large);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_THAT(said, testing::HasSubstr(folder()));
    EXPECT_THAT(said, testing::HasSubstr("No space left on device"));
    EXPECT_EQ(Files().size(), 1U);
    EXPECT_EQ(cache->Load(kKey), small);
    EXPECT_EQ(cache->Load({10, 0}), std::nullopt);
  }
  ::umount2(folder().c_str(), MNT_DETACH);
}

TEST_F(Cache, GivesBackWhatWasStored) {
  const auto cache = Open();
  EXPECT_EQ(cache->Load(kKey), std::nullopt);
  cache->Store(kKey, "some code");
  EXPECT_EQ(cache->Load(kKey), "some code");
  EXPECT_EQ(cache->Load({2, 1}), std::nullopt);
  cache->Store(kKey, "");
  EXPECT_EQ(Open()->Load(kKey), "");
}

TEST_F(Cache, IsPrivate) {
  Open()->Store(kKey, "some code");
  struct stat status {};
  ASSERT_EQ(::stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 077, 0u);
  ASSERT_EQ(::stat(OnlyFile().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 077, 0u);
}

TEST_F(Cache, RefusesFoldersThatOthersMayWrite) {
  Open();
  fs::permissions(folder(), fs::perms::others_write, fs::perm_options::add);
  const auto cache = KernelCache::Open(folder(), 1 << 20);
  ASSERT_FALSE(cache.ok());
  EXPECT_EQ(cache.status().code(), StatusCode::kRefused);
}

TEST_F(Cache, RefusesWhatIsNoFolder) {
  EXPECT_EQ(KernelCache::Open("relative/path", 1 << 20).status().code(), StatusCode::kInvalid);
  std::ofstream(base_ / "file") << "text";
  EXPECT_FALSE(KernelCache::Open((base_ / "file").string(), 1 << 20).ok());
  EXPECT_FALSE(KernelCache::Open((base_ / "file" / "below").string(), 1 << 20).ok());
}

TEST_F(Cache, DamagedFilesAreNotUsed) {
  const auto cache = Open();
  cache->Store(kKey, "some code");
  const fs::path file = OnlyFile();
  std::ifstream input(file, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(input), {}};
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 0x10;
    std::ofstream(file, std::ios::binary) << damaged;
    EXPECT_EQ(cache->Load(kKey), std::nullopt) << i;
  }
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(file, std::ios::binary) << whole.substr(0, length);
    EXPECT_EQ(cache->Load(kKey), std::nullopt) << length;
  }
  std::ofstream(file, std::ios::binary) << whole << "more";
  EXPECT_EQ(cache->Load(kKey), std::nullopt);
  cache->Store(kKey, "some code");
  EXPECT_EQ(cache->Load(kKey), "some code");
}

TEST_F(Cache, ForeignFilesAreNotUsed) {
  const auto cache = Open();
  cache->Store(kKey, "some code");
  const fs::path file = OnlyFile();
  fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(cache->Load(kKey), std::nullopt);
  fs::permissions(file, fs::perms::group_write, fs::perm_options::remove);
  EXPECT_EQ(cache->Load(kKey), "some code");
  // A link, a folder and a pipe with this name.
  fs::rename(file, base_ / "elsewhere");
  fs::create_symlink(base_ / "elsewhere", file);
  EXPECT_EQ(cache->Load(kKey), std::nullopt);
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_EQ(cache->Load(kKey), std::nullopt);
  cache->Store(kKey, "other");  // Can not replace it: no error, no file left.
  EXPECT_EQ(Files().size(), 1u);
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(cache->Load(kKey), std::nullopt);
}

TEST_F(Cache, StaysWithinItsSize) {
  constexpr std::uint64_t kMost = 1 << 20;
  const auto cache = Open(kMost);
  const std::string content(20'000, 'x');
  for (std::uint64_t i = 0; i < 200; ++i) cache->Store({i, i}, content);
  // The size is checked whenever another 16th of it was written.
  EXPECT_LE(Bytes(), kMost + kMost / 16 + 2 * content.size());
  EXPECT_EQ(cache->Load({199, 199}), content);
}

TEST_F(Cache, SeveralProcessesUseItAtOnce) {
  constexpr int kProcesses = 4;
  constexpr std::uint64_t kKeys = 7;
  const auto content = [](std::uint64_t key) { return std::string(1000 + key * 777, 'a' + key); };
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto cache = KernelCache::Open(folder(), 12'000);
      bool good = cache.ok();
      for (std::uint64_t round = 0; good && round < 300; ++round) {
        const std::uint64_t key = (round * 5 + static_cast<std::uint64_t>(i)) % kKeys;
        (*cache)->Store({key, 0}, content(key));
        const auto loaded = (*cache)->Load({(key + 1) % kKeys, 0});
        good = !loaded || *loaded == content((key + 1) % kKeys);
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

// --- Keys.

constexpr std::string_view kModule = R"(
.version 9.0
.target sm_80
.address_size 64
.global .u32 used;
.global .u32 unused;
.func helper() { ret; }
.func other() { ret; }
.visible .entry neighbour() { ret; }
.visible .entry kernel() { .reg .u32 %r1; ld.global.u32 %r1, [used]; call helper, (); ret; }
)";

CacheKey KeyIn(std::string text) {
  const auto module = ptx::IndexModule(text);
  EXPECT_TRUE(module.ok()) << module.status().message();
  return jit::KeyOfKernel(text, *module, module->function_index.at("kernel"));
}

CacheKey KeyWith(std::string_view old_text, std::string_view new_text) {
  std::string text(kModule);
  const std::size_t at = text.find(old_text);
  EXPECT_NE(at, std::string::npos);
  return KeyIn(text.replace(at, old_text.size(), new_text));
}

TEST(KernelKey, DependsOnAllThatTheCodeDependsOn) {
  const CacheKey key = KeyIn(std::string(kModule));
  EXPECT_EQ(key, KeyIn(std::string(kModule)));
  EXPECT_NE(key, KeyWith("ld.global.u32 %r1", "ld.volatile.global.u32 %r1"));
  EXPECT_NE(key, KeyWith("helper() { ret; }", "helper() { trap; ret; }"));
  EXPECT_NE(key, KeyWith(".global .u32 used", ".shared .u32 used"));
  EXPECT_NE(key, KeyWith(".global .u32 used", ".global .align 64 .u32 used"));
  EXPECT_NE(key, KeyWith("kernel()", "kernel(.param .u64 p)"));
  EXPECT_NE(key, KeyWith("kernel()", "kernel() .maxntid 64"));
  EXPECT_NE(key, KeyWith("sm_80", "sm_90"));
  EXPECT_NE(key, KeyWith("9.0", "8.0"));
  // Another line number.
  EXPECT_NE(key, KeyWith(".visible .entry kernel", "\n.visible .entry kernel"));
}

TEST(KernelKey, DoesNotDependOnTheRestOfTheModule) {
  const CacheKey key = KeyIn(std::string(kModule));
  EXPECT_EQ(key, KeyWith(".global .u32 unused", ".global .f64 unused"));
  EXPECT_EQ(key, KeyWith("other() { ret; }", "other() { trap; ret; }"));
  EXPECT_EQ(key, KeyWith("neighbour() { ret; }", "neighbour() { trap; }"));
}

TEST(KernelKey, IndirectCallsReachTheWholeModule) {
  const std::string_view call = "call helper, ();";
  const std::string indirect =
      "{ .reg .b64 %d1; p: .callprototype _ (); mov.u64 %d1, helper; call %d1, (), p; }";
  std::string text(kModule);
  text.replace(text.find(call), call.size(), indirect);
  const CacheKey key = KeyIn(text);
  const std::string_view other = "other() { ret; }";
  text.replace(text.find(other), other.size(), "other() { trap; ret; }");
  EXPECT_NE(key, KeyIn(text));
}

TEST(KernelKey, VariantsDiffer) {
  EXPECT_NE(jit::KeyOfVariant(kKey, "a"), jit::KeyOfVariant(kKey, "b"));
  EXPECT_NE(jit::KeyOfVariant(kKey, "a"), jit::KeyOfVariant({2, 1}, "a"));
  EXPECT_EQ(jit::KeyOfVariant(kKey, "a"), jit::KeyOfVariant(kKey, "a"));
}

// --- Programs.

// A kernel writing `value` + the variable `base` (41) to its parameter.
std::string Program41(int value) {
  return Module(Format(R"(
.global .u32 base = 41;
.func (.reg .u32 %result) More(.reg .u32 %x) {{ add.u32 %result, %x, {}; ret; }}
.visible .entry k(.param .u64 p, .param .u32 q) .maxntid 64 {{
  .reg .u32 %r<4>; .reg .u64 %d<2>;
  .shared .u32 s[5];
  ld.global.u32 %r1, [base];
  call (%r2), More, (%r1);
  st.shared.u32 [s], %r2;
  ld.shared.u32 %r3, [s];
  ld.param.u64 %d1, [p];
  st.global.u32 [%d1], %r3;
  ret;
}})",
                       value));
}

TEST_F(Cache, ASecondProgramTakesItsCodeFromIt) {
  const auto cache = Open();
  for (int round = 0; round < 2; ++round) {
    auto program = Program::Load(Program41(1), {cache.get(), false});
    ASSERT_TRUE(program.ok());
    std::uint64_t base = 41 + static_cast<std::uint64_t>(round);
    (*program)->Bind("base", &base);
    const auto info = (*program)->Kernel("k");
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(cache->hits(), round == 0 ? 0u : 1u);
    EXPECT_EQ((*info)->name, "k");
    ASSERT_EQ((*info)->parameters.size(), 2u);
    EXPECT_EQ((*info)->parameters[1].offset, 8u);
    EXPECT_EQ((*info)->parameters[1].bytes, 4u);
    EXPECT_EQ((*info)->parameter_bytes, 12u);
    EXPECT_EQ((*info)->static_shared_bytes, 20u);
    EXPECT_EQ((*info)->max_threads, 64u);
    const auto compiled = (*program)->Compile("k");
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_EQ(cache->hits(), round == 0 ? 0u : 2u);
    EXPECT_NE(compiled->entry, nullptr);
  }
}

TEST_F(Cache, OtherCodeIsNotTaken) {
  const auto cache = Open();
  for (int value = 1; value < 4; ++value) {
    auto program = Program::Load(Program41(value), {cache.get(), false});
    ASSERT_TRUE(program.ok());
    std::uint64_t base = 41;
    (*program)->Bind("base", &base);
    ASSERT_TRUE((*program)->Compile("k").ok());
  }
  EXPECT_EQ(cache->hits(), 0u);
}

// A valid file with the right key, but without a kernel: the kernel is compiled again.
TEST_F(Cache, WhatIsNoKernelIsCompiledAnew) {
  const auto cache = Open();
  std::uint64_t base = 41;
  const auto compile = [&] {
    auto program = Program::Load(Program41(1), {cache.get(), false});
    ASSERT_TRUE(program.ok());
    (*program)->Bind("base", &base);
    const auto compiled = (*program)->Compile("k");
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  };
  compile();
  const auto files = Files();
  ASSERT_EQ(files.size(), 2u);
  for (const std::string content : {"", "x",
                                    "\x7f"
                                    "ELF and then nothing of the kind, at some length"}) {
    for (const auto& file : files) {
      const std::string name = file.stem().string();
      const CacheKey key{std::stoull(name.substr(16), nullptr, 16),
                         std::stoull(name.substr(0, 16), nullptr, 16)};
      cache->Store(key, content);
    }
    compile();
  }
}

}  // namespace
}  // namespace cuspan::softgpu
