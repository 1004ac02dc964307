// Real programs, built by nvcc, with our library preloaded. Its functions print the calls received:
// all calls must arrive, for every way of linking.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/unit/interpose/load/run_program.h"

namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kLaunch = "fake: launch _Z9AddScaledPKfS0_Pfi grid 4 block 256 count 1000\n";

std::string Entered(const std::string& command, const std::string& before = "") {
  return "CUSPAN_SOCKET=/none " + before + Preload(FAKE) + command;
}

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

void ExpectEntered(const Outcome& outcome, std::size_t rounds = 1) {
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(Count(outcome.output, "fake: kernel _Z9AddScaledPKfS0_Pfi\n"), rounds)
      << outcome.output;
  EXPECT_EQ(Count(outcome.output, "fake: variable scale\n"), rounds) << outcome.output;
  EXPECT_EQ(Count(outcome.output, "fake: cudaMalloc 4000\n"), 3 * rounds) << outcome.output;
  EXPECT_EQ(Count(outcome.output, kLaunch), rounds) << outcome.output;
  EXPECT_EQ(Count(outcome.output, "app: done\n"), rounds) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("warning")));
}

class Programs : public testing::TestWithParam<const char*> {};

TEST_P(Programs, AreEntered) {
  ExpectEntered(RunShell(Entered(std::string(PROGRAMS "/") + GetParam())));
}

INSTANTIATE_TEST_SUITE_P(All, Programs,
                         testing::Values("vadd_static", "vadd_fixed", "vadd_relro",
                                         "vadd_exporting", "vadd_rdc", "vadd_strip_g",
                                         "vadd_stripped", "vadd_shared"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Entering, ProgramWhoseLibraryHasCuda) { ExpectEntered(RunShell(Entered(NEEDS_LIBRARY))); }

TEST(Entering, LibrariesLoadedLater) {
  for (const char* library : {"libvadd_static.so", "libvadd_stripped.so", "libvadd_shared.so"}) {
    ExpectEntered(RunShell(Entered(std::string(LOADS_LIBRARY " " PROGRAMS "/") + library)), 2);
  }
}

TEST(Entering, CuptiIsToldItsVersionAndRefuses) {
  const Outcome outcome = RunShell(Entered(LOADS_CUPTI " " CUPTI));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output,
            "app: version 0 130042\n"
            "app: subscribe 27, enable 27\n"
            "app: text 0 CUPTI_ERROR_NOT_SUPPORTED\n"
            "app: other 13\n");
}

TEST(Entering, CuptiOutsideOfRunsIsItsOwn) {
  const Outcome outcome = RunShell(LOADS_CUPTI " " CUPTI);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("app: subscribe 0, enable 0\n"));
}

TEST(Entering, LibrariesLoadedByThreadsAndInAnotherNameSpace) {
  const std::filesystem::path folder =
      testing::TempDir() + "cuspan_load_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::string arguments;
  constexpr int kThreads = 4;
  for (int i = 0; i < kThreads; ++i) {
    const std::filesystem::path copy = folder / ("copy" + std::to_string(i) + ".so");
    std::filesystem::copy_file(PROGRAMS "/libvadd_static.so", copy,
                               std::filesystem::copy_options::overwrite_existing);
    arguments += " " + copy.string();
  }
  const Outcome outcome = RunShell(Entered(LOADS_IN_THREADS + arguments));
  std::filesystem::remove_all(folder);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  // 20 rounds in each thread, and one in a separate linker namespace.
  EXPECT_EQ(Count(outcome.output, kLaunch), 20u * kThreads + 1) << outcome.output;
}

TEST(Entering, LibraryAskedForByTheRuntimesFileName) {
  // No toolkit on the path: the file names must resolve to ours.
  ExpectEntered(RunShell(Entered(PROGRAMS "/vadd_shared", "LD_LIBRARY_PATH=" FAKE_RUNTIME " ")));
}

TEST(Entering, ProgramStartedThroughTheLoader) {
  ExpectEntered(RunShell(Entered("/lib64/ld-linux-x86-64.so.2 " PROGRAMS "/vadd_static")));
  ExpectEntered(RunShell(Entered("/lib64/ld-linux-x86-64.so.2 " PROGRAMS "/vadd_fixed")));
}

TEST(Entering, ProgramWithAnotherNameInItsArguments) {
  ExpectEntered(RunShell(Entered("bash -c 'exec -a somebody_else " PROGRAMS "/vadd_static'")));
}

