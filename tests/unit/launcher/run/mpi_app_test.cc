#include "launcher/run/mpi_app.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

using Words = std::vector<std::string>;

TEST(MpiProgram, RanksOnThisHostNeedNothingElse) {
  MpiProgram app;
  app.ranks = 4;
  app.mpirun = {"mpirun", "--oversubscribe"};
  EXPECT_EQ(MpiProgramCommand(app, MpiKind::kOpenMpi, {"LD_PRELOAD"}, {"./app", "-x"}),
            (Words{"mpirun", "--oversubscribe", "-np", "4", "./app", "-x"}));
}

TEST(MpiProgram, RanksStayOnThisHostInAJobOfABatchSystem) {
  MpiProgram app;
  app.ranks = 4;
  app.in_job = true;
  EXPECT_EQ(MpiProgramCommand(app, MpiKind::kOpenMpi, {}, {"./app"}),
            (Words{"mpirun", "-np", "4", "--mca", "ras", "^slurm,tm,lsf,gridengine", "--mca", "plm",
                   "isolated", "--host", "localhost:4", "./app"}));
  EXPECT_EQ(MpiProgramCommand(app, MpiKind::kHydra, {}, {"./app"}),
            (Words{"mpirun", "-np", "4", "-launcher", "fork", "-hosts", "localhost", "./app"}));
  app.mpirun = {"mpirun", "--host", "n1:4"};
  EXPECT_EQ(MpiProgramCommand(app, MpiKind::kOpenMpi, {}, {"./app"}),
            (Words{"mpirun", "--host", "n1:4", "-np", "4", "./app"}));
}

TEST(MpiProgram, OpenMpiIsToldWhichVariablesGoToOtherHosts) {
  MpiProgram app;
  app.ranks = 4;
  app.hosts = {{"a", 2}, {"b", kAllDevices}};
  EXPECT_EQ(MpiProgramCommand(app, MpiKind::kOpenMpi, {"X", "Y"}, {"./app"}),
            (Words{"mpirun", "-np", "4", "--host", "a:2,b", "-x", "X", "-x", "Y", "./app"}));
}

TEST(MpiProgram, HydraHandsThemOnByItself) {
  MpiProgram app;
  app.ranks = 2;
  app.hosts = {{"a", 1}, {"b", 1}};
  EXPECT_EQ(MpiProgramCommand(app, MpiKind::kHydra, {"X"}, {"./app"}),
            (Words{"mpirun", "-np", "2", "-hosts", "a:1,b:1", "./app"}));
}

TEST(MpiProgram, SrunIsKnownByItsName) {
  MpiProgram app;
  for (const char* name : {"srun", "/usr/bin/srun"}) {
    app.mpirun = {name, "--mpi=pmix"};
    EXPECT_TRUE(IsNamedSrun(app));
  }
  app.mpirun = {"mpirun"};
  EXPECT_FALSE(IsNamedSrun(app));
}

TEST(MpiProgram, AnUnknownMpirunIsNamed) {
  MpiProgram app;
  app.mpirun = {"echo"};
  const Result<MpiKind> kind = FindMpiKind(app);
  ASSERT_FALSE(kind.ok());
  EXPECT_NE(kind.status().message().find("echo is not recognised"), std::string::npos);
  EXPECT_NE(kind.status().message().find("--app-mpirun"), std::string::npos);
}

}  // namespace
}  // namespace cuspan
