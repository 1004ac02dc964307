#include "interpose/load/patch.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/interpose/load/test_files.h"

namespace cuspan::load {
namespace {

using Function = int (*)();

int Replacement() { return 1000; }
int OtherReplacement() { return 2000; }

// A library of functions to overwrite, loaded anew for each test.
class Patching : public testing::Test {
 protected:
  Patching() : file_(ReadFile(VICTIMS)), descriptor_(fileno(OpenFile())) {
    library_ = dlopen(VICTIMS, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr) << dlerror();
    link_map* map = nullptr;
    EXPECT_EQ(dlinfo(library_, RTLD_DI_LINKMAP, &map), 0);
    bias_ = map->l_addr;
    EXPECT_EQ(image_.Parse(View(file_)), ElfImage::Verdict::kUsable);
  }
  ~Patching() override {
    dlclose(library_);
    std::fclose(stream_);
  }

  int Call(const char* name) { return reinterpret_cast<Function>(dlsym(library_, name))(); }

  Entry EntryOf(const char* name, Function destination) {
    const SymbolTable symbols = image_.Symbols(SHT_SYMTAB);
    Entry entry{0, 0, ~std::uint64_t{0}, reinterpret_cast<std::uint64_t>(destination)};
    for (std::size_t i = 0; i < symbols.count(); ++i) {
      const Elf64_Sym symbol = symbols.Get(i);
      if (std::strcmp(symbols.Name(symbol), name) != 0) continue;
      entry.address = symbol.st_value;
      entry.size = symbol.st_size;
    }
    EXPECT_NE(entry.address, 0u) << name;
    for (std::size_t i = 0; i < symbols.count(); ++i) {
      const Elf64_Sym symbol = symbols.Get(i);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      if (symbol.st_value > entry.address && symbol.st_value < entry.limit) {
        entry.limit = symbol.st_value;
      }
    }
    return entry;
  }

  PatchReport Patch(std::vector<Entry> entries) {
    return PatchEntries(image_, bias_, descriptor_, entries.data(), entries.size());
  }

 private:
  std::FILE* OpenFile() { return stream_ = std::fopen(VICTIMS, "rb"); }

  std::vector<std::uint8_t> file_;
  std::FILE* stream_ = nullptr;
  int descriptor_;
  ElfImage image_;
  void* library_ = nullptr;
  std::uint64_t bias_ = 0;
};

TEST_F(Patching, SendsCallsElsewhere) {
  EXPECT_EQ(Call("VictimOne"), 1);
  const PatchReport report =
      Patch({EntryOf("VictimOne", &Replacement), EntryOf("VictimThree", &OtherReplacement)});
  ASSERT_EQ(report.verdict, PatchVerdict::kDone);
  EXPECT_EQ(Call("VictimOne"), 1000);
  EXPECT_EQ(Call("VictimTwo"), 2);
  EXPECT_EQ(Call("VictimThree"), 2000);
}

TEST_F(Patching, KeepsTheLandingMark) {
  ASSERT_EQ(Patch({EntryOf("MarkedVictim", &Replacement)}).verdict, PatchVerdict::kDone);
  EXPECT_EQ(Call("MarkedVictim"), 1000);
}

TEST_F(Patching, LeavesNoPageWritableAndExecutable) {
  ASSERT_EQ(Patch({EntryOf("VictimOne", &Replacement)}).verdict, PatchVerdict::kDone);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(VICTIMS) == std::string::npos) continue;
    EXPECT_EQ(line.find(" rwx"), std::string::npos) << line;
  }
}

TEST_F(Patching, ChangesNothingWhenOneFunctionIsTooShort) {
  const PatchReport report =
      Patch({EntryOf("VictimOne", &Replacement), EntryOf("TightOne", &Replacement)});
  EXPECT_EQ(report.verdict, PatchVerdict::kTooShort);
  EXPECT_EQ(report.entry, 1u);
  EXPECT_EQ(Call("VictimOne"), 1);
  EXPECT_EQ(Call("TightOne"), 5);
  EXPECT_EQ(Call("TightTwo"), 6);
}

TEST_F(Patching, ChangesNothingWhenMemoryIsNotAsTheFile) {
  ASSERT_EQ(Patch({EntryOf("VictimTwo", &Replacement)}).verdict, PatchVerdict::kDone);
  const PatchReport report =
      Patch({EntryOf("VictimOne", &Replacement), EntryOf("VictimTwo", &OtherReplacement)});
  EXPECT_EQ(report.verdict, PatchVerdict::kChanged);
  EXPECT_EQ(report.entry, 1u);
  EXPECT_EQ(Call("VictimOne"), 1);
  EXPECT_EQ(Call("VictimTwo"), 1000);
}