TEST(Entering, ProgramWhoseFileIsGone) {
  // Executed from memory: the file has no path.
  const int memory = memfd_create("program", 0);
  ASSERT_GE(memory, 0);
  const int program = open(PROGRAMS "/vadd_static", O_RDONLY);
  ASSERT_GE(program, 0);
  const auto size = static_cast<off_t>(std::filesystem::file_size(PROGRAMS "/vadd_static"));
  ASSERT_EQ(ftruncate(memory, size), 0);
  for (off_t done = 0; done < size;) {
    const ssize_t copied = copy_file_range(program, nullptr, memory, nullptr,
                                           static_cast<std::size_t>(size - done), 0);
    if (copied <= 0) {  // Not between these file systems.
      void* to = mmap(nullptr, static_cast<std::size_t>(size), PROT_WRITE, MAP_SHARED, memory, 0);
      ASSERT_NE(to, MAP_FAILED);
      ASSERT_EQ(pread(program, to, static_cast<std::size_t>(size), 0), size);
      munmap(to, static_cast<std::size_t>(size));
      break;
    }
    done += copied;
  }
  close(program);
  ExpectEntered(RunShell(Entered("/proc/self/fd/" + std::to_string(memory))));
  close(memory);
}

TEST(Entering, RuntimesReachedPastTheirNames) {
  const Outcome outcome = RunShell(Entered(CALLS_BY_HANDLE " " REAL_CUDART));
  EXPECT_THAT(outcome.output, HasSubstr("fake: cudaMalloc 1234"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Entering, NothingIsTouchedWithoutASocket) {
  for (const char* variable : {"", "CUSPAN_SOCKET= ", "NOT_CUSPAN_SOCKET=x "}) {
    const Outcome outcome =
        RunShell("unset CUSPAN_SOCKET; " + std::string(variable) + Preload(FAKE) +
                 "LD_LIBRARY_PATH=" FAKE_RUNTIME " " PROGRAMS "/vadd_static");
    EXPECT_THAT(outcome.output, Not(HasSubstr("fake:")));
    EXPECT_THAT(outcome.output, HasSubstr("app: cudaMalloc: error"));
    EXPECT_EQ(outcome.status, 1);
  }
}

TEST(Entering, ProgramsWithoutCudaRunAsEver) {
  const Outcome outcome = RunShell(Entered("sh -c 'seq 3 | sort -r; exit 7'"));
  EXPECT_EQ(outcome.output, "3\n2\n1\n");
  EXPECT_EQ(outcome.status, 7);
}

TEST(Entering, StrippedProgramsGetALineWithTheRemedy) {
  const std::string path = "LD_LIBRARY_PATH=" FAKE_RUNTIME " ";
  for (const std::string& command :
       {std::string(PROGRAMS "/vadd_stripped_damaged"),
        std::string(LOADS_LIBRARY " " PROGRAMS "/libvadd_stripped_damaged.so")}) {
    const Outcome outcome = RunShell(Entered(command, path));
    EXPECT_EQ(outcome.status, 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("stripped_damaged"));
    EXPECT_THAT(outcome.output, HasSubstr("is a stripped binary with a static CUDA runtime"));
    EXPECT_THAT(outcome.output, HasSubstr("nvcc -cudart shared"));
    EXPECT_THAT(outcome.output, Not(HasSubstr("fake:")));
  }
}

TEST(Entering, RefusedBySystemPolicyIsSaidAndHarmless) {
  const std::string path = "LD_LIBRARY_PATH=" FAKE_RUNTIME " ";
  const Outcome refused = RunShell(Entered(DENIES_NEW_CODE " " PROGRAMS "/vadd_static", path));
  if (refused.status == 125) GTEST_SKIP() << "this system has no seccomp filters";
  EXPECT_EQ(refused.status, 1) << refused.output;
  EXPECT_THAT(refused.output,
              HasSubstr("the system does not let cuspan redirect functions in " PROGRAMS
                        "/vadd_static (mprotect: error 13)"));
  EXPECT_THAT(refused.output, HasSubstr("nvcc -cudart shared"));
  EXPECT_THAT(refused.output, Not(HasSubstr("fake:")));
  // Programs without need for patching still work.
  ExpectEntered(RunShell(Entered(DENIES_NEW_CODE " " PROGRAMS "/vadd_shared")));
}

}  // namespace
