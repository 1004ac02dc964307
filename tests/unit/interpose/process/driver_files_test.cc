#include "interpose/process/driver_files.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <string>
#include <vector>

namespace cuspan {
namespace {

using Kind = DriverFile::Kind;

std::vector<DeviceDescription> Devices(const std::string& release) {
  std::vector<DeviceDescription> devices(2);
  devices[0].name = devices[1].name = "NVIDIA H200";
  devices[0].pci_bus_id = "0000:AB:00.0";
  devices[1].pci_bus_id = "0000:CD:00.0";
  devices[0].driver_release = release;
  devices[1].uuid[0] = 0x12;
  return devices;
}

TEST(DriverFiles, DevicesOfTheRunAndNoOthers) {
  const auto devices = Devices("580.65.06");
  for (const unsigned number : {0U, 1U}) {
    const DriverFile file = FindDriverFile("/dev/nvidia" + std::to_string(number), devices);
    EXPECT_EQ(file.kind, Kind::kDevice);
    EXPECT_EQ(file.major, 195U);
    EXPECT_EQ(file.minor, number);
  }
  EXPECT_EQ(FindDriverFile("/dev/nvidiactl", devices).minor, 255U);
  EXPECT_EQ(FindDriverFile("/dev/nvidia-uvm", devices).kind, Kind::kDevice);
  for (const char* path :
       {"/dev/nvidia2", "/dev/nvidia", "/dev/nvidia01", "/dev/nvidia-1", "/dev/nvidia0x",
        "/dev/nvidia99999999999999", "/dev/nvidiactl2", "/tmp/nvidia0", "/nvidia0"})
    EXPECT_EQ(FindDriverFile(path, devices).kind, Kind::kNone) << path;
  EXPECT_EQ(FindDriverFile("/dev/nvidia0", {}).kind, Kind::kNone);
}

// Readers of the version search for "Kernel Module", two blanks, and the release followed by a
// blank.
TEST(DriverFiles, VersionOfTheDriver) {
  const auto devices = Devices("580.65.06");
  const DriverFile version = FindDriverFile("/proc/driver/nvidia/version", devices);
  EXPECT_EQ(version.kind, Kind::kText);
  EXPECT_NE(version.text.find("Kernel Module  580.65.06 "), std::string::npos);
  EXPECT_EQ(FindDriverFile("/sys/module/nvidia/version", devices).text, "580.65.06\n");
  EXPECT_EQ(FindDriverFile("/sys/module/nvidia", devices).kind, Kind::kFolder);
  for (const char* path :
       {"/proc/driver/nvidia/version", "/sys/module/nvidia/version", "/sys/module/nvidia"})
    EXPECT_EQ(FindDriverFile(path, Devices("")).kind, Kind::kNone) << path;
}

TEST(DriverFiles, FolderOfGpus) {
  const auto devices = Devices("580.65.06");
  EXPECT_EQ(FindDriverFile("/proc/driver/nvidia", devices).names,
            (std::vector<std::string>{"gpus", "version"}));
  EXPECT_EQ(FindDriverFile("/proc/driver/nvidia/gpus", devices).names,
            (std::vector<std::string>{"0000:ab:00.0", "0000:cd:00.0"}));
  EXPECT_EQ(FindDriverFile("/proc/driver/nvidia/gpus/0000:cd:00.0", devices).kind, Kind::kFolder);
  const DriverFile file =
      FindDriverFile("/proc/driver/nvidia/gpus/0000:cd:00.0/information", devices);
  EXPECT_NE(file.text.find("Model: \t\t NVIDIA H200\n"), std::string::npos);
  EXPECT_NE(file.text.find("GPU UUID: \t GPU-12000000-0000-0000-0000-000000000000\n"),
            std::string::npos);
  EXPECT_NE(file.text.find("Device Minor: \t 1\n"), std::string::npos);
  EXPECT_EQ(FindDriverFile("/proc/driver/nvidia/gpus/0000:ef:00.0", devices).kind, Kind::kNone);
}

TEST(DriverFiles, Paths) {
  EXPECT_EQ(AbsolutePath("//dev/./nvidia0", ""), "/dev/nvidia0");
  EXPECT_EQ(AbsolutePath("/dev/shm/../nvidia0", ""), "/dev/nvidia0");
  EXPECT_EQ(AbsolutePath("nvidia0", "/dev"), "/dev/nvidia0");
  EXPECT_EQ(AbsolutePath("../dev/nvidia0/", "/tmp"), "/dev/nvidia0");
  EXPECT_EQ(AbsolutePath("..", "/"), "/");
  EXPECT_TRUE(MayBeDriverFile("/dev/nvidia0"));
  EXPECT_FALSE(MayBeDriverFile("/dev/null"));
  EXPECT_FALSE(MayBeDriverFile(nullptr));
}

TEST(DriverFiles, WhatStatSays) {
  struct stat near {};
  near.st_dev = 6;
  struct stat out {};
  FillStat(FindDriverFile("/dev/nvidia1", Devices("")), near, &out);
  EXPECT_EQ(out.st_mode, static_cast<mode_t>(S_IFCHR | 0666));
  EXPECT_EQ(out.st_rdev, ::makedev(195, 1));
  EXPECT_EQ(out.st_dev, 6U);
  FillStat(FindDriverFile("/proc/driver/nvidia", Devices("")), near, &out);
  EXPECT_TRUE(S_ISDIR(out.st_mode));
}

}  // namespace
}  // namespace cuspan