TEST_F(Patching, RefusesAddressesOutsideCode) {
  Entry data = EntryOf("VictimOne", &Replacement);
  void* const library = dlopen(VICTIMS, RTLD_NOW);
  data.address += static_cast<std::uint8_t*>(dlsym(library, "victim_data")) -
                  static_cast<std::uint8_t*>(dlsym(library, "VictimOne"));
  data.limit = data.address + 64;
  dlclose(library);
  EXPECT_EQ(Patch({data}).verdict, PatchVerdict::kNoCode);
  data.address = ~std::uint64_t{0} - 3;
  EXPECT_EQ(Patch({data}).verdict, PatchVerdict::kNoCode);
}

// Forbids making memory executable later.
bool DenyNewCode() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(rules), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(Patching, PutsTheCodeBackWhereTheSystemRefuses) {
  const std::vector<Entry> entries = {EntryOf("VictimOne", &Replacement),
                                      EntryOf("VictimThree", &Replacement)};
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!DenyNewCode()) _exit(77);
    const PatchReport report = Patch(entries);
    if (report.verdict != PatchVerdict::kRefused || report.error != EACCES) _exit(1);
    _exit(Call("VictimOne") == 1 && Call("VictimTwo") == 2 && Call("VictimThree") == 3 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this system has no seccomp filters";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

Placement PlaceIn(const std::string& code, std::uint64_t size) {
  return PlaceJump({reinterpret_cast<const std::uint8_t*>(code.data()), code.size()}, size);
}

const std::string kMark = "\xf3\x0f\x1e\xfa";

TEST(PlaceJump, GoesToTheStartOrBehindTheMark) {
  EXPECT_TRUE(PlaceIn(std::string(32, '\x55'), 32).fits);
  EXPECT_EQ(PlaceIn(std::string(32, '\x55'), 32).at, 0u);
  EXPECT_TRUE(PlaceIn(kMark + std::string(32, '\x55'), 36).fits);
  EXPECT_EQ(PlaceIn(kMark + std::string(32, '\x55'), 36).at, 4u);
  EXPECT_EQ(PlaceIn(kMark + std::string(12, '\x55'), 16).at, 0u);  // Too short for both.
  EXPECT_TRUE(PlaceIn(kMark + std::string(12, '\x55'), 16).fits);
}

TEST(PlaceJump, UsesPaddingAndNothingElse) {
  EXPECT_TRUE(PlaceIn(std::string(10, '\x55') + std::string(6, '\x90'), 10).fits);
  EXPECT_FALSE(PlaceIn(std::string(16, '\x55'), 10).fits);
  EXPECT_FALSE(PlaceIn(std::string(13, '\x55'), 13).fits);
  EXPECT_TRUE(PlaceIn(std::string(14, '\x55'), 0).fits);
  EXPECT_FALSE(PlaceIn("", 0).fits);
  EXPECT_FALSE(PlaceIn("", 100).fits);
}

bool Padding(const std::string& code, std::size_t length) {
  return IsPadding({reinterpret_cast<const std::uint8_t*>(code.data()), code.size()}, length);
}

// No-operations of one to eleven bytes, from the processor's manual and the assembler.
TEST(IsPadding, KnowsEveryLengthOfNop) {
  using namespace std::string_literals;
  const std::string nops[] = {"\x90"s,
                              "\x66\x90"s,
                              "\x0f\x1f\x00"s,
                              "\x0f\x1f\x40\x00"s,
                              "\x0f\x1f\x44\x00\x00"s,
                              "\x66\x0f\x1f\x44\x00\x00"s,
                              "\x0f\x1f\x80\x00\x00\x00\x00"s,
                              "\x0f\x1f\x84\x00\x00\x00\x00\x00"s,
                              "\x66\x0f\x1f\x84\x00\x00\x00\x00\x00"s,
                              "\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"s,
                              "\x66\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"s};
  for (std::size_t i = 0; i < std::size(nops); ++i) {
    ASSERT_EQ(nops[i].size(), i + 1);
    EXPECT_TRUE(Padding(nops[i], nops[i].size())) << i;
    EXPECT_TRUE(Padding(nops[i] + "\x55", 1)) << i;
    EXPECT_FALSE(Padding(nops[i] + "\x55", i + 2)) << i;
    if (i > 0) {
      EXPECT_FALSE(Padding(nops[i].substr(0, i), i)) << i;
    }
  }
  EXPECT_TRUE(Padding("\xcc\xcc\xcc", 3));
  EXPECT_FALSE(Padding("\xc3", 1));
}

}  // namespace
}  // namespace cuspan::load
