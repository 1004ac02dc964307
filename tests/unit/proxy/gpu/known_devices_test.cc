#include "proxy/gpu/known_devices.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "proxy/gpu/inventory.h"

namespace cuspan::proxy {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Sets variables for one test.
class Variables {
 public:
  ~Variables() {
    for (const auto& [name, old] : old_)
      old ? ::setenv(name.c_str(), old->c_str(), 1) : ::unsetenv(name.c_str());
  }
  void Set(const std::string& name, const std::string& value) {
    const char* const old = std::getenv(name.c_str());
    old_.try_emplace(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::map<std::string, std::optional<std::string>> old_;
};

std::string State() {
  const std::unique_ptr<Nvml> nvml = Nvml::Load();
  LoadedDriver driver;
  driver.path = "/lib/libcuda.so.1";
  driver.version = 13000;
  return nvml == nullptr ? "no NVML" : StateOfDevices(*nvml, driver);
}

TEST(StateOfDevices, ChangesWithWhatADescriptionDependsOn) {
  const std::string state = State();
  EXPECT_THAT(state, HasSubstr("gpu GPU-01000000-0000-0000-0000-000000000000 9 0\n"));
  EXPECT_THAT(state, HasSubstr("driver /lib/libcuda.so.1 13000 580.1.2\n"));
  EXPECT_EQ(State(), state);
  for (const char* name :
       {"FAKE_NVML_GPUS", "FAKE_NVML_MODE", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY"}) {
    Variables variables;
    variables.Set(name, "2");
    EXPECT_NE(State(), state) << name;
    EXPECT_NE(State(), "") << name;
  }
  EXPECT_EQ(State(), state);
}

TEST(StateOfDevices, ContainsNoSecrets) {
  Variables variables;
  variables.Set("NVIDIA_API_KEY", "secret");
  variables.Set("CUDA_SOMETHING", "secret");
  EXPECT_EQ(State().find("secret"), std::string::npos);
}

TEST(StateOfDevices, IsUnknownWithMigAndWithoutGpus) {
  {
    Variables variables;
    variables.Set("FAKE_NVML_MIG", "1");
    EXPECT_EQ(State(), "");
    variables.Set("FAKE_NVML_MIG", "0");
    EXPECT_NE(State(), "");
  }
  Variables variables;
  variables.Set("FAKE_NVML_GPUS", "0");
  EXPECT_EQ(State(), "");
}

class KnownDevicesTest : public testing::Test {
 protected:
  KnownDevicesTest() {
    char name[] = "/tmp/known-devices-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~KnownDevicesTest() override { std::filesystem::remove_all(folder_); }
  KnownDevices Open() {
    Result<KnownDevices> opened = KnownDevices::Open(folder_.string());
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return std::move(*opened);
  }
  static std::vector<DeviceDescription> Devices(std::size_t count) {
    std::vector<DeviceDescription> devices(count);
    for (std::size_t i = 0; i < count; ++i) {
      devices[i].ordinal = static_cast<std::uint32_t>(i);
      devices[i].name = "a GPU";
      devices[i].memory_bytes = 9;
      devices[i].free_bytes = 5;
      devices[i].attributes = {0, 1024, 7};
    }
    return devices;
  }
  std::vector<std::filesystem::path> Files() const {
    return {std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()};
  }
  std::filesystem::path OnlyFile() const {
    EXPECT_THAT(Files(), SizeIs(1));
    return Files().front();
  }

  std::filesystem::path folder_;
};

TEST_F(KnownDevicesTest, FindsWhatWasKeptForTheState) {
  const KnownDevices known = Open();
  EXPECT_THAT(known.Find("one"), IsEmpty());
  ASSERT_TRUE(known.Keep("one", Devices(3)).ok());
  ASSERT_TRUE(known.Keep("two", Devices(1)).ok());
  const std::vector<DeviceDescription> found = Open().Find("one");
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[2].ordinal, 2U);
  EXPECT_EQ(found[2].name, "a GPU");
  EXPECT_EQ(found[2].attributes, Devices(3)[2].attributes);
  EXPECT_EQ(found[2].free_bytes, kUnknownBytes) << "it changes";
  EXPECT_THAT(known.Find("two"), SizeIs(1));
  EXPECT_THAT(known.Find("on"), IsEmpty());
  ASSERT_TRUE(known.Keep("one", Devices(2)).ok());
  EXPECT_THAT(known.Find("one"), SizeIs(2));
  EXPECT_THAT(Files(), SizeIs(2));
}

TEST_F(KnownDevicesTest, ADescriptionIsUsedForADay) {
  const KnownDevices known = Open();
  ASSERT_TRUE(known.Keep("state", Devices(1)).ok());
  const auto set_age = [this](std::int64_t hours) {
    const timespec then[] = {{::time(nullptr) - hours * 3600, 0},
                             {::time(nullptr) - hours * 3600, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, OnlyFile().c_str(), then, 0), 0);
  };
  set_age(23);
  EXPECT_THAT(known.Find("state"), SizeIs(1));
  set_age(25);
  EXPECT_THAT(known.Find("state"), IsEmpty());
}

TEST_F(KnownDevicesTest, DamagedFilesAreIgnored) {
  const KnownDevices known = Open();
  ASSERT_TRUE(known.Keep("state", Devices(2)).ok());
  const std::filesystem::path file = OnlyFile();
  std::ostringstream whole;
  whole << std::ifstream(file, std::ios::binary).rdbuf();
  const auto write = [&file](const std::string& content) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  };
  for (std::size_t bytes = 0; bytes < whole.str().size(); ++bytes) {
    write(whole.str().substr(0, bytes));
    EXPECT_THAT(known.Find("state"), IsEmpty()) << bytes;
  }
  for (std::size_t at = 0; at < whole.str().size(); ++at) {
    std::string changed = whole.str();
    changed[at] = static_cast<char>(changed[at] ^ 0xff);
    write(changed);
    EXPECT_LE(known.Find("state").size(), 2U) << at;  // A changed value may be a valid one.
  }
  write(std::string(2 << 20, 'x'));
  EXPECT_THAT(known.Find("state"), IsEmpty());
  write(whole.str());
  EXPECT_THAT(known.Find("state"), SizeIs(2));
}

TEST_F(KnownDevicesTest, FilesOfOthersAreIgnored) {
  const KnownDevices known = Open();
  ASSERT_TRUE(known.Keep("state", Devices(2)).ok());
  const std::filesystem::path file = OnlyFile();
  ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
  EXPECT_THAT(known.Find("state"), IsEmpty());
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  EXPECT_THAT(known.Find("state"), SizeIs(2));
  const std::filesystem::path elsewhere = folder_ / "elsewhere";
  std::filesystem::rename(file, elsewhere);
  std::filesystem::create_symlink(elsewhere, file);
  EXPECT_THAT(known.Find("state"), IsEmpty());
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(known.Find("state"), IsEmpty()) << "and does not wait for a writer";

  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(KnownDevices::Open(folder_.string()).status().code(), StatusCode::kRefused);
}

TEST_F(KnownDevicesTest, OldDescriptionsAreRemoved) {
  const KnownDevices known = Open();
  ASSERT_TRUE(known.Keep("old", Devices(1)).ok());
  const timespec long_ago[] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, OnlyFile().c_str(), long_ago, 0), 0);
  std::ofstream(folder_ / "something else") << "stays";
  ASSERT_TRUE(known.Keep("new", Devices(1)).ok());
  EXPECT_THAT(known.Find("old"), IsEmpty());
  EXPECT_THAT(known.Find("new"), SizeIs(1));
  std::ofstream(folder_ / "another-boot-1.devices") << "stays";
  known.Forget();
  EXPECT_THAT(known.Find("new"), IsEmpty());
  EXPECT_THAT(Files(), SizeIs(2)) << "those of other boots, of other hosts perhaps";
}

TEST_F(KnownDevicesTest, AMissingFolderIsReported) {
  const KnownDevices known = Open();
  std::filesystem::remove_all(folder_);
  EXPECT_THAT(known.Keep("state", Devices(1)).message(), HasSubstr("cannot be kept: No such file"));
  known.Forget();
}

// The software GPU takes the place of NVIDIA's driver. Its own settings are no part of the state:
// they show whether the driver was asked.
TEST_F(KnownDevicesTest, AnInventoryAsksTheDriverOnce) {
  if (!std::filesystem::exists(CUSPAN_TEST_FAKE_DRIVER)) GTEST_SKIP() << "no software GPU";
  Variables variables;
  variables.Set("CUSPAN_DEVICE_CACHE", folder_.string());
  variables.Set("CUSPAN_SOFT_NAME", "first");
  const auto name_of = [](bool fresh) {
    const Result<std::vector<DeviceDescription>> devices = ReadInventory("cuda", fresh);
    return devices.ok() && devices->size() == 1 ? devices->front().name
                                                : std::string(devices.status().message());
  };
  EXPECT_EQ(name_of(false), "first");
  variables.Set("CUSPAN_SOFT_NAME", "second");
  EXPECT_EQ(name_of(false), "first") << "kept";
  variables.Set("CUDA_VISIBLE_DEVICES", "0");
  EXPECT_THAT(Files(), SizeIs(1));
  EXPECT_NE(name_of(false), "");
  EXPECT_THAT(Files(), SizeIs(2)) << "another state";
}

}  // namespace
}  // namespace cuspan::proxy
