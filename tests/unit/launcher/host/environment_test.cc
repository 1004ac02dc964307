#include "launcher/host/environment.h"
#include "launcher/run/client_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuspan {
namespace {

using testing::UnorderedElementsAre;

const InstallPaths kPaths{"/p/bin/cuspan-agent",
                          "/p/lib/cuspan/cuspan-proxy",
                          "/p/lib/cuspan/libcuspan.so",
                          "/p/lib/cuspan/runtime",
                          "/p/lib/cuspan/cuspan-slurm-shell",
                          "/p/lib/cuspan/cufile.json",
                          "/p/lib/cuspan/cuspan-job-shell"};

RunKey Key() {
  RunKey key;
  key.id = {0, 1, 2, 3, 4, 5, 6, 0xff};
  key.secret[15] = 0xab;
  return key;
}

TEST(RunKey, ReadsWhatItWrites) {
  const auto key = RunKey::Random();
  ASSERT_TRUE(key.ok());
  const auto read = RunKey::Parse(key->Text());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->id, key->id);
  EXPECT_TRUE(SameSecret(read->secret, key->secret));
  EXPECT_EQ(Key().Address(), "cuspan-00010203040506ff");
  for (const char* bad :
       {"", ":", "00:00", "0001020304050607:", "zz01020304050607:00000000000000000000000000000000"})
    EXPECT_FALSE(RunKey::Parse(bad).ok()) << bad;
}

TEST(RunKey, SecretsDifferInAnyByte) {
  for (std::size_t i = 0; i < 16; ++i) {
    Key128 other = Key().secret;
    other[i] ^= 0x80;
    EXPECT_FALSE(SameSecret(other, Key().secret));
  }
}

TEST(AddClient, AddsTheFiveVariablesAndNothingElse) {
  Environment environment({"PATH=/bin"});
  AddClient(environment, kPaths, Key());
  EXPECT_THAT(environment.entries(),
              UnorderedElementsAre("PATH=/bin", "LD_PRELOAD=/p/lib/cuspan/libcuspan.so",
                                   "LD_LIBRARY_PATH=/p/lib/cuspan/runtime",
                                   "CUFILE_ENV_PATH_JSON=/p/lib/cuspan/cufile.json",
                                   "CUSPAN_SOCKET=cuspan-00010203040506ff",
                                   "CUSPAN_SECRET=000000000000000000000000000000ab"));
}

TEST(AddClient, KeepsTheUsersSettingsOfCufile) {
  Environment environment({"CUFILE_ENV_PATH_JSON=/own.json"});
  AddClient(environment, kPaths, Key());
  EXPECT_EQ(environment.Get("CUFILE_ENV_PATH_JSON"), "/own.json");
  StripOuterRun(environment);
  EXPECT_EQ(environment.Get("CUFILE_ENV_PATH_JSON"), "/own.json");
}

TEST(AddClient, GoesAheadOfWhatWasThere) {
  Environment environment({"LD_PRELOAD=/x/liba.so /x/libb.so", "LD_LIBRARY_PATH=/y:/z"});
  AddClient(environment, kPaths, Key());
  EXPECT_EQ(environment.Get("LD_PRELOAD"), "/p/lib/cuspan/libcuspan.so:/x/liba.so /x/libb.so");
  EXPECT_EQ(environment.Get("LD_LIBRARY_PATH"), "/p/lib/cuspan/runtime:/y:/z");
}

TEST(StripOuterRun, RestoresTheEnvironmentBeforeARun) {
  const std::vector<std::string> before = {"HOME=/h", "LD_PRELOAD=/x/liba.so:/x/libb.so",
                                           "LD_LIBRARY_PATH=/y:/z", "CUSPAN_LOG=info"};
  Environment environment(before);
  AddClient(environment, kPaths, Key());
  environment.Set(RunKey::kVariable, Key().Text());
  StripOuterRun(environment);
  std::vector<std::string> after = before;
  after.push_back("CUSPAN_SOCKET=");  // Marks: in no run.
  EXPECT_EQ(environment.entries(), after);

  Environment empty;
  AddClient(empty, kPaths, Key());
  StripOuterRun(empty);
  EXPECT_THAT(empty.entries(), UnorderedElementsAre("CUSPAN_SOCKET="));
}

TEST(StripOuterRun, LeavesOtherListsAsTheyAre) {
  const std::vector<std::string> before = {"LD_PRELOAD=/x/a.so  /x/b.so", "LD_LIBRARY_PATH=:/y:"};
  Environment environment(before);
  StripOuterRun(environment);
  EXPECT_EQ(environment.entries(), before);
}

TEST(StripMpi, RemovesWhatMpirunAddsAndKeepsWhatTheUserChose) {
  Environment environment({"OMPI_COMM_WORLD_RANK=0",
                           "PMIX_RANK=0",
                           "OMPI_MCA_orte_launch=1",
                           "OMPI_MCA_ess=^singleton",
                           "OMPI_MCA_ess_base_vpid=0",
                           "OMPI_MCA_pmix=^s1",
                           "OMPI_MCA_initial_wdir=/tmp",
                           "OMPI_MCA_rmaps_base_oversubscribe=1",
                           "OMPI_MCA_btl_tcp_if_include=ib0",
                           "PMIX_MCA_mca_base_component_show_load_errors=1",
                           "HFI_NO_BACKTRACE=1",
                           "IPATH_NO_BACKTRACE=1",
                           "PRTE_X=1",
                           "COMPILER=mpicc",
                           "PMIX_MCA_gds=hash",
                           "OMPI_ALLOW_RUN_AS_ROOT=1",
                           "PMI_RANK=0",
                           "PMI_SIZE=2",
                           "PMI_FD=6",
                           "HYDI_CONTROL_FD=7",
                           "MPI_LOCALNRANKS=1",
                           "MPI_LOCALRANKID=0",
                           "MPIR_CVAR_CH3_INTERFACE_HOSTNAME=a",
                           "GFORTRAN_UNBUFFERED_PRECONNECTED=y",
                           "MPIR_CVAR_NEMESIS_TCP=1",
                           "PMI_MMAP_SYNC_WAIT_TIME=9"});
  EXPECT_TRUE(InsideMpiJob(environment));
  StripMpi(environment);
  EXPECT_FALSE(InsideMpiJob(environment));
  EXPECT_THAT(environment.entries(),
              UnorderedElementsAre("OMPI_MCA_btl_tcp_if_include=ib0", "COMPILER=mpicc",
                                   "PMIX_MCA_gds=hash", "OMPI_ALLOW_RUN_AS_ROOT=1",
                                   "MPIR_CVAR_NEMESIS_TCP=1", "PMI_MMAP_SYNC_WAIT_TIME=9"));
}

TEST(SettingNames, AreWhatAgentsNeed) {
  Environment environment(
      {"CUSPAN_LOG=info", "CUSPAN_SECRET=x", "CUSPAN_SOCKET=y", "PATH=/bin", "CUSPAN_DEVICE=soft"});
  EXPECT_THAT(SettingNames(environment), UnorderedElementsAre("CUSPAN_LOG", "CUSPAN_DEVICE"));
}

}  // namespace
}  // namespace cuspan
